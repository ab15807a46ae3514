// What is special to the SQLite store: files, modes, versions, failures. The contract is in
// conformance_test.cc; erasing in erase_test.cc.
#include "tokenlog/sqlite/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "io/fake.h"
#include "tokenlog/sqlite/fake_volume.h"
#include "tokenlog/sqlite/page_vfs.h"
#include "tokenlog/sqlite/sqlite.h"
#include "tokenlog/sqlite/testing.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

Code CodeOfOpen(const std::string& path, SqliteMode mode, std::string* message = nullptr) {
  const auto log = SqliteTokenLog::Open(path, mode);
  EXPECT_FALSE(log.ok());
  if (log.ok()) return Code{};
  if (message != nullptr) *message = log.error().message();
  return log.error().code();
}

TEST(SqliteLog, FilesAreForTheirOwnerAlone) {
  const TempDir folder;
  const auto log = OpenOrFail(folder.File("log.db"));
  ASSERT_TRUE(CommitOne(*log, MakeCommit(Key("chat"), "T1")).ok());
  for (const char* name : {"log.db", "log.db-wal", "log.db-shm"}) {
    struct stat info {};
    ASSERT_EQ(::stat(folder.File(name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
}

TEST(SqliteLog, PlainSqliteToolsCanReadIt) {
  const TempDir folder;
  ASSERT_TRUE(CommitOne(*OpenOrFail(folder.File("log.db")), MakeCommit(Key("chat"), "T1")).ok());
  const auto database =
      Database::Open({.path = folder.File("log.db"), .vfs = "unix", .read_only = true});
  ASSERT_TRUE(database.ok());
  const auto turns = (*database)->QueryInt("SELECT count(*) FROM turns WHERE id = 'T1'");
  ASSERT_TRUE(turns.ok());
  EXPECT_EQ(*turns, 1);
}

TEST(SqliteLog, ReaderBesideAWriterSeesCommitsAndMayNotWrite) {
  const TempDir folder;
  const auto writer = OpenOrFail(folder.File("log.db"));
  ASSERT_TRUE(CommitOne(*writer, MakeCommit(Key("chat"), "T1")).ok());
  const auto reader = OpenOrFail(folder.File("log.db"), SqliteMode::kReader);
  EXPECT_EQ(reader->FindSession(Key("chat"))->head.value, "T1");
  ASSERT_TRUE(CommitOne(*writer, MakeCommit(Key("chat"), "T2", "T1")).ok());
  EXPECT_EQ(reader->FindSession(Key("chat"))->head.value, "T2");
  EXPECT_EQ(*Dump(*reader), *Dump(*writer));

  EXPECT_EQ(CommitOne(*reader, MakeCommit(Key("chat"), "T3", "T2")).error().code(), Code::kDenied);
  EXPECT_EQ(reader->NextLeaseEpoch().error().code(), Code::kDenied);
  EXPECT_EQ(reader->DeleteSession(Key("chat")).error().code(), Code::kDenied);
  EXPECT_EQ(reader->DeleteTurn(1, {"T1"}).error().code(), Code::kDenied);
  EXPECT_EQ(reader->SetTurnMarks(1, {.turn = {"T1"}}).error().code(), Code::kDenied);
  EXPECT_EQ(reader->SetSessionSettings(1, "{}").error().code(), Code::kDenied);
  EXPECT_EQ(reader->AddPieces(1, {}).error().code(), Code::kDenied);
  EXPECT_EQ(reader->DropPieces(1, {}).error().code(), Code::kDenied);
  EXPECT_TRUE(reader->Settle().ok());
}

TEST(SqliteLog, ReaderAloneChangesNothing) {
  const TempDir folder;
  ASSERT_TRUE(CommitOne(*OpenOrFail(folder.File("log.db")), MakeCommit(Key("chat"), "T1")).ok());
  const std::string before = ReadFile(folder.File("log.db"));
  {
    const auto reader = OpenOrFail(folder.File("log.db"), SqliteMode::kReader);
    EXPECT_EQ(reader->FindSession(Key("chat"))->head.value, "T1");
  }
  EXPECT_EQ(ReadFile(folder.File("log.db")), before);
}

TEST(SqliteLog, ReaderOfWhatIsNotThere) {
  const TempDir folder;
  EXPECT_EQ(CodeOfOpen(folder.File("log.db"), SqliteMode::kReader), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder.File("log.db")));
  std::ofstream(folder.File("empty.db")).close();
  EXPECT_EQ(CodeOfOpen(folder.File("empty.db"), SqliteMode::kReader), Code::kNotFound);
  EXPECT_EQ(CodeOfOpen(folder.File("no/such/folder/log.db"), SqliteMode::kWriter), Code::kNotFound);
}

TEST(SqliteLog, OtherFormatsAreRefusedByBothNumbers) {
  for (const auto& [version, word] : {std::pair{4, "newer"}, std::pair{2, "older"},
                                      std::pair{1, "older"}, std::pair{0, "older"}}) {
    const TempDir folder;
    OpenOrFail(folder.File("log.db")).reset();
    Tamper(folder.File("log.db"), "PRAGMA user_version = " + std::to_string(version));
    for (const SqliteMode mode : {SqliteMode::kWriter, SqliteMode::kReader}) {
      std::string message;
      EXPECT_EQ(CodeOfOpen(folder.File("log.db"), mode, &message), Code::kInvalid);
      EXPECT_NE(message.find("format " + std::to_string(version)), std::string::npos) << message;
      EXPECT_NE(message.find("knows format 3"), std::string::npos) << message;
      EXPECT_NE(message.find(word), std::string::npos) << message;
    }
  }
}

TEST(SqliteLog, ForeignFilesAreRefusedUntouched) {
  const TempDir folder;
  OpenOrFail(folder.File("other.db")).reset();
  Tamper(folder.File("other.db"), "PRAGMA application_id = 42");
  {
    const auto plain = Database::Open({.path = folder.File("plain.db"), .vfs = "unix"});
    ASSERT_TRUE((*plain)->Exec("CREATE TABLE t(x)").ok());
  }
  std::ofstream(folder.File("text.db")) << std::string(10000, 'x');
  for (const auto& [name, code] :
       {std::pair{"other.db", Code::kInvalid}, std::pair{"plain.db", Code::kCorrupt},
        std::pair{"text.db", Code::kCorrupt}}) {
    const std::string before = ReadFile(folder.File(name));
    EXPECT_EQ(CodeOfOpen(folder.File(name), SqliteMode::kWriter), code) << name;
    EXPECT_EQ(CodeOfOpen(folder.File(name), SqliteMode::kReader), code) << name;
    EXPECT_EQ(ReadFile(folder.File(name)), before) << name;
  }
}

// Root may write everything, so the test steps down for the attempt.
class WithoutRights {
 public:
  WithoutRights() : was_(::geteuid()) {
    if (was_ == 0) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  ~WithoutRights() {
    if (was_ == 0) {
      EXPECT_EQ(::seteuid(was_), 0);
    }
  }

 private:
  uid_t was_;
};

TEST(SqliteLog, MissingRightsAreDenied) {
  const TempDir folder;
  ASSERT_TRUE(CommitOne(*OpenOrFail(folder.File("log.db")), MakeCommit(Key("chat"), "T1")).ok());
  std::filesystem::permissions(folder.File("log.db"), std::filesystem::perms(0444));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  {
    const WithoutRights nobody;
    EXPECT_EQ(CodeOfOpen(folder.File("log.db"), SqliteMode::kWriter), Code::kDenied);
    EXPECT_EQ(CodeOfOpen(folder.File("new.db"), SqliteMode::kWriter), Code::kDenied);
    // A reader has to make the index of the write-ahead log.
    EXPECT_EQ(CodeOfOpen(folder.File("log.db"), SqliteMode::kReader), Code::kDenied);
    EXPECT_EQ(CodeOfOpen(folder.File("new.db"), SqliteMode::kReader), Code::kNotFound);
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
}

TEST(SqliteLog, StaleWriterOfTheSameFileGetsAConflict) {
  const TempDir folder;
  const auto old_one = OpenOrFail(folder.File("log.db"));
  const uint64_t old_epoch = *old_one->NextLeaseEpoch();
  TurnCommit first = MakeCommit(Key("chat"), "T1");
  first.lease_epoch = old_epoch;
  ASSERT_TRUE(CommitOne(*old_one, first).ok());

  const auto new_one = OpenOrFail(folder.File("log.db"));
  TurnCommit second = MakeCommit(Key("chat"), "T2", "T1");
  second.lease_epoch = *new_one->NextLeaseEpoch();
  EXPECT_GT(second.lease_epoch, old_epoch);
  ASSERT_TRUE(CommitOne(*new_one, second).ok());

  // The head alone would stop this one ...
  TurnCommit stale = MakeCommit(Key("chat"), "X2", "T1");
  stale.lease_epoch = old_epoch;
  EXPECT_EQ(CommitOne(*old_one, stale).error().code(), Code::kConflict);
  // ... and only the epoch this one, which has read the new head.
  TurnCommit informed = MakeCommit(Key("chat"), "X3", "T2");
  informed.lease_epoch = old_epoch;
  EXPECT_EQ(CommitOne(*old_one, informed).error().code(), Code::kConflict);
  EXPECT_EQ(old_one->FindSession(Key("chat"))->head.value, "T2");
}

TEST(SqliteLog, FailedSyncKillsTheLogAndLosesNothingAcknowledged) {
  FakeVolume volume(3);
  auto log = OpenOn(volume);
  const int64_t id = *CommitOne(*log, MakeCommit(Key("chat"), "T1"));
  ASSERT_TRUE(log->AddPieces(id, std::vector{MakePiece(0, 5, 1)}).ok());
  volume.FailNext(FakeVolume::Fault::kSync);
  EXPECT_EQ(CommitOne(*log, MakeCommit(Key("chat"), "T2", "T1")).error().code(), Code::kIo);
  // No second try, whatever the volume says now (INV-11).
  const uint64_t steps = volume.steps();
  EXPECT_EQ(CommitOne(*log, MakeCommit(Key("chat"), "T2", "T1")).error().code(), Code::kIo);
  EXPECT_EQ(log->NextLeaseEpoch().error().code(), Code::kIo);
  EXPECT_EQ(log->AddPieces(id, std::vector{MakePiece(5, 9, 1)}).error().code(), Code::kIo);
  EXPECT_EQ(log->DropPieces(id, {}).error().code(), Code::kIo);
  EXPECT_EQ(log->DeleteSession(Key("chat")).error().code(), Code::kIo);
  EXPECT_EQ(log->DeleteTurn(id, {"T1"}).error().code(), Code::kIo);
  EXPECT_EQ(log->SetTurnMarks(id, {.turn = {"T1"}}).error().code(), Code::kIo);
  EXPECT_EQ(log->SetSessionSettings(id, "{}").error().code(), Code::kIo);
  EXPECT_TRUE(log->Settle().ok());
  EXPECT_EQ(volume.steps(), steps);
  // Reads go on.
  EXPECT_EQ(log->FindSession(Key("chat"))->head.value, "T1");
  log.reset();
  EXPECT_EQ(volume.steps(), steps);  // nor does closing write

  volume.Crash();
  log = OpenOn(volume);
  const auto turns = log->ReadTurns(id, log->FindSession(Key("chat"))->head);
  ASSERT_TRUE(turns.ok());
  EXPECT_EQ(turns->front().id.value, "T1");
  EXPECT_EQ(log->ReadPieces(id)->size(), 1U);
}

TEST(SqliteLog, FailedWriteKillsTheLog) {
  FakeVolume volume(4);
  const auto log = OpenOn(volume);
  ASSERT_TRUE(CommitOne(*log, MakeCommit(Key("chat"), "T1")).ok());
  volume.FailNext(FakeVolume::Fault::kWrite);
  EXPECT_EQ(CommitOne(*log, MakeCommit(Key("chat"), "T2", "T1")).error().code(), Code::kIo);
  const auto refused = CommitOne(*log, MakeCommit(Key("chat"), "T2", "T1"));
  EXPECT_EQ(refused.error().code(), Code::kIo);
  EXPECT_NE(refused.error().message().find("refuses writes"), std::string::npos);
}

TEST(SqliteLog, FullDiskRefusesTheCommitAndHealsWithSpace) {
  FakeVolume volume(5);
  const auto log = OpenOn(volume);
  const int64_t id = *CommitOne(*log, MakeCommit(Key("chat"), "T1"));
  const std::string before = *Dump(*log);
  volume.SetCapacity(1);
  const std::vector<TurnCommit> batch = {MakeCommit(Key("chat"), "T2", "T1"),
                                         MakeCommit(Key("new"), "T1")};
  for (const auto& verdict : log->Commit(batch)) {
    ASSERT_FALSE(verdict.ok());
    EXPECT_EQ(verdict.error().code(), Code::kExhausted);
    EXPECT_EQ(verdict.error().message(),
              "token log log.db: database or disk is full: free some space on its volume");
  }
  EXPECT_EQ(log->AddPieces(id, std::vector{MakePiece(0, 5, 1)}).error().code(), Code::kExhausted);
  EXPECT_EQ(*Dump(*log), before);
  volume.SetCapacity(0);
  for (const auto& verdict : log->Commit(batch))
    EXPECT_TRUE(verdict.ok());
}

TEST(SqliteLog, LockedByAnotherProcessIsUnavailable) {
  const TempDir folder;
  const std::string path = folder.File("log.db");
  auto log = SqliteTokenLog::Open(path, SqliteMode::kWriter, {.busy_timeout_ms = 1, .vfs = ""});
  ASSERT_TRUE(log.ok());
  const auto other = Database::Open({.path = path, .vfs = *RegisterPageVfs("")});
  ASSERT_TRUE((*other)->Exec("BEGIN IMMEDIATE").ok());
  const auto refused = CommitOne(**log, MakeCommit(Key("chat"), "T1"));
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  // Seen by clients: the file's name, not this machine's folders.
  EXPECT_EQ(refused.error().message(),
            "token log log.db: database is locked: another process writes to it");
  ASSERT_TRUE((*other)->Exec("ROLLBACK").ok());
  EXPECT_TRUE(CommitOne(**log, MakeCommit(Key("chat"), "T1")).ok());
}

TEST(SqliteLog, CommitCostsAtMostTwoSyncs) {
  FakeVolume volume(6);
  const auto log = OpenOn(volume);
  ASSERT_TRUE(log->NextLeaseEpoch().ok());
  std::string parent;
  uint64_t most = 0;
  for (int i = 0; i < 700; ++i) {
    const std::string id = "T" + std::to_string(i);
    const uint64_t before = volume.syncs();
    ASSERT_TRUE(CommitOne(*log, MakeCommit(Key("chat"), id, parent)).ok());
    most = std::max(most, volume.syncs() - before);
    ASSERT_TRUE(log->Settle().ok());
    parent = id;
  }
  EXPECT_LE(most, 2U);
  // Settle has kept the write-ahead log bounded.
  EXPECT_LT(volume.Contents("log.db-wal").size(), 2U * SqliteTokenLog::kCheckpointPages * 4200);
}

TEST(SqliteLog, WriteAheadLogIsBoundedWithoutSettle) {
  FakeVolume volume(7);
  const auto log = OpenOn(volume);
  TurnCommit commit = MakeCommit(Key("chat"), "T0");
  commit.turn.items_json.assign(1'000'000, 'x');
  std::string parent;
  for (int i = 0; i < 50; ++i) {
    commit.turn.id = {"T" + std::to_string(i)};
    commit.turn.parent = commit.expected_head = {parent};
    ASSERT_TRUE(CommitOne(*log, commit).ok());
    parent = commit.turn.id.value;
  }
  EXPECT_LT(volume.Contents("log.db-wal").size(),
            (SqliteTokenLog::kCheckpointOverduePages + 500U) * 4200U);
}

}  // namespace
}  // namespace tenuto
