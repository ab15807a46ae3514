// What was deleted is in no byte of the SQLite store's files: sessions and turns.
#include <gtest/gtest.h>

#include "io/fake.h"
#include "tokenlog/sqlite/fake_volume.h"
#include "tokenlog/sqlite/testing.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

TEST(SqliteErase, DeletedTextIsInNoFile) {
  const TempDir folder;
  const auto log = OpenOrFail(folder.File("log.db"));
  TurnCommit secret = MakeCommit(Key("secret"), "CANARYTURN1");
  secret.system_json = "CANARY system";
  secret.head_tokens.assign(100, 0x52414e43);
  secret.turn.items_json = "CANARY items" + std::string(20000, 'i') + "CANARY end";
  secret.turn.params_json = "CANARY params";
  secret.turn.outcome_json = "CANARY outcome";
  secret.turn.idempotency_key = "CANARY key";
  secret.turn.prompt.assign(5000, 0x52414e43);  // "CNAR"
  ASSERT_TRUE(CommitOne(*log, MakeCommit(Key("kept"), "T1")).ok());
  ASSERT_TRUE(CommitOne(*log, secret).ok());
  ASSERT_NE(ReadFile(folder.File("log.db-wal")).find("CANARY items"), std::string::npos);
  ASSERT_TRUE(log->DeleteSession(Key("secret")).ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string bytes = ReadFile(entry.path().string());
    EXPECT_EQ(bytes.find("CANARY"), std::string::npos) << entry.path();
    EXPECT_EQ(bytes.find("CNARCNAR"), std::string::npos) << entry.path();
    EXPECT_EQ(bytes.find("secret"), std::string::npos) << entry.path();
  }
  EXPECT_TRUE(log->FindSession(Key("kept")).ok());
}

TEST(SqliteErase, ErasingWaitsForAReaderAndIsDoneBySettle) {
  const TempDir folder;
  const std::string path = folder.File("log.db");
  const auto log = OpenOrFail(path);
  TurnCommit secret = MakeCommit(Key("secret"), "T1");
  secret.turn.items_json = "CANARY";
  ASSERT_TRUE(CommitOne(*log, secret).ok());
  const auto reader =
      Database::Open({.path = path, .vfs = *RegisterPageVfs(""), .read_only = true});
  ASSERT_TRUE((*reader)->Exec("BEGIN; SELECT * FROM turns").ok());
  ASSERT_TRUE(log->DeleteSession(Key("secret")).ok());
  EXPECT_NE(ReadFile(path + "-wal").find("CANARY"), std::string::npos);
  ASSERT_TRUE((*reader)->Exec("COMMIT").ok());
  ASSERT_TRUE(log->Settle().ok());
  EXPECT_EQ(ReadFile(path + "-wal").find("CANARY"), std::string::npos);
  EXPECT_EQ(ReadFile(path).find("CANARY"), std::string::npos);
}

TEST(SqliteErase, ErasingThatACrashCutShortIsDoneAtTheNextStart) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    FakeVolume volume(seed);
    auto log = OpenOn(volume);
    TurnCommit secret = MakeCommit(Key("secret"), "T1");
    secret.turn.items_json = "CANARY";
    ASSERT_TRUE(CommitOne(*log, secret).ok());
    auto reader = Database::Open({.path = volume.Path("log.db"),
                                  .vfs = *RegisterPageVfs(FakeVolume::VfsName()),
                                  .read_only = true});
    ASSERT_TRUE((*reader)->Exec("BEGIN; SELECT * FROM turns").ok());
    ASSERT_TRUE(log->DeleteSession(Key("secret")).ok());
    volume.HaltAtStep(1);
    reader->reset();
    log.reset();
    ASSERT_NE(volume.Contents("log.db-wal").find("CANARY"), std::string::npos);
    volume.Crash();
    log = OpenOn(volume);
    for (const std::string& name : volume.Names())
      EXPECT_EQ(volume.Contents(name).find("CANARY"), std::string::npos);
    EXPECT_EQ(log->FindSession(Key("secret")).error().code(), Code::kNotFound);
  }
}

