#include "tokenlog/writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "io/fake.h"
#include "tokenlog/memory/log.h"
#include "tokenlog/sqlite/fake_volume.h"
#include "tokenlog/sqlite/log.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

// Counts calls and notes their order; the work is the memory log's.
class CountingLog : public MemoryTokenLog {
 public:
  std::vector<Result<int64_t>> Commit(std::span<const TurnCommit> commits) override {
    calls.push_back("commit " + std::to_string(commits.size()));
    return MemoryTokenLog::Commit(commits);
  }
  Result<std::vector<int64_t>> AddPieces(int64_t session,
                                         std::span<const PieceRow> pieces) override {
    calls.emplace_back("add");
    return MemoryTokenLog::AddPieces(session, pieces);
  }
  Result<std::vector<PayloadFileId>> DropPieces(int64_t session,
                                                std::span<const int64_t> ids) override {
    calls.emplace_back("drop");
    return MemoryTokenLog::DropPieces(session, ids);
  }
  Status SetTurnMarks(int64_t session, const TurnMarks& marks) override {
    calls.emplace_back("marks");
    return MemoryTokenLog::SetTurnMarks(session, marks);
  }
  Status SetSessionSettings(int64_t session, const std::string& settings_json) override {
    calls.emplace_back("settings");
    return MemoryTokenLog::SetSessionSettings(session, settings_json);
  }
  Status DeleteTurn(int64_t session, const TurnId& turn) override {
    calls.emplace_back("delete turn");
    return MemoryTokenLog::DeleteTurn(session, turn);
  }
  Result<std::vector<PayloadFileId>> DeleteSession(const SessionKey& key) override {
    calls.emplace_back("delete");
    return MemoryTokenLog::DeleteSession(key);
  }
  Status Settle() override {
    ++settles;
    return settle_result;
  }

  std::vector<std::string> calls;
  int settles = 0;
  Status settle_result = Ok();
};

class LogWriterTest : public ::testing::Test {
 protected:
  void RunAll() {
    while (world_.Step()) {
    }
  }
  std::function<void(Result<int64_t>)> Note(const std::string& name) {
    return [this, name](const Result<int64_t>& result) {
      answers_.push_back(
          name + (result.ok() ? " ok" : " " + std::string(CodeName(result.error().code()))));
    };
  }
  std::function<void(Status)> NoteDone(const std::string& name) {
    return [this, name](const Status& result) {
      answers_.push_back(
          name + (result.ok() ? " ok" : " " + std::string(CodeName(result.error().code()))));
    };
  }
  std::function<void(Result<std::vector<int64_t>>)> NoteIds(const std::string& name) {
    return [this, name](const Result<std::vector<int64_t>>& result) {
      answers_.push_back(
          name + (result.ok() ? " ok" : " " + std::string(CodeName(result.error().code()))));
    };
  }
  std::function<void(Result<std::vector<PayloadFileId>>)> NoteFiles(const std::string& name) {
    return [this, name](const Result<std::vector<PayloadFileId>>& result) {
      answers_.push_back(name + (result.ok() ? " " + std::to_string(result->size()) + " files"
                                             : " " + std::string(CodeName(result.error().code()))));
    };
  }

  SimWorld world_{5};
  CountingLog log_;
  LogWriter writer_{log_, world_.NewRunner("log"), world_.NewRunner("core")};
  std::vector<std::string> answers_;
};

using Lines = std::vector<std::string>;

TEST_F(LogWriterTest, WaitingCommitsShareATransaction) {
  for (int i = 0; i < 40; ++i) {
    const std::string name = "s" + std::to_string(i);
    writer_.Commit(MakeCommit(Key(name), "T1"), Note(name));
  }
  EXPECT_TRUE(answers_.empty());  // never on the caller's stack
  RunAll();
  EXPECT_EQ(answers_.size(), 40U);
  EXPECT_EQ(log_.calls, Lines{"commit 40"});
  EXPECT_EQ(log_.settles, 1);
}

TEST_F(LogWriterTest, BatchesAreBounded) {
  for (size_t i = 0; i < LogWriter::kBatchMax + 10; ++i)
    writer_.Commit(MakeCommit(Key("s" + std::to_string(i)), "T1"), Note("s"));
  RunAll();
  EXPECT_EQ(log_.calls, (Lines{"commit 64", "commit 10"}));
  EXPECT_EQ(answers_.size(), LogWriter::kBatchMax + 10);
}

