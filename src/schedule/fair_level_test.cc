#include "schedule/fair_level.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace tenuto {
namespace {

constexpr int64_t kTurnMax = 1000;

std::string Name(int i) {
  return "c" + std::to_string(i);
}

// So many tokens has each turn, over and over. Drawn once: a test that fails would draw for ever.
std::vector<int64_t> Costs() {
  return *rc::gen::container<std::vector<int64_t>>(50, rc::gen::inRange<int64_t>(1, kTurnMax));
}

// Lets the next child have a turn of `tokens`; its name.
std::string Go(FairLevel& level, int64_t tokens) {
  const std::string name = *level.Next();
  level.Charge(name, tokens);
  return name;
}

TEST(FairLevel, EqualTurnsOfEqualChildrenTakeTurns) {
  FairLevel level;
  for (int i = 0; i < 3; ++i)
    level.Wake(Name(i), 1);
  std::string order;
  for (int i = 0; i < 9; ++i)
    order += Go(level, 10);
  EXPECT_EQ(order, "c0c1c2c0c1c2c0c1c2");
}

TEST(FairLevel, AHeavierChildGetsMore) {
  FairLevel level;
  level.Wake("heavy", 3);
  level.Wake("light", 1);
  std::map<std::string, int> turns;
  for (int i = 0; i < 400; ++i)
    ++turns[Go(level, 10)];
  EXPECT_EQ(turns["heavy"], 300);
  EXPECT_EQ(turns["light"], 100);
}

// The bound that the header promises: tokens / weight of any two differ by at most one turn.
RC_GTEST_PROP(FairLevel, BusyChildrenShareByWeight, ()) {
  FairLevel level;
  const auto weights = *rc::gen::container<std::vector<int>>(*rc::gen::inRange<size_t>(2, 6),
                                                             rc::gen::inRange(1, 9));
  for (size_t i = 0; i < weights.size(); ++i)
    level.Wake(Name(static_cast<int>(i)), weights[i]);
  std::map<std::string, double> tokens, largest;
  const auto turns = *rc::gen::inRange(1, 200);
  for (int turn = 0; turn < turns; ++turn) {
    const int64_t cost = *rc::gen::inRange<int64_t>(1, kTurnMax);
    const std::string name = Go(level, cost);
    tokens[name] += static_cast<double>(cost);
    largest[name] = std::max(largest[name], static_cast<double>(cost));
    for (size_t i = 0; i < weights.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const std::string a = Name(static_cast<int>(i)), b = Name(static_cast<int>(j));
        const double apart = std::abs(tokens[a] / weights[i] - tokens[b] / weights[j]);
        RC_ASSERT(apart <= std::max(largest[a] / weights[i], largest[b] / weights[j]) + 0.01);
      }
  }
}

// Who comes in is next after what is under way: the others have had their turn already.
TEST(FairLevel, ANewChildGoesBeforeTheNextTurnOfABusyOne) {
  FairLevel level;
  level.Wake("busy", 1);
  for (int i = 0; i < 100; ++i)
    Go(level, 500);
  level.Wake("new", 1);
  EXPECT_EQ(Go(level, 500), "new");
  EXPECT_EQ(Go(level, 500), "busy");
}

TEST(FairLevel, BeingAwayEarnsNothing) {
  FairLevel level;
  level.Wake("away", 1);
  level.Wake("busy", 1);
  level.Charge("away", 10);
  level.Sleep("away");
  for (int i = 0; i < 1000; ++i)
    Go(level, 10);
  level.Wake("away", 1);
  std::map<std::string, int> turns;
  for (int i = 0; i < 20; ++i)
    ++turns[Go(level, 10)];
  EXPECT_LE(turns["away"], 11);
}

// Nor does it forgive: a child that just had a large turn waits for its share of the others' time.
TEST(FairLevel, GoingAwayAndComingBackPaysNoDebt) {
  FairLevel level;
  level.Wake("greedy", 1);
  level.Wake("modest", 1);
  level.Charge("greedy", 1000);
  level.Sleep("greedy");
  level.Wake("greedy", 1);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(Go(level, 100), "modest") << i;
}

// Ever-new children can't keep one waiting that has had turns: the clock moves with what they get.
RC_GTEST_PROP(FairLevel, NewcomersDoNotStarveWhoWasThere, ()) {
  FairLevel level;
  level.Wake("old", 1);
  Go(level, kTurnMax);
  const int waiting = *rc::gen::inRange(1, 20);
  const auto costs = Costs();
  int last = 0;
  while (last < waiting)
    level.Wake(Name(last++), 1);
  int64_t others = 0;
  for (size_t i = 0;; ++i) {
    const int64_t cost = costs[i % costs.size()];
    const std::string name = Go(level, cost);
    if (name == "old") break;
    others += cost;
    level.Sleep(name);
    level.Wake(Name(last++), 1);
    // Each of those that wait at a time may have about what the old one had.
    RC_ASSERT(others <= 4 * kTurnMax * (waiting + 1));
  }
}

// A child that waits is passed by at most what those that were there may have by then.
RC_GTEST_PROP(FairLevel, WhoWaitsGoesWithinABound, ()) {
  FairLevel level;
  const int busy = *rc::gen::inRange(1, 10);
  for (int i = 0; i < busy; ++i)
    level.Wake(Name(i), 1);
  const int before = *rc::gen::inRange(0, 100);
  for (int i = 0; i < before; ++i)
    Go(level, *rc::gen::inRange<int64_t>(1, kTurnMax));
  level.Wake("new", 1);
  const auto costs = Costs();
  int64_t others = 0;
  for (size_t i = 0;; ++i) {
    const int64_t cost = costs[i % costs.size()];
    if (Go(level, cost) == "new") break;
    others += cost;
    RC_ASSERT(others <= 2 * kTurnMax * busy);
  }
}

TEST(FairLevel, WhatWasChargedTooMuchComesBack) {
  FairLevel level;
  level.Wake("a", 1);
  level.Wake("b", 1);
  EXPECT_EQ(Go(level, 1000), "a");
  level.Correct("a", 1, -900);
  EXPECT_EQ(Go(level, 250), "b");
  EXPECT_EQ(Go(level, 100), "a");
  EXPECT_EQ(Go(level, 100), "a");
  EXPECT_EQ(Go(level, 100), "b");
}

TEST(FairLevel, WhatWasChargedTooLittleIsPaidLater) {
  FairLevel level;
  level.Wake("a", 1);
  level.Wake("b", 1);
  EXPECT_EQ(Go(level, 10), "a");
  level.Sleep("a");
  level.Correct("a", 1, 1000);
  level.Wake("a", 1);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(Go(level, 100), "b") << i;
  // Also by one that the level has no memory of.
  level.Correct("c", 1, 1000);
  level.Wake("c", 1);
  for (int i = 0; i < 5; ++i)
    EXPECT_NE(Go(level, 100), "c") << i;
}

// By turns that are all charged too much and corrected at once, nobody loses or wins.
RC_GTEST_PROP(FairLevel, SharesAreThoseOfWhatWasUsed, ()) {
  FairLevel level;
  level.Wake("a", 1);
  level.Wake("b", 1);
  const auto costs = Costs();
  std::map<std::string, int64_t> used;
  for (const int64_t cost : costs) {
    const std::string name = Go(level, kTurnMax);
    const int64_t really = name == "a" ? cost : (cost + 9) / 10;
    level.Correct(name, 1, really - kTurnMax);
    used[name] += really;
    RC_ASSERT(std::abs(used["a"] - used["b"]) <= kTurnMax);
  }
}

// The clock goes by what was used too: else who comes anew would start far behind the others.
TEST(FairLevel, RefundsDoNotKeepNewcomersWaiting) {
  FairLevel level;
  level.Wake("a", 1);
  level.Wake("b", 1);
  for (int i = 0; i < 100; ++i)
    level.Correct(Go(level, 1000), 1, -990);
  level.Wake("new", 1);
  int others = 0;
  for (; *level.Next() != "new"; ++others)
    level.Correct(Go(level, 1000), 1, -990);
  EXPECT_LE(others, 4);
}

// A refund that comes after its child has been away does not take it to before it came back.
TEST(FairLevel, ARefundIsNoCredit) {
  FairLevel level;
  level.Wake("a", 1);
  level.Wake("busy", 1);
  level.Charge("a", 1000);
  level.Sleep("a");
  for (int i = 0; i < 50; ++i)
    Go(level, 10);
  level.Wake("a", 1);
  level.Correct("a", 1, -1000);
  std::map<std::string, int> turns;
  for (int i = 0; i < 20; ++i)
    ++turns[Go(level, 10)];
  EXPECT_LE(turns["a"], 12);
}

TEST(FairLevel, ForgetsWhoseTurnTheClockHasPassed) {
  FairLevel level;
  level.Wake("busy", 1);
  for (int i = 0; i < 100000; ++i) {
    level.Wake(Name(i), 1);
    level.Charge(Name(i), 1 + i % 7);
    level.Sleep(Name(i));
    Go(level, 5);
    ASSERT_LE(level.children(), 1026U);
  }
  EXPECT_LT(level.children(), 10U);
  level.Sleep("busy");
  EXPECT_TRUE(level.idle());
  EXPECT_EQ(level.children(), 0U);
}

}  // namespace
}  // namespace tenuto
