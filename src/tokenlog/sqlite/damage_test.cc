// Damage to the files of the SQLite store: power loss at every step, flipped bytes, lost and
// swapped pages.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <functional>

#include "io/fake.h"
#include "tokenlog/memory/log.h"
#include "tokenlog/sqlite/fake_volume.h"
#include "tokenlog/sqlite/log.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

constexpr size_t kPage = 4096;

Result<std::unique_ptr<SqliteTokenLog>> OpenOn(const FakeVolume& volume,
                                               SqliteMode mode = SqliteMode::kWriter) {
  return SqliteTokenLog::Open(volume.Path("log.db"), mode,
                              {.busy_timeout_ms = 100, .vfs = FakeVolume::VfsName()});
}

TurnCommit Turn(const std::string& session, int i) {
  TurnCommit commit = MakeCommit(Key(session), session + std::to_string(i),
                                 i == 0 ? "" : session + std::to_string(i - 1));
  commit.turn.idempotency_key = "key" + std::to_string(i);
  return commit;
}

// The steps of one story, each of which either happens whole or not at all.
std::vector<std::function<Status(TokenLog&)>> Story() {
  const auto commit = [](std::vector<TurnCommit> batch) {
    return [batch = std::move(batch)](TokenLog& log) -> Status {
      for (auto& verdict : log.Commit(batch))
        TENUTO_TRY(std::move(verdict));
      return Ok();
    };
  };
  std::vector<std::function<Status(TokenLog&)>> story;
  story.push_back([](TokenLog& log) -> Status {
    TENUTO_TRY(log.NextLeaseEpoch());
    return Ok();
  });
  story.push_back(commit({Turn("a", 0)}));
  story.push_back([](TokenLog& log) -> Status {
    TENUTO_TRY(log.AddPieces(1, std::vector{MakePiece(0, 5, 1), MakePiece(5, 9, 1)}));
    return Ok();
  });
  story.push_back(commit({Turn("a", 1), Turn("b", 0)}));
  story.push_back(commit({Turn("b", 1), Turn("b", 2), Turn("a", 2)}));
  story.push_back([](TokenLog& log) -> Status {
    TENUTO_TRY(log.AddPieces(2, std::vector{MakePiece(0, 9, 2)}));
    return Ok();
  });
  story.push_back([](TokenLog& log) -> Status {
    TENUTO_TRY(log.DropPieces(1, std::vector<int64_t>{1}));
    return Ok();
  });
  story.push_back([](TokenLog& log) -> Status {
    TENUTO_TRY(log.DeleteSession(Key("b")));
    return Ok();
  });
  story.push_back(commit({Turn("c", 0), Turn("a", 3)}));
  story.push_back([](TokenLog& log) {
    return log.SetTurnMarks(1, {.turn = {"a0"}, .pinned = true, .superseded_by = {"a1"}});
  });
  story.push_back(
      [](TokenLog& log) { return log.SetTurnMarks(1, {.turn = {"a2"}, .recall_off = true}); });
  story.push_back([](TokenLog& log) { return log.SetSessionSettings(1, "{\"ttl_s\":1}"); });
  story.push_back([](TokenLog& log) { return log.DeleteTurn(1, {"a0"}); });
  story.push_back([](TokenLog& log) { return log.SetTurnMarks(1, {.turn = {"a2"}}); });
  story.push_back([](TokenLog& log) { return log.DeleteTurn(1, {"a3"}); });
  story.push_back(commit({Turn("a", 4)}));
  return story;
}

TEST(FakeVolume, KeepsWhatWasSynced) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    FakeVolume volume(seed);
    sqlite3* db = nullptr;
    ASSERT_EQ(
        sqlite3_open_v2(volume.Path("a.db").c_str(), &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, FakeVolume::VfsName().c_str()),
        SQLITE_OK);
    ASSERT_EQ(
        sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t(x)",
                     nullptr, nullptr, nullptr),
        SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(db, "INSERT INTO t VALUES(1)", nullptr, nullptr, nullptr), SQLITE_OK);
    volume.HaltAtStep(1);
    sqlite3_close(db);
    volume.Crash();
    ASSERT_EQ(sqlite3_open_v2(volume.Path("a.db").c_str(), &db, SQLITE_OPEN_READWRITE,
                              FakeVolume::VfsName().c_str()),
              SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, "INSERT INTO t SELECT x + 1 FROM t", nullptr, nullptr, nullptr),
              SQLITE_OK);
    EXPECT_EQ(sqlite3_changes(db), 1);
    sqlite3_close(db);
  }
}

