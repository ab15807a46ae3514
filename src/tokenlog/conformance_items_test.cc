// The contract of log.h over every store: items of a line, forward and without their tokens.
#include <gtest/gtest.h>

#include "io/fake.h"
#include "tokenlog/checks.h"
#include "tokenlog/conformance.h"

namespace tenuto {
namespace {

class ItemsTest : public TokenLogTest {
 protected:
  // Commits turn `id` after `parent`, whatever the head is.
  int64_t Add(const std::string& id, const std::string& parent = "") {
    TurnCommit commit = MakeCommit(Key("chat"), id, parent);
    const auto row = log().FindSession(Key("chat"));
    commit.expected_head = row.ok() ? row->head : TurnId{};
    commit.turn.recall_json = "recalled by " + id;
    commit.turn.created_unix_ms = static_cast<int64_t>(++added_);
    const auto done = CommitOne(log(), commit);
    EXPECT_TRUE(done.ok()) << id << ": " << (done.ok() ? "" : done.error().message());
    return done.ok() ? *done : 0;
  }
  // A line T1 to Tn.
  int64_t AddLine(uint64_t turns) {
    std::vector<TurnCommit> batch;
    for (uint64_t n = 1; n <= turns; ++n)
      batch.push_back(MakeCommit(Key("chat"), "T" + std::to_string(n),
                                 n == 1 ? "" : "T" + std::to_string(n - 1)));
    int64_t session = 0;
    for (const auto& verdict : log().Commit(batch))
      session = verdict.ok() ? *verdict : -1;
    return session;
  }
  // Every page of that size is what the line says.
  void ExpectLine(int64_t session, const std::string& head, size_t page) {
    const auto turns = log().ReadTurns(session, {head});
    ASSERT_TRUE(turns.ok()) << turns.error().message();
    for (uint64_t first = 1; first <= turns->size() + 1; first += page) {
      const auto rows = log().ReadItems(session, {head}, first, page);
      ASSERT_TRUE(rows.ok()) << head << " " << first << ": " << rows.error().message();
      ASSERT_EQ(rows->size(), std::min<uint64_t>(page, turns->size() - first + 1)) << head << first;
      for (size_t i = 0; i < rows->size(); ++i)
        ASSERT_EQ(Describe((*rows)[i]), Describe(ItemsOf((*turns)[first - 1 + i], first + i)))
            << head << " " << first;
    }
  }

 private:
  uint64_t added_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Stores, ItemsTest,
                         ::testing::Values(StoreKind::kMemory, StoreKind::kSqlite),
                         [](const auto& param_info) {
                           return std::string(param_info.param == StoreKind::kMemory ? "memory"
                                                                                     : "sqlite");
                         });

TEST_P(ItemsTest, PagesGoForwardThroughALine) {
  const int64_t id = AddLine(50);
  store_->Reopen();
  for (const size_t page : {1U, 2U, 7U, 49U, 50U, 51U})
    ExpectLine(id, "T50", page);
  ExpectLine(id, "T20", 7);  // as of an earlier turn
  ExpectLine(id, "T1", 1);
}

TEST_P(ItemsTest, RangesThatReachBeyondTheLine) {
  const int64_t id = AddLine(5);
  const auto lines = [&](uint64_t first, size_t limit) {
    const auto rows = log().ReadItems(id, {"T5"}, first, limit);
    EXPECT_TRUE(rows.ok());
    std::string text;
    for (const ItemsRow& row : *rows)
      text += std::to_string(row.line) + row.id.value + " ";
    return text;
  };
  EXPECT_EQ(lines(4, 9), "4T4 5T5 ");
  EXPECT_EQ(lines(5, 1), "5T5 ");
  EXPECT_EQ(lines(6, 1), "");
  EXPECT_EQ(lines(UINT64_MAX, SIZE_MAX), "");
  EXPECT_EQ(lines(3, 0), "");
  // No line has a turn 0: one place of the range is empty.
  EXPECT_EQ(lines(0, 1), "");
  EXPECT_EQ(lines(0, 3), "1T1 2T2 ");
  EXPECT_EQ(lines(0, SIZE_MAX), "1T1 2T2 3T3 4T4 5T5 ");
}

TEST_P(ItemsTest, APageHasAtMostItsLimit) {
  const int64_t id = AddLine(kItemsPageMax + 3);
  const TurnId head = {"T" + std::to_string(kItemsPageMax + 3)};
  for (const size_t limit : {kItemsPageMax, kItemsPageMax + 1, SIZE_MAX})
    EXPECT_EQ(log().ReadItems(id, head, 1, limit)->size(), kItemsPageMax);
  EXPECT_EQ(log().ReadItems(id, head, kItemsPageMax, SIZE_MAX)->size(), 4U);
}

TEST_P(ItemsTest, WhatIsNotThere) {
  EXPECT_EQ(log().ReadItems(99, {"T1"}, 1, 1).error().code(), Code::kNotFound);
  const int64_t id = AddLine(2);
  for (const size_t limit : {0U, 1U})
    EXPECT_EQ(log().ReadItems(id, {"T9"}, 1, limit).error().code(), Code::kNotFound);
  const auto none = log().ReadItems(id, {}, 1, 5);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

// Only ancestors count: edits, regenerated turns and second roots have the same line numbers.
TEST_P(ItemsTest, BranchesKeepTheirOwnItems) {
  int64_t id = 0;
  for (int n = 1; n <= 12; ++n)
    id = Add("T" + std::to_string(n), n == 1 ? "" : "T" + std::to_string(n - 1));
  Add("R12", "T11");  // the last one regenerated, twice
  Add("S12", "T11");
  Add("E5", "T4");  // an edit in the middle, and on from there
  Add("E6", "E5");
  Add("E7", "E6");
  Add("Z1");  // another root, longer than all others in the end
  for (int n = 2; n <= 20; ++n)
    Add("Z" + std::to_string(n), "Z" + std::to_string(n - 1));
  for (const char* head : {"T12", "R12", "S12", "T11", "E5", "E7", "Z1", "Z7", "Z12", "Z20"})
    for (const size_t page : {1U, 3U, 5U, 100U})
      ExpectLine(id, head, page);
}

TEST_P(ItemsTest, RandomTrees) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    store_ = std::make_unique<Store>(GetParam());
    SeededRandom random(seed);
    std::vector<std::string> ids;
    int64_t id = 0;
    for (int n = 0; n < 60; ++n) {
      std::string parent = ids.empty() ? "" : ids.back();
      if (!ids.empty() && random.Chance(0.2)) parent = ids[random.Below(ids.size())];
      if (random.Chance(0.03)) parent = "";
      ids.push_back("T" + std::to_string(n));
      id = Add(ids.back(), parent);
    }
    for (const std::string& head : ids)
      ExpectLine(id, head, 1 + random.Below(9));
  }
}

}  // namespace
}  // namespace tenuto
