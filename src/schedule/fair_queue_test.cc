#include "schedule/fair_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tenuto {
namespace {

using enum TurnPriority;

constexpr int64_t kTurnMax = 1000;

FairFlow Flow(const std::string& tenant, const std::string& user = "u",
              const std::string& session = "s") {
  return {kInteractive, tenant, user, session};
}

FairFlow Batch(const std::string& tenant) {
  return {kBatch, tenant, "u", "s"};
}

std::vector<uint64_t> Drain(FairQueue& queue) {
  std::vector<uint64_t> order;
  while (queue.Front())
    order.push_back(queue.Pop());
  return order;
}

// A queue and who ought to be in it.
struct Checked {
  static std::string NameOf(const FairFlow& flow) {
    return (flow.priority == kBatch ? "b/" : "i/") + flow.tenant + "/" + flow.user + "/" +
           flow.session;
  }

  void Push(const FairFlow& flow, int64_t tokens) {
    queue.Push(flow, ++last, tokens);
    sessions[NameOf(flow)].push_back(last);
    waiting[last] = {flow, tokens};
  }
  void PushAny() {
    FairFlow flow;
    flow.priority = *rc::gen::weightedElement<TurnPriority>({{3, kInteractive}, {1, kBatch}});
    flow.tenant = *rc::gen::elementOf(tenants);
    flow.user = "u" + std::to_string(*rc::gen::inRange(0, 3));
    flow.session = "s" + std::to_string(*rc::gen::inRange(0, 3));
    Push(flow, *rc::gen::inRange<int64_t>(1, kTurnMax));
  }
  void Forget(uint64_t id) {
    const std::string name = NameOf(waiting.at(id).first);
    std::erase(sessions.at(name), id);
    if (sessions.at(name).empty()) sessions.erase(name);
    waiting.erase(id);
  }
  void PopAndCheck() {
    const auto front = queue.Front();
    const bool any = std::ranges::any_of(
        waiting, [this](const auto& entry) { return !parked.contains(entry.second.first.tenant); });
    RC_ASSERT(front.has_value() == any);
    if (!any) return;
    RC_ASSERT(queue.Pop() == *front);
    RC_ASSERT(waiting.contains(*front));
    const FairFlow flow = waiting.at(*front).first;
    RC_ASSERT(sessions.at(NameOf(flow)).front() == *front);
    RC_ASSERT(!parked.contains(flow.tenant));
    if (*rc::gen::inRange(0, 3) == 0)
      queue.Correct(flow, *rc::gen::inRange<int64_t>(-waiting.at(*front).second, kTurnMax));
    Forget(*front);
  }
  void RemoveAny() {
    if (waiting.empty()) return;
    auto at = waiting.begin();
    std::advance(at, *rc::gen::inRange<size_t>(0, waiting.size()));
    const uint64_t id = at->first;
    RC_ASSERT(queue.Remove(id));
    RC_ASSERT(!queue.Remove(id));
    Forget(id);
  }
  void ParkOrNot() {
    const std::string tenant = *rc::gen::elementOf(tenants);
    if (parked.erase(tenant) > 0) return queue.Unpark(tenant);
    parked.insert(tenant);
    queue.Park(tenant);
  }

  const std::vector<std::string> tenants = {"a", "b", "c"};
  FairQueue queue{{{"b", 3}}};
  uint64_t last = 0;
  std::map<std::string, std::deque<uint64_t>> sessions;
  std::map<uint64_t, std::pair<FairFlow, int64_t>> waiting;
  std::set<std::string> parked;
};

// Whatever happens: each turn goes once, a session's in order, a parked tenant's not, and an empty
// queue remembers nothing.
RC_GTEST_PROP(FairQueue, EachTurnGoesOnceAndInItsSessionsOrder, ()) {
  Checked checked;
  const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 10));
  for (const int step : steps) {
    if (step < 5) {
      checked.PushAny();
    } else if (step < 8) {
      checked.PopAndCheck();
    } else if (step == 8) {
      checked.RemoveAny();
    } else {
      checked.ParkOrNot();
    }
    const size_t size = checked.queue.size(kInteractive) + checked.queue.size(kBatch);
    RC_ASSERT(size == checked.waiting.size());
  }
  for (const std::string& tenant : std::set(checked.parked))
    checked.queue.Unpark(tenant);
  checked.parked.clear();
  while (!checked.waiting.empty())
    checked.PopAndCheck();
  RC_ASSERT(!checked.queue.Front().has_value());
  RC_ASSERT(checked.queue.names() == 0U);
}

RC_GTEST_PROP(FairQueue, OneSessionIsFirstComeFirstServed, ()) {
  FairQueue queue;
  const auto costs =
      *rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(1, kTurnMax));
  std::vector<uint64_t> pushed;
  for (const int64_t cost : costs) {
    pushed.push_back(pushed.size());
    queue.Push(Flow("t"), pushed.back(), cost);
  }
  RC_ASSERT(Drain(queue) == pushed);
}

// Sixteen sessions of one user that were there before a flood of another's.
TEST(FairQueue, AFloodDoesNotPassTheOthers) {
  FairQueue queue;
  for (uint64_t i = 0; i < 100; ++i)
    queue.Push(Flow("flood", "u", "s" + std::to_string(i)), i, 500);
  for (uint64_t i = 0; i < 10; ++i)
    queue.Pop();
  queue.Push(Flow("other"), 1000, 500);
  queue.Push(Flow("other"), 1001, 500);
  EXPECT_EQ(queue.Pop(), 1000U);
  EXPECT_EQ(queue.Pop(), 10U);
  EXPECT_EQ(queue.Pop(), 1001U);
}