TEST(SqliteDamage, PowerLossAtEveryStepKeepsWhatWasAcknowledged) {
  const QuietLog quiet;
  const auto story = Story();
  std::vector<std::string> states = {""};  // states[i]: what a log holds after i steps of the story
  {
    MemoryTokenLog oracle;
    for (const auto& act : story) {
      ASSERT_TRUE(act(oracle).ok());
      states.push_back(*Dump(oracle));
    }
  }
  bool finished = false;
  uint64_t in_doubt_kept = 0;
  for (uint64_t step = 1; !finished; ++step) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      FakeVolume volume(step * 100 + seed);
      size_t acknowledged = 0;
      volume.HaltAtStep(step);
      if (auto log = OpenOn(volume); log.ok()) {
        while (acknowledged < story.size() && story[acknowledged](**log).ok())
          ++acknowledged;
        finished = acknowledged == story.size();
      }
      volume.Crash();
      auto log = OpenOn(volume);
      ASSERT_TRUE(log.ok()) << "step " << step << ": " << log.error().message();
      const auto text = Dump(**log);
      ASSERT_TRUE(text.ok()) << "step " << step << ": " << text.error().message();
      // The one write that was under way may be there or not.
      const bool kept = acknowledged < story.size() && *text == states[acknowledged + 1];
      in_doubt_kept += kept && states[acknowledged] != states[acknowledged + 1] ? 1 : 0;
      ASSERT_TRUE(*text == states[acknowledged] || kept) << "step " << step << " seed " << seed;
      // And the log goes on.
      TurnCommit next = MakeCommit(Key("next"), "N1");
      next.lease_epoch = *(*log)->NextLeaseEpoch();
      ASSERT_TRUE(CommitOne(**log, next).ok());
    }
  }
  EXPECT_GT(in_doubt_kept, 0U);  // else the fake loses more than a disk would
}

// A log with every kind of row and page: overflow chains, inner pages, freed pages.
void Fill(TokenLog& log) {
  for (int s = 0; s < 8; ++s) {
    const std::string session = "s" + std::to_string(s);
    int64_t id = 0;
    for (int i = 0; i < 8; ++i) {
      TurnCommit commit = Turn(session, i);
      commit.turn.items_json =
          std::string(static_cast<size_t>((i % 4) * 1500), static_cast<char>('a' + s));
      commit.turn.answer.assign(static_cast<size_t>(i % 3 == 0 ? 1500 : 20), s);
      id = *CommitOne(log, commit);
    }
    for (int p = 0; p < 10; ++p)
      ASSERT_TRUE(log.AddPieces(id, std::vector{MakePiece(p * 10, p * 10 + 10,
                                                          static_cast<uint64_t>(s + 1))})
                      .ok());
  }
  ASSERT_TRUE(log.DeleteSession(Key("s5")).ok());
  const int64_t s6 = log.FindSession(Key("s6"))->id;
  for (const char* turn : {"s60", "s63", "s67"})
    ASSERT_TRUE(log.DeleteTurn(s6, {turn}).ok());
  for (const char* turn : {"s61", "s62", "s66"})
    ASSERT_TRUE(
        log.SetTurnMarks(s6, {.turn = {turn}, .pinned = true, .superseded_by = {"s67"}}).ok());
  ASSERT_TRUE(log.SetSessionSettings(s6, std::string(4000, 's')).ok());
}

// A cleanly closed log and what it holds.
struct Image {
  std::string bytes;
  std::string text;
};

Image MakeImage() {
  FakeVolume volume(1);
  Image image;
  {
    const auto log = OpenOn(volume);
    EXPECT_TRUE(log.ok());
    Fill(**log);
    image.text = *Dump(**log);
  }
  EXPECT_EQ(volume.Names(), std::vector<std::string>{"log.db"});
  image.bytes = volume.Contents("log.db");
  return image;
}

// "same", or the code of the first error; "DIFFERENT" is what must never be.
std::string Outcome(const std::string& bytes, const std::string& text, SqliteMode mode) {
  FakeVolume volume(2);
  volume.Overwrite("log.db", bytes);
  const auto log = OpenOn(volume, mode);
  if (!log.ok()) return std::string(CodeName(log.error().code()));
  const auto read = Dump(**log);
  if (!read.ok()) return std::string(CodeName(read.error().code()));
  return *read == text ? "same" : "DIFFERENT";
}

TEST(SqliteDamage, FlippedBytesAreNeverAnotherHistory) {
  const Image image = MakeImage();
  ASSERT_EQ(image.bytes.size() % kPage, 0U);
  ASSERT_GT(image.bytes.size() / kPage, 50U);
  ASSERT_EQ(Outcome(image.bytes, image.text, SqliteMode::kWriter), "same");
  SeededRandom random(11);
  size_t same = 0;
  size_t corrupt = 0;
  for (size_t page = 0; page < image.bytes.size() / kPage; ++page) {
    for (int i = 0; i < 3; ++i) {
      // The page's header, its checksum, and anywhere.
      const uint64_t at = i == 0   ? random.Below(12)
                          : i == 1 ? kPage - 1 - random.Below(16)
                                   : random.Below(kPage);
      std::string bytes = image.bytes;
      char& byte = bytes[page * kPage + at];
      byte = static_cast<char>(byte ^ static_cast<char>(1 + random.Below(255)));
      const SqliteMode mode = random.Chance(0.5) ? SqliteMode::kWriter : SqliteMode::kReader;
      const std::string outcome = Outcome(bytes, image.text, mode);
      ASSERT_TRUE(outcome == "same" || outcome == "corrupt")
          << outcome << " page " << page << " byte " << at;
      ++(outcome == "same" ? same : corrupt);
    }
  }
  // Most pages are read by Dump; what is not (free pages) cannot matter to it.
  EXPECT_GT(corrupt, 5 * same);
}

