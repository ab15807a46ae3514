// The faults of the store in memory; its contract is in conformance_test.cc.
#include "tokenlog/memory/log.h"

#include <gtest/gtest.h>

#include "tokenlog/testing.h"

namespace tenuto {
namespace {

TEST(MemoryTokenLog, CountsWritesThatStored) {
  MemoryTokenLog log;
  EXPECT_EQ(log.writes(), 0U);
  const std::vector<TurnCommit> batch = {MakeCommit(Key("a"), "T1"), MakeCommit(Key("b"), "T1")};
  log.Commit(batch);
  EXPECT_EQ(log.writes(), 1U);
  log.Commit(batch);  // conflicts store nothing
  EXPECT_EQ(log.writes(), 1U);
  ASSERT_TRUE(log.DropPieces(1, {}).ok());
  EXPECT_EQ(log.writes(), 1U);
}

TEST(MemoryTokenLog, TheNthWriteFailsAndLeavesNothing) {
  MemoryTokenLog log;
  ASSERT_TRUE(CommitOne(log, MakeCommit(Key("a"), "T1")).ok());
  log.FailWrite({.at_write = 2, .code = Code::kExhausted});
  ASSERT_TRUE(CommitOne(log, MakeCommit(Key("a"), "T2", "T1")).ok());
  EXPECT_EQ(CommitOne(log, MakeCommit(Key("a"), "T3", "T2")).error().code(), Code::kExhausted);
  // A full disk is over when there is room.
  EXPECT_TRUE(CommitOne(log, MakeCommit(Key("a"), "T3", "T2")).ok());
}

TEST(MemoryTokenLog, AfterAnIoErrorItIsDeadUntilTheCrash) {
  MemoryTokenLog log;
  ASSERT_TRUE(CommitOne(log, MakeCommit(Key("a"), "T1")).ok());
  log.FailWrite({.at_write = 1, .code = Code::kIo});
  EXPECT_EQ(CommitOne(log, MakeCommit(Key("a"), "T2", "T1")).error().code(), Code::kIo);
  EXPECT_EQ(log.NextLeaseEpoch().error().code(), Code::kIo);
  EXPECT_EQ(log.DeleteSession(Key("a")).error().code(), Code::kIo);
  EXPECT_EQ(log.FindSession(Key("a"))->head.value, "T1");
  log.Crash();
  EXPECT_EQ(log.FindSession(Key("a"))->head.value, "T1");
  EXPECT_TRUE(CommitOne(log, MakeCommit(Key("a"), "T2", "T1")).ok());
}

TEST(MemoryTokenLog, AFailedDeleteOfATurnLeavesIt) {
  MemoryTokenLog log;
  const int64_t id = *CommitOne(log, MakeCommit(Key("a"), "T1"));
  for (const bool kept : {false, true}) {
    log.FailWrite({.at_write = 1, .code = Code::kIo, .kept = kept});
    EXPECT_EQ(log.DeleteTurn(id, {"T1"}).error().code(), Code::kIo);
    EXPECT_FALSE(log.ReadTurns(id, {"T1"})->front().deleted);
    EXPECT_EQ(log.SetTurnMarks(id, {.turn = {"T1"}, .pinned = true}).error().code(), Code::kIo);
    EXPECT_EQ(log.SetSessionSettings(id, "{}").error().code(), Code::kIo);
    log.Crash();
    EXPECT_EQ(log.ReadTurns(id, {"T1"})->front().deleted, kept);
  }
}

TEST(MemoryTokenLog, AWriteInDoubtMayComeBackWithTheCrash) {
  MemoryTokenLog log;
  ASSERT_TRUE(CommitOne(log, MakeCommit(Key("a"), "T1")).ok());
  log.FailWrite({.at_write = 1, .code = Code::kIo, .kept = true});
  EXPECT_EQ(CommitOne(log, MakeCommit(Key("a"), "T2", "T1")).error().code(), Code::kIo);
  EXPECT_EQ(log.FindSession(Key("a"))->head.value, "T1");
  log.Crash();
  EXPECT_EQ(log.FindSession(Key("a"))->head.value, "T2");
}

}  // namespace
}  // namespace tenuto