// Deleting moves the rows of other sessions between pages. SQLite leaves copies of them in the
// pages' unused middles, out of reach of secure_delete when those sessions go later; the page VFS
// clears them.
TEST(SqliteErase, DeletedTextIsNotLeftInMovedRows) {
  FakeVolume volume(8);
  SeededRandom random(8);
  const auto log = OpenOn(volume);
  constexpr int kSessions = 20;
  std::vector<std::string> heads(kSessions);
  const auto name = [](int s) { return "CANARY" + std::to_string(1000 + s); };
  for (int i = 0; i < 1000; ++i) {
    const int s = static_cast<int>(random.Below(kSessions));
    TurnCommit commit =
        MakeCommit(Key(name(s)), name(s) + "-" + std::to_string(i), heads[static_cast<size_t>(s)]);
    commit.turn.items_json.clear();
    for (uint64_t n = random.Below(80) + 1; n > 0; --n)
      commit.turn.items_json += name(s) + ".";
    if (random.Chance(0.3)) commit.turn.idempotency_key = name(s) + "k" + std::to_string(i);
    ASSERT_TRUE(CommitOne(*log, commit).ok());
    heads[static_cast<size_t>(s)] = commit.turn.id.value;
  }
  std::vector<int> order(kSessions);
  for (int s = 0; s < kSessions; ++s)
    order[static_cast<size_t>(s)] = s;
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.Below(i)]);
  std::vector<std::string> gone;
  for (const int s : order) {
    if (heads[static_cast<size_t>(s)].empty()) continue;
    ASSERT_TRUE(log->DeleteSession(Key(name(s))).ok());
    gone.push_back(name(s));
    for (const std::string& file : volume.Names()) {
      const std::string bytes = volume.Contents(file);
      for (const std::string& canary : gone)
        ASSERT_EQ(bytes.find(canary), std::string::npos) << canary << " " << file;
    }
  }
  EXPECT_EQ(*Dump(*log), "");
}

// A turn that says CANARY wherever it can.
TurnCommit MakeSecret(const SessionKey& key, const std::string& id, const std::string& parent) {
  TurnCommit secret = MakeCommit(key, id, parent);
  secret.turn.items_json = "CANARY items" + std::string(20000, 'i') + "CANARY end";
  secret.turn.params_json = "CANARY params";
  secret.turn.recall_json = "CANARY recall";
  secret.turn.outcome_json = "CANARY outcome";
  secret.turn.idempotency_key = "CANARY key of " + id;
  secret.turn.finish_reason = "CANARY reason";
  secret.turn.prompt.assign(5000, 0x52414e43);  // "CNAR"
  secret.turn.answer.assign(9, 0x52414e43);
  return secret;
}

// The first, one in the middle, the last: text and tokens.
TEST(SqliteErase, DeletedTurnIsInNoFile) {
  for (const std::string gone : {"T1", "T3", "T5"}) {
    const TempDir folder;
    const auto log = OpenOrFail(folder.File("log.db"));
    int64_t id = 0;
    for (int n = 1; n <= 5; ++n) {
      const std::string name = "T" + std::to_string(n);
      const std::string parent = n == 1 ? "" : "T" + std::to_string(n - 1);
      TurnCommit commit = MakeCommit(Key("chat"), name, parent);
      if (name == gone) commit = MakeSecret(Key("chat"), name, parent);
      id = *CommitOne(*log, commit);
    }
    ASSERT_NE(ReadFile(folder.File("log.db-wal")).find("CANARY items"), std::string::npos);
    ASSERT_NE(ReadFile(folder.File("log.db-wal")).find("CNARCNAR"), std::string::npos);
    ASSERT_TRUE(log->DeleteTurn(id, {gone}).ok());
    ASSERT_TRUE(log->Settle().ok());
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const std::string bytes = ReadFile(entry.path().string());
      EXPECT_EQ(bytes.find("CANARY"), std::string::npos) << gone << " " << entry.path();
      EXPECT_EQ(bytes.find("CNARCNAR"), std::string::npos) << gone << " " << entry.path();
    }
    EXPECT_EQ(log->ReadTurns(id, {"T5"})->size(), 5U);
  }
}