TEST(SqliteDamage, EveryByteOfTheFileHeader) {
  const Image image = MakeImage();
  for (size_t at = 0; at < 100; ++at) {
    std::string bytes = image.bytes;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
    for (const SqliteMode mode : {SqliteMode::kWriter, SqliteMode::kReader})
      EXPECT_EQ(Outcome(bytes, image.text, mode), "corrupt") << at;
  }
}

TEST(SqliteDamage, LostAndMisplacedPagesAreFound) {
  const Image image = MakeImage();
  const size_t pages = image.bytes.size() / kPage;
  SeededRandom random(12);
  for (size_t i = 0; i < pages; ++i) {
    // Another page's bytes, zeros, and the end cut off.
    size_t j = random.Below(pages);
    if (j == i) j = (j + 1) % pages;
    std::string moved = image.bytes;
    moved.replace(i * kPage, kPage, image.bytes.substr(j * kPage, kPage));
    std::string zeroed = image.bytes;
    zeroed.replace(i * kPage, kPage, std::string(kPage, '\0'));
    const std::string cut = image.bytes.substr(0, i * kPage + random.Below(kPage - 1) + 1);
    for (const std::string& bytes : {moved, zeroed, cut}) {
      const std::string outcome = Outcome(bytes, image.text, SqliteMode::kWriter);
      EXPECT_TRUE(outcome == "same" || outcome == "corrupt") << outcome << " page " << i;
    }
  }
}

// The write-ahead log after a crash: damage there ends it, so what is read is the log as it was
// after some commit.
TEST(SqliteDamage, FlippedBytesInTheWriteAheadLogGiveAnEarlierState) {
  const QuietLog quiet;
  FakeVolume volume(3);
  std::vector<std::string> states;
  {
    const auto log = OpenOn(volume);
    ASSERT_TRUE(log.ok());
    states.push_back(*Dump(**log));
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(CommitOne(**log, Turn("a", i)).ok());
      states.push_back(*Dump(**log));
    }
    volume.HaltAtStep(1);
  }
  const std::string database = volume.Contents("log.db");
  const std::string wal = volume.Contents("log.db-wal");
  ASSERT_GT(wal.size(), 20 * kPage);
  SeededRandom random(13);
  for (size_t at = random.Below(512); at < wal.size(); at += 256 + random.Below(1024)) {
    FakeVolume damaged(4);
    std::string bytes = wal;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    damaged.Overwrite("log.db", database);
    damaged.Overwrite("log.db-wal", bytes);
    const auto log = OpenOn(damaged);
    if (!log.ok()) {
      EXPECT_EQ(log.error().code(), Code::kCorrupt);
      continue;
    }
    const auto text = Dump(**log);
    ASSERT_TRUE(text.ok()) << text.error().message();
    EXPECT_NE(std::find(states.begin(), states.end(), *text), states.end()) << "byte " << at;
  }
}

// A plain SQLite tool that opens the log of a killed server moves what is in the write-ahead log
// into the file as soon as it closes. All is there: nothing may be refused for it.
TEST(SqliteDamage, AToolThatOpenedItAfterACrashDoesNoHarm) {
  FakeVolume volume(3);
  FakeVolume killed(4);
  std::string text;
  {
    const auto log = OpenOn(volume);
    ASSERT_TRUE(log.ok());
    Fill(**log);
    for (int i = 0; i < 20; ++i)
      ASSERT_TRUE(CommitOne(**log, Turn("a", i)).ok());
    text = *Dump(**log);
    killed.Overwrite("log.db", volume.Contents("log.db"));
    killed.Overwrite("log.db-wal", volume.Contents("log.db-wal"));
  }
  ASSERT_GT(killed.Contents("log.db-wal").size(), 20 * kPage);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open_v2(killed.Path("log.db").c_str(), &db, SQLITE_OPEN_READWRITE,
                            FakeVolume::VfsName().c_str()),
            SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, "SELECT count(*) FROM turns", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  ASSERT_EQ(killed.Names(), std::vector<std::string>{"log.db"});

  const std::string bytes = killed.Contents("log.db");
  for (const SqliteMode mode : {SqliteMode::kWriter, SqliteMode::kReader})
    EXPECT_EQ(Outcome(bytes, text, mode), "same");
  // A page of zeros is not one that waits for its checksum.
  for (size_t page = 0; page < bytes.size() / kPage; ++page) {
    std::string zeroed = bytes;
    zeroed.replace(page * kPage, kPage, std::string(kPage, '\0'));
    const std::string outcome = Outcome(zeroed, text, SqliteMode::kReader);
    EXPECT_TRUE(outcome == "same" || outcome == "corrupt") << outcome << " page " << page;
  }
  const auto log = OpenOn(killed);
  ASSERT_TRUE(log.ok()) << log.error().message();
  EXPECT_TRUE(CommitOne(**log, Turn("after", 0)).ok());
}

}  // namespace
}  // namespace tenuto
