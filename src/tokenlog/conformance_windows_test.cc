// The contract of log.h over every store: parts of a line of turns, by their window and by pages.
#include <gtest/gtest.h>

#include <algorithm>

#include "tokenlog/checks.h"
#include "tokenlog/conformance.h"

namespace tenuto {
namespace {

// Turn n of a long line, counted from 1, keeps the ten turns before it: as a window that is full.
std::string NameOf(size_t n) {
  return "T" + std::to_string(n);
}
uint64_t FirstOf(size_t n) {
  return n > 10 ? n - 10 : 1;
}

std::vector<std::string> Names(size_t first, size_t last) {
  std::vector<std::string> names;
  for (size_t n = first; n <= last; ++n)
    names.push_back(NameOf(n));
  return names;
}

class WindowTest : public TokenLogTest {
 protected:
  int64_t CommitLong(size_t turns) {
    std::vector<TurnCommit> batch;
    for (size_t n = 1; n <= turns; ++n) {
      batch.push_back(MakeCommit(Key("long"), NameOf(n), n == 1 ? "" : NameOf(n - 1)));
      batch.back().turn.window_first = FirstOf(n);
    }
    int64_t session = 0;
    for (const auto& verdict : log().Commit(batch)) {
      EXPECT_TRUE(verdict.ok()) << (verdict.ok() ? "" : verdict.error().message());
      if (verdict.ok()) session = *verdict;
    }
    store_->Reopen();
    return session;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, WindowTest,
                         ::testing::Values(StoreKind::kMemory, StoreKind::kSqlite),
                         [](const auto& param_info) {
                           return std::string(param_info.param == StoreKind::kMemory ? "memory"
                                                                                     : "sqlite");
                         });

TEST_P(WindowTest, WindowThatMovesAlongALine) {
  const int64_t id = CommitLong(50);
  const auto line = log().ReadTurns(id, {NameOf(50)});
  ASSERT_TRUE(line.ok()) << line.error().message();
  ASSERT_EQ(line->size(), 50U);
  for (size_t n = 1; n <= 50; ++n) {
    const auto window = log().ReadWindow(id, {NameOf(n)});
    ASSERT_TRUE(window.ok()) << n << ": " << window.error().message();
    ASSERT_EQ(Ids(*window), Names(FirstOf(n), n));
    for (size_t i = 0; i < window->size(); ++i)
      ExpectSame((*window)[i], (*line)[FirstOf(n) - 1 + i]);
  }
  const auto none = log().ReadWindow(id, {});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST_P(WindowTest, WindowOfOneTurnAndOfTheWholeLine) {
  const int64_t id = CommitLine(Key("chat"), {"T1", "T2", "T3"});
  EXPECT_EQ(Ids(*log().ReadWindow(id, {"T3"})), Names(1, 3));
  TurnCommit alone = MakeCommit(Key("chat"), "T4", "T3");
  alone.turn.window_first = 4;
  ASSERT_TRUE(CommitOne(log(), alone).ok());
  EXPECT_EQ(Ids(*log().ReadWindow(id, {"T4"})), Names(4, 4));
  // A wider one after it: the model was started anew with more cells.
  TurnCommit wide = MakeCommit(Key("chat"), "T5", "T4");
  wide.turn.window_first = 2;
  ASSERT_TRUE(CommitOne(log(), wide).ok());
  EXPECT_EQ(Ids(*log().ReadWindow(id, {"T5"})), Names(2, 5));
}

TEST_P(WindowTest, WindowsFollowTheirBranch) {
  const int64_t id = CommitLong(20);
  TurnCommit fork = MakeCommit(Key("long"), "B8", NameOf(7));
  fork.expected_head = {NameOf(20)};
  fork.turn.window_first = 5;
  ASSERT_TRUE(CommitOne(log(), fork).ok());
  TurnCommit on = MakeCommit(Key("long"), "B9", "B8");
  on.turn.window_first = 6;
  ASSERT_TRUE(CommitOne(log(), on).ok());
  TurnCommit root = MakeCommit(Key("long"), "R1");
  root.expected_head = {"B9"};
  ASSERT_TRUE(CommitOne(log(), root).ok());
  using Lines = std::vector<std::string>;
  EXPECT_EQ(Ids(*log().ReadWindow(id, {"B8"})), (Lines{"T5", "T6", "T7", "B8"}));
  EXPECT_EQ(Ids(*log().ReadWindow(id, {"B9"})), (Lines{"T6", "T7", "B8", "B9"}));
  EXPECT_EQ(Ids(*log().ReadWindow(id, {"R1"})), Lines{"R1"});
  EXPECT_EQ(Ids(*log().ReadWindow(id, {NameOf(20)})), Names(10, 20));
  EXPECT_EQ(Ids(*log().ReadTurnsBack(id, {"B9"}, 3)), (Lines{"B9", "B8", "T7"}));
  EXPECT_EQ(Ids(*log().ReadTurnsBack(id, {"R1"}, 3)), Lines{"R1"});
}

TEST_P(WindowTest, WindowBeyondTheLineIsInvalidAndChangesNothing) {
  CommitLine(Key("chat"), {"T1", "T2"});
  const std::string before = Everything();
  for (const uint64_t first : {uint64_t{0}, uint64_t{4}, UINT64_MAX}) {
    TurnCommit commit = MakeCommit(Key("chat"), "T3", "T2");
    commit.turn.window_first = first;
    EXPECT_EQ(CodeOf(commit), Code::kInvalid) << first;
  }
  // What counts is the turn's own line, not the session's.
  TurnCommit branch = MakeCommit(Key("chat"), "B2", "T1");
  branch.expected_head = {"T2"};
  branch.turn.window_first = 3;
  EXPECT_EQ(CodeOf(branch), Code::kInvalid);
  EXPECT_EQ(Everything(), before);
}

TEST_P(WindowTest, PagesBackThroughALine) {
  const int64_t id = CommitLong(50);
  const auto line = log().ReadTurns(id, {NameOf(50)});
  ASSERT_TRUE(line.ok()) << line.error().message();
  std::vector<TurnRow> back;
  TurnId at = {NameOf(50)};
  for (size_t pages = 1; !at.empty(); ++pages) {
    const auto page = log().ReadTurnsBack(id, at, 7);
    ASSERT_TRUE(page.ok()) << page.error().message();
    ASSERT_EQ(page->size(), pages == 8 ? 1U : 7U);
    back.insert(back.end(), page->begin(), page->end());
    at = page->back().parent;
  }
  std::reverse(back.begin(), back.end());
  ASSERT_EQ(back.size(), line->size());
  for (size_t i = 0; i < back.size(); ++i)
    ExpectSame(back[i], (*line)[i]);
}

TEST_P(WindowTest, PagesHaveAtMostTheirLimit) {
  const int64_t id = CommitLong(kTurnPageMax + 20);
  const TurnId head = {NameOf(kTurnPageMax + 20)};
  EXPECT_TRUE(log().ReadTurnsBack(id, head, 0)->empty());
  EXPECT_EQ(Ids(*log().ReadTurnsBack(id, head, 1)), std::vector<std::string>{head.value});
  for (const size_t limit : {kTurnPageMax, kTurnPageMax + 1, SIZE_MAX}) {
    const auto page = log().ReadTurnsBack(id, head, limit);
    ASSERT_TRUE(page.ok()) << page.error().message();
    EXPECT_EQ(page->size(), kTurnPageMax);
    EXPECT_EQ(page->back().id.value, NameOf(21));
  }
  EXPECT_EQ(log().ReadTurnsBack(id, {NameOf(20)}, kTurnPageMax)->size(), 20U);
  const auto none = log().ReadTurnsBack(id, {}, 7);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

}  // namespace
}  // namespace tenuto