TEST(SqliteErase, DeletedTurnThatAReaderOrACrashKeptBack) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    FakeVolume volume(seed);
    auto log = OpenOn(volume);
    const int64_t id = *CommitOne(*log, MakeSecret(Key("chat"), "T1", ""));
    ASSERT_TRUE(CommitOne(*log, MakeCommit(Key("chat"), "T2", "T1")).ok());
    auto reader = Database::Open({.path = volume.Path("log.db"),
                                  .vfs = *RegisterPageVfs(FakeVolume::VfsName()),
                                  .read_only = true});
    ASSERT_TRUE((*reader)->Exec("BEGIN; SELECT * FROM turns").ok());
    ASSERT_TRUE(log->DeleteTurn(id, {"T1"}).ok());
    ASSERT_NE(volume.Contents("log.db-wal").find("CANARY"), std::string::npos);
    if (seed % 2 == 0) {
      reader->reset();
      ASSERT_TRUE(log->Settle().ok());
    } else {
      volume.HaltAtStep(1);
      reader->reset();
      log.reset();
      volume.Crash();
      log = OpenOn(volume);
    }
    for (const std::string& name : volume.Names()) {
      EXPECT_EQ(volume.Contents(name).find("CANARY"), std::string::npos) << name;
      EXPECT_EQ(volume.Contents(name).find("CNARCNAR"), std::string::npos) << name;
    }
    EXPECT_TRUE(log->ReadTurns(id, {"T2"})->front().deleted);
  }
}

// Turns of all sizes between others, in any order: rows move between pages while they shrink.
TEST(SqliteErase, DeletedTurnsAreNotLeftInMovedRows) {
  FakeVolume volume(9);
  SeededRandom random(9);
  const auto log = OpenOn(volume);
  constexpr size_t kTurns = 300;
  std::vector<std::string> ids;
  const auto canary = [](const std::string& id) { return "CANARY." + id + "."; };
  int64_t session = 0;
  for (size_t i = 0; i < kTurns; ++i) {
    const std::string id = "T" + std::to_string(1000 + i);
    TurnCommit commit = MakeCommit(Key("chat"), id, ids.empty() ? "" : ids.back());
    commit.turn.items_json.clear();
    for (uint64_t n = random.Below(80) + 1; n > 0; --n)
      commit.turn.items_json += canary(id);
    commit.turn.outcome_json = canary(id) + std::string(random.Below(3000), 'o');
    if (random.Chance(0.5)) commit.turn.idempotency_key = canary(id);
    session = *CommitOne(*log, commit);
    ids.push_back(id);
  }
  const TurnId head = {ids.back()};
  for (size_t i = ids.size(); i > 1; --i)
    std::swap(ids[i - 1], ids[random.Below(i)]);
  for (size_t i = 0; i < kTurns; ++i) {
    ASSERT_TRUE(log->DeleteTurn(session, {ids[i]}).ok());
    if (i % 10 != 9) continue;
    for (const std::string& file : volume.Names()) {
      const std::string bytes = volume.Contents(file);
      for (size_t gone = 0; gone <= i; ++gone)
        ASSERT_EQ(bytes.find(canary(ids[gone])), std::string::npos) << ids[gone] << " " << file;
    }
    ASSERT_EQ(log->ReadTurns(session, head)->size(), kTurns);
  }
}

}  // namespace
}  // namespace tenuto
