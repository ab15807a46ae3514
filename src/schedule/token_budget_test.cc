#include "schedule/token_budget.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace tenuto {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(TokenBudget, WithoutALimitNothingIsKept) {
  TokenBudget budget(0);
  budget.Charge("t", 1'000'000, 5);
  EXPECT_EQ(budget.WaitNs("t", 5), 0);
  EXPECT_EQ(budget.tenants(), 0U);
}

TEST(TokenBudget, AnEmptyBucketFillsEvenly) {
  TokenBudget budget(600);  // ten a second
  const int64_t now = 1000 * kSecondNs;
  budget.Charge("t", 599, now);
  EXPECT_EQ(budget.WaitNs("t", now), 0);
  budget.Charge("t", 1 + 50, now);
  const int64_t wait = budget.WaitNs("t", now);
  EXPECT_NEAR(static_cast<double>(wait), 5e9, 2);
  EXPECT_GT(budget.WaitNs("t", now + wait - 1), 0);
  EXPECT_EQ(budget.WaitNs("t", now + wait), 0);
  EXPECT_EQ(budget.WaitNs("other", now), 0);
}

TEST(TokenBudget, WhatIsGivenBackCanBeUsed) {
  TokenBudget budget(600);
  budget.Charge("t", 700, 0);
  EXPECT_GT(budget.WaitNs("t", 0), 0);
  budget.Charge("t", -101, 0);
  EXPECT_EQ(budget.WaitNs("t", 0), 0);
  // But a bucket is never more than full.
  budget.Charge("t", -5000, 0);
  EXPECT_EQ(budget.tenants(), 0U);
  budget.Charge("t", 600, 0);
  EXPECT_GT(budget.WaitNs("t", 0), 0);
}

// Whoever asks only while there is something in the bucket gets no more than a minute's worth, what
// came back meanwhile, and one turn.
RC_GTEST_PROP(TokenBudget, TheRateHolds, ()) {
  const int64_t per_minute = *rc::gen::inRange<int64_t>(1, 100000);
  TokenBudget budget(per_minute);
  int64_t now = 0, used = 0;
  const int turns = *rc::gen::inRange(1, 100);
  for (int i = 0; i < turns; ++i) {
    now += *rc::gen::inRange<int64_t>(0, 10 * kSecondNs);
    if (budget.WaitNs("t", now) > 0) continue;
    const int64_t before = used;
    const int64_t tokens = *rc::gen::inRange<int64_t>(1, 5000);
    budget.Charge("t", tokens, now);
    used += tokens;
    const double back = static_cast<double>(now) * static_cast<double>(per_minute) / 60e9;
    RC_ASSERT(static_cast<double>(before) <= static_cast<double>(per_minute) + back + 1);
  }
}

TEST(TokenBudget, ForgetsFullBuckets) {
  TokenBudget budget(600);
  for (int i = 0; i < 100'000; ++i) {
    budget.Charge("t" + std::to_string(i), 10, i * kSecondNs);
    ASSERT_LE(budget.tenants(), 130U);
  }
}

// The most that a turn can have and the least limit fit in the arithmetic.
TEST(TokenBudget, TheLargestTurnOfTheSmallestLimit) {
  TokenBudget budget(1);
  budget.Charge("t", int64_t{1} << 40, 0);
  EXPECT_GT(budget.WaitNs("t", 0), int64_t{1} << 60);
}

}  // namespace
}  // namespace tenuto