TEST_F(LogWriterTest, CommitsOfASessionKeepTheirOrder) {
  writer_.Commit(MakeCommit(Key("a"), "T1"), Note("T1"));
  writer_.Commit(MakeCommit(Key("a"), "T2", "T1"), Note("T2"));
  writer_.Commit(MakeCommit(Key("b"), "T1"), Note("b"));
  writer_.Commit(MakeCommit(Key("a"), "T3", "T2"), Note("T3"));
  writer_.Commit(MakeCommit(Key("a"), "X2", "T1"), Note("X2"));
  RunAll();
  EXPECT_EQ(answers_, (Lines{"T1 ok", "T2 ok", "b ok", "T3 ok", "X2 conflict"}));
  EXPECT_EQ(log_.FindSession(Key("a"))->head.value, "T3");
}

TEST_F(LogWriterTest, PieceWritesComeAfterEarlierCommits) {
  writer_.Commit(MakeCommit(Key("a"), "T1"), Note("T1"));
  writer_.AddPieces(1, {MakePiece(0, 5, 9)}, NoteIds("add"));
  writer_.DropPieces(1, {1}, NoteFiles("drop"));
  RunAll();
  EXPECT_EQ(answers_, (Lines{"T1 ok", "add ok", "drop 1 files"}));
}

TEST_F(LogWriterTest, CommitsOvertakePieceWritesButNeverStarveThem) {
  writer_.Commit(MakeCommit(Key("a"), "T1"), Note("T1"));
  RunAll();
  log_.calls.clear();
  answers_.clear();
  writer_.AddPieces(1, {MakePiece(0, 5, 9)}, NoteIds("add1"));
  writer_.AddPieces(1, {MakePiece(5, 9, 9)}, NoteIds("add2"));
  writer_.AddPieces(1, {MakePiece(9, 12, 9)}, NoteIds("add3"));
  writer_.Commit(MakeCommit(Key("a"), "T2", "T1"), Note("T2"));
  writer_.Commit(MakeCommit(Key("a"), "T3", "T2"), Note("T3"));
  RunAll();
  // The batch before was commits, so one piece write goes first.
  EXPECT_EQ(log_.calls, (Lines{"add", "commit 2", "add", "add"}));
  EXPECT_EQ(answers_, (Lines{"add1 ok", "T2 ok", "T3 ok", "add2 ok", "add3 ok"}));
}

TEST_F(LogWriterTest, NothingOvertakesADelete) {
  writer_.Commit(MakeCommit(Key("a"), "T1"), Note("T1"));
  writer_.DeleteSession(Key("a"), NoteFiles("delete"));
  writer_.Commit(MakeCommit(Key("a"), "T2", "T1"), Note("late"));
  writer_.Commit(MakeCommit(Key("a"), "N1"), Note("anew"));
  writer_.AddPieces(1, {MakePiece(0, 5, 9)}, NoteIds("add"));
  RunAll();
  EXPECT_EQ(answers_,
            (Lines{"T1 ok", "delete 0 files", "late conflict", "anew ok", "add not_found"}));
  EXPECT_EQ(log_.FindSession(Key("a"))->head.value, "N1");
}

TEST_F(LogWriterTest, MarksAndSettingsWaitLikePieces) {
  writer_.Commit(MakeCommit(Key("a"), "T1"), Note("T1"));
  writer_.SetTurnMarks(1, {.turn = {"T1"}, .pinned = true}, NoteDone("marks"));
  writer_.SetSessionSettings(1, "{}", NoteDone("settings"));
  writer_.SetTurnMarks(1, {.turn = {"T9"}, .pinned = true}, NoteDone("late"));
  writer_.Commit(MakeCommit(Key("a"), "T2", "T1"), Note("T2"));
  EXPECT_TRUE(answers_.empty());
  RunAll();
  EXPECT_EQ(log_.calls, (Lines{"commit 2", "marks", "settings", "marks"}));
  EXPECT_EQ(answers_, (Lines{"T1 ok", "T2 ok", "marks ok", "settings ok", "late not_found"}));
}

TEST_F(LogWriterTest, NothingOvertakesTheDeleteOfATurn) {
  TurnCommit first = MakeCommit(Key("a"), "T1");
  first.turn.idempotency_key = "k";
  writer_.Commit(first, Note("T1"));
  writer_.DeleteTurn(1, {"T1"}, NoteDone("delete"));
  TurnCommit again = MakeCommit(Key("a"), "T2", "T1");
  again.turn.idempotency_key = "k";
  writer_.Commit(again, Note("T2"));
  writer_.DeleteTurn(1, {"T1"}, NoteDone("twice"));
  RunAll();
  EXPECT_EQ(answers_, (Lines{"T1 ok", "delete ok", "T2 ok", "twice not_found"}));
}