TEST(FairQueue, UsersOfATenantShareItsPart) {
  FairQueue queue;
  uint64_t id = 0;
  for (int i = 0; i < 100; ++i) {
    queue.Push(Flow("a", "loud", "s" + std::to_string(i)), id++, 10);  // ids 0, 3, 6, ...
    queue.Push(Flow("a", "calm"), id++, 10);
    queue.Push(Flow("b"), id++, 10);
  }
  std::map<uint64_t, int> turns;
  for (int i = 0; i < 80; ++i)
    ++turns[queue.Pop() % 3];
  EXPECT_EQ(turns[2], 40);
  EXPECT_EQ(turns[0], 20);
  EXPECT_EQ(turns[1], 20);
}

TEST(FairQueue, SessionsOfAUserShareItsPart) {
  FairQueue queue;
  for (uint64_t i = 0; i < 60; ++i)
    queue.Push(Flow("a", "u", i % 3 == 0 ? "short" : "long"), i, i % 3 == 0 ? 10 : 100);
  int long_ones = 0;
  for (int i = 0; i < 22; ++i)
    long_ones += queue.Pop() % 3 == 0 ? 0 : 1;
  EXPECT_EQ(long_ones, 2);
}

TEST(FairQueue, TenantsShareByTheirWeights) {
  FairQueue queue({{"big", 4}});
  for (uint64_t i = 0; i < 200; ++i)
    queue.Push(Flow(i % 2 == 0 ? "big" : "small"), i, 100);
  int big = 0;
  for (int i = 0; i < 50; ++i)
    big += queue.Pop() % 2 == 0 ? 1 : 0;
  EXPECT_EQ(big, 40);
}

TEST(FairQueue, InteractiveGoesBeforeBatch) {
  FairQueue queue;
  for (uint64_t i = 0; i < 10; ++i)
    queue.Push(Batch("a"), i, 100);
  EXPECT_EQ(queue.Pop(), 0U);
  for (uint64_t i = 100; i < 103; ++i)
    queue.Push(Flow("a"), i, 100);
  EXPECT_EQ(queue.size(kInteractive), 3U);
  EXPECT_EQ(queue.size(kBatch), 9U);
  EXPECT_EQ(queue.Pop(), 100U);
  EXPECT_EQ(queue.Pop(), 101U);
  EXPECT_EQ(queue.Pop(), 102U);
  EXPECT_EQ(queue.Pop(), 1U);
}

// A batch turn of t tokens is passed by kBatchShare * t tokens and one turn; and no sooner than
// that does it pass an interactive one.
RC_GTEST_PROP(FairQueue, BatchIsPassedByWhatTheHeaderSays, ()) {
  FairQueue queue;
  uint64_t id = 0;
  const auto costs =
      *rc::gen::container<std::vector<int64_t>>(50, rc::gen::inRange<int64_t>(1, kTurnMax));
  const auto tokens = [&](uint64_t turn) { return costs[turn % costs.size()]; };
  const auto push = [&](const FairFlow& flow) {
    queue.Push(flow, id, tokens(id));
    ++id;
  };
  push(Flow("a"));
  const uint64_t batch = id;
  push(Batch("a"));
  push(Batch("a"));
  int64_t passed = 0, earned = 0;
  for (const uint64_t next : {batch, batch + 1}) {
    while (queue.Front() != next) {
      const int64_t cost = tokens(queue.Pop());
      passed += cost;
      earned += cost;
      push(Flow("a"));
    }
    const int64_t needed = FairQueue::kBatchShare * tokens(next);
    RC_ASSERT(earned >= needed);
    RC_ASSERT(passed < needed + kTurnMax);
    earned -= needed;
    passed = 0;
    queue.Pop();
  }
}

TEST(FairQueue, BatchEarnsNothingWhileItIsAwayOrParked) {
  FairQueue queue;
  uint64_t id = 0;
  const auto interactive = [&](int turns) {
    for (int i = 0; i < turns; ++i) {
      queue.Push(Flow("a"), id++, 100);
      queue.Pop();
    }
  };
  const auto passes = [&] {
    queue.Push(Flow("a"), id, 100);
    const bool batch = queue.Front() != id;
    queue.Remove(id++);
    return batch;
  };
  queue.Push(Batch("b"), 1000, 100);
  interactive(15);
  EXPECT_FALSE(passes());
  EXPECT_TRUE(queue.Remove(1000));
  interactive(100);
  queue.Push(Batch("b"), 1001, 100);
  interactive(15);
  queue.Park("b");
  interactive(100);
  queue.Unpark("b");
  EXPECT_FALSE(passes());
  interactive(1);
  EXPECT_TRUE(passes());
}

// A tenant at its limit keeps its place among its own, and the others don't wait for it.
TEST(FairQueue, AParkedTenantWaitsAndEarnsNothing) {
  FairQueue queue;
  for (uint64_t i = 0; i < 100; ++i) {
    queue.Push(Flow("a"), i, 100);
    queue.Push(Flow("b"), 1000 + i, 100);
  }
  queue.Push(Batch("a"), 2000, 100);
  queue.Park("a");
  for (uint64_t i = 0; i < 50; ++i)
    EXPECT_EQ(queue.Pop(), 1000 + i);
  queue.Unpark("a");
  int a = 0;
  for (int i = 0; i < 20; ++i)
    a += queue.Pop() < 1000 ? 1 : 0;
  EXPECT_LE(a, 11);
  queue.Park("a");
  queue.Park("b");
  EXPECT_FALSE(queue.Front().has_value());
  queue.Push(Flow("c"), 3000, 1);
  EXPECT_EQ(Drain(queue), std::vector<uint64_t>{3000});
  queue.Unpark("b");
  EXPECT_GE(queue.Pop(), 1000U);
}

}  // namespace
}  // namespace tenuto