TEST_F(LogWriterTest, AFailedTransactionIsToldToEach) {
  log_.FailWrite({.at_write = 1, .code = Code::kExhausted});
  for (int i = 0; i < 3; ++i)
    writer_.Commit(MakeCommit(Key("s" + std::to_string(i)), "T1"), Note("s"));
  RunAll();
  EXPECT_EQ(answers_, (Lines{"s exhausted", "s exhausted", "s exhausted"}));
  EXPECT_EQ(log_.FindSession(Key("s0")).error().code(), Code::kNotFound);
  log_.FailWrite({.at_write = 1, .code = Code::kIo});
  writer_.AddPieces(1, {MakePiece(0, 5, 9)}, NoteIds("add"));
  writer_.DeleteSession(Key("s0"), NoteFiles("delete"));
  writer_.Commit(MakeCommit(Key("s0"), "T1"), Note("s0"));
  RunAll();
  EXPECT_EQ(answers_[3], "add not_found");
  EXPECT_EQ(answers_[4], "delete not_found");
  EXPECT_EQ(answers_[5], "s0 io");
}

TEST_F(LogWriterTest, AFailedSettleConcernsNobody) {
  log_.settle_result = Error(Code::kIo, "no checkpoint today");
  writer_.Commit(MakeCommit(Key("a"), "T1"), Note("T1"));
  RunAll();
  EXPECT_EQ(answers_, Lines{"T1 ok"});
}

TEST_F(LogWriterTest, AFullQueueAnswersAtOnce) {
  for (size_t i = 0; i < LogWriter::kQueueMax; ++i)
    writer_.Commit(MakeCommit(Key("s" + std::to_string(i)), "T1"), [](const Result<int64_t>&) {});
  writer_.Commit(MakeCommit(Key("a"), "T1"), Note("commit"));
  writer_.AddPieces(1, {}, NoteIds("add"));
  RunAll();
  EXPECT_EQ(answers_, (Lines{"commit exhausted", "add exhausted"}));
  EXPECT_EQ(log_.FindSession(Key("a")).error().code(), Code::kNotFound);
}

TEST_F(LogWriterTest, WritesPostedBeforeTheWriterGoesStillRun) {
  Runner& runner = world_.NewRunner("log2");
  Runner& answers = world_.NewRunner("core2");
  {
    LogWriter brief(log_, runner, answers);
    brief.Commit(MakeCommit(Key("a"), "T1"), Note("T1"));
  }
  RunAll();
  EXPECT_EQ(answers_, Lines{"T1 ok"});
}

// Real threads over the SQLite store: fewer transactions than commits, every one answered, all of
// them there.
TEST(LogWriterThreads, ConcurrentCommitsOnSqlite) {
  constexpr int kThreads = 8;
  constexpr int kTurns = 40;
  FakeVolume volume(9);
  auto log = SqliteTokenLog::Open(volume.Path("log.db"), SqliteMode::kWriter,
                                  {.busy_timeout_ms = 1000, .vfs = FakeVolume::VfsName()});
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE((*log)->NextLeaseEpoch().ok());
  ThreadRunner log_runner("log");
  ThreadRunner answers("answers");
  std::atomic<int> good{0};
  const uint64_t syncs_before = volume.syncs();
  {
    LogWriter writer(**log, log_runner, answers);
    // Holds the log runner until all have posted, so that there is something to share.
    std::promise<void> gate;
    log_runner.Post([opened = gate.get_future().share()] { opened.wait(); });
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        std::string parent;
        for (int i = 0; i < kTurns; ++i) {
          const std::string id = "T" + std::to_string(i);
          writer.Commit(MakeCommit(Key("s" + std::to_string(t)), id, parent),
                        [&](const Result<int64_t>& result) { good += result.ok() ? 1 : 0; });
          parent = id;
        }
      });
    for (std::thread& thread : threads)
      thread.join();
    gate.set_value();
    log_runner.DrainAndStop();
    answers.DrainAndStop();
  }
  EXPECT_EQ(good, kThreads * kTurns);
  EXPECT_LE(volume.syncs() - syncs_before, 2U * (kThreads * kTurns / LogWriter::kBatchMax + 1));
  for (int t = 0; t < kThreads; ++t)
    EXPECT_EQ((*log)->FindSession(Key("s" + std::to_string(t)))->turns,
              static_cast<uint64_t>(kTurns));
}

}  // namespace
}  // namespace tenuto
