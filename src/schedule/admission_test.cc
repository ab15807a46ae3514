// Who is admitted when, over a whole stack in virtual time: fairness among tenants, users, sessions
// and priorities, and that nothing is left of a turn that went away while it waited.
#include "schedule/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "schedule/service_testing.h"

namespace tenuto {
namespace {

constexpr auto kBatch = TurnPriority::kBatch;

TestStackOptions RoomyStack() {
  return SmallStack(4000, 8, 8);
}

ServiceSettings OneAtATime() {
  ServiceSettings settings;
  settings.admission.turns_running_max = 1;
  return settings;
}

std::string Name(const std::string& tenant, int i) {
  return tenant + "::u::a::s" + std::to_string(i);
}

// How many turns of `tenant` ended before the first of `other`.
size_t EndedBefore(const ServiceStack& stack, const std::string& tenant, const std::string& other,
                   size_t from) {
  size_t count = 0;
  for (size_t i = from; i < stack.ended.size(); ++i) {
    if (stack.ended[i].starts_with(other)) break;
    count += stack.ended[i].starts_with(tenant) ? 1 : 0;
  }
  return count;
}

TEST(Admission, AnotherTenantsTurnIsNextInAFlood) {
  for (const int32_t running : {1, 3}) {
    ServiceSettings settings;
    settings.admission.turns_running_max = running;
    ServiceStack stack(RoomyStack(), settings);
    for (int i = 0; i < 60; ++i)
      stack.Ask(Name("flood", i), "a turn of the flood");
    for (int i = 0; i < 10; ++i) {
      stack.RunUntilEnded(stack.ended.size() + 2);
      const size_t from = stack.ended.size();
      const auto other = stack.Ask(Name("other", i), "an ordinary turn");
      stack.stack.world.RunUntil([&] { return other->result.has_value(); });
      ASSERT_TRUE(other->ok());
      // Those that run when it comes, one that is admitted while it is prepared, those beside it.
      EXPECT_LE(EndedBefore(stack, "flood", "other", from), static_cast<size_t>(2 * running));
    }
    stack.stack.Settle();
    EXPECT_EQ(stack.ended.size(), 70U);
    EXPECT_TRUE(stack.stack.manager.CheckIdle());
  }
}

TEST(Admission, SixteenSessionsOfOneUserTakeTurns) {
  ServiceStack stack(RoomyStack(), OneAtATime());
  constexpr int kSessions = 16, kTurns = 5;
  for (int turn = 0; turn < kTurns; ++turn)
    for (int i = 0; i < kSessions; ++i)
      stack.Ask(Name("t", i), i % 2 == 0 ? "short" : std::string(20, 'x'));
  stack.stack.Settle();
  ASSERT_EQ(stack.ended.size(), size_t{kSessions * kTurns});
  std::map<std::string, int> turns;
  for (size_t i = 0; i < stack.ended.size() / 2; ++i)
    ++turns[stack.ended[i]];
  EXPECT_EQ(turns.size(), size_t{kSessions});
}

TEST(Admission, UsersThatAskForMoreDoNotGetMore) {
  ServiceStack stack(RoomyStack(), OneAtATime());
  for (int i = 0; i < 30; ++i)
    stack.Ask("t::loud::a::s" + std::to_string(i), "hello");
  for (int i = 0; i < 3; ++i)
    stack.Ask("t::calm::a::s" + std::to_string(i), "hello");
  stack.stack.Settle();
  size_t last_calm = 0;
  for (size_t i = 0; i < stack.ended.size(); ++i)
    if (stack.ended[i].starts_with("t::calm")) last_calm = i;
  EXPECT_LE(last_calm, 8U);
}

TEST(Admission, BatchTurnsWaitForInteractiveOnes) {
  ServiceStack stack(RoomyStack(), OneAtATime());
  stack.Ask(Name("first", 0), "runs");
  stack.stack.world.RunUntil([&] { return stack.running() == 1; });
  for (int i = 0; i < 5; ++i)
    stack.Ask(Name("batch", i), "later", kBatch);
  for (int i = 0; i < 5; ++i)
    stack.Ask(Name("now", i), "soon");
  stack.stack.Settle();
  ASSERT_EQ(stack.ended.size(), 11U);
  for (size_t i = 1; i <= 5; ++i)
    EXPECT_TRUE(stack.ended[i].starts_with("now")) << stack.ended[i];
}

TEST(Admission, ATenantAtItsLimitWaitsAndOthersRun) {
  ServiceSettings settings;
  settings.admission.turns_running_max = 4;
  settings.admission.tenant_turns_running_max = 2;
  ServiceStack stack(RoomyStack(), settings);
  for (int i = 0; i < 8; ++i)
    stack.Ask(Name("many", i), "hello");
  int64_t most = 0;
  stack.stack.world.RunUntil([&] {
    most = std::max(most, stack.running());
    return stack.ended.size() >= 2;
  });
  EXPECT_EQ(most, 2);
  for (int i = 0; i < 4; ++i)
    stack.Ask(Name("few", i), "hello");
  while (stack.stack.world.Step())
    most = std::max(most, stack.running());
  EXPECT_EQ(most, 4);
  EXPECT_EQ(stack.ended.size(), 12U);
  EXPECT_TRUE(stack.stack.manager.CheckIdle());
}

// Two turns hold most cells. A large one waits until both have ended, and small ones that would fit
// wait behind it; they run beside the two as soon as it is gone.
TEST(Admission, ATurnThatDoesNotFitIsNotPassed) {
  for (const bool cancelled : {false, true}) {
    ServiceStack stack(SmallStack(200, 40, 40));
    stack.Ask(Name("a", 0), "x");
    stack.Ask(Name("a", 1), "x");
    stack.stack.world.RunUntil([&] { return stack.running() == 2; });
    const auto large = stack.Ask(TestStack::Chat(Name("a", 2), std::string(150, 'x')), "large");
    stack.RunFor(10);
    for (int i = 3; i < 8; ++i)
      stack.Ask(Name("a", i), "y");
    stack.RunFor(40);
    EXPECT_EQ(stack.running(), 2);
    EXPECT_EQ(stack.queued(), 6);
    if (cancelled) {
      stack.service.Cancel(large->ticket);
      EXPECT_TRUE(stack.stack.world.RunUntil([&] { return stack.running() > 2; }));
    }
    stack.stack.Settle();
    ASSERT_EQ(stack.ended.size(), 8U);
    EXPECT_EQ(stack.ended[cancelled ? 0 : 2], "large");
  }
}

// Three turns grow until one has to leave the engine. It goes on before turns of a tenant that has
// had nothing yet.
TEST(Admission, WhoWasTakenOffGoesOnFirst) {
  ServiceSettings settings;
  settings.admission.turns_running_max = 3;
  ServiceStack stack(SmallStack(150, 40, 40), settings);
  for (int i = 0; i < 3; ++i)
    stack.Ask(Name("a", i), "x");
  ASSERT_TRUE(stack.stack.world.RunUntil([&] { return stack.running() == 3; }));
  for (int i = 0; i < 3; ++i)
    stack.Ask(Name("b", i), "x");
  stack.stack.Settle();
  ASSERT_GE(stack.preemptions(), 1U);
  ASSERT_EQ(stack.ended.size(), 6U);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(stack.ended[i].starts_with("a")) << stack.ended[i];
}

// What a turn did not use of what it was charged comes back: short answers are not paid for as the
// long ones that they might have been.
TEST(Admission, ShortAnswersAreNotChargedAsLongOnes) {
  TestStackOptions options = SmallStack(4000, 5, 5);
  options.session.answer_reserve_tokens = 200;
  ServiceStack stack(options, OneAtATime());
  for (int i = 0; i < 20; ++i) {
    stack.Ask(Name("short", i), "x");
    TurnRequest long_prompt = TestStack::Chat(Name("long", i), std::string(200, 'x'));
    long_prompt.max_tokens = 5;
    stack.Ask(std::move(long_prompt), "long");
  }
  stack.RunUntilEnded(20);
  // By what was computed a long one costs six short ones; by what was charged, the same.
  EXPECT_LE(std::ranges::count(stack.ended, "long"), 6);
  stack.stack.Settle();
  EXPECT_EQ(stack.ended.size(), 40U);
}

// At every step of a turn among others: whether it ran or not, the others all end and nothing of it
// stays behind.
TEST(Admission, ACancelledTurnLeavesNothingBehind) {
  for (int steps = 0; steps < 200; ++steps) {
    ServiceSettings settings;
    settings.admission.turns_running_max = 2;
    settings.admission.tenant_turns_running_max = 1;
    ServiceStack stack(RoomyStack(), settings);
    for (int i = 0; i < 3; ++i)
      stack.Ask(Name("t", i), "before");
    const auto gone = stack.Ask(Name("t", 1), "of a session that has one already");
    for (int i = 0; i < 3; ++i)
      stack.Ask(Name("other", i), "behind", i == 0 ? kBatch : TurnPriority::kInteractive);
    for (int i = 0; i < steps; ++i)
      stack.stack.world.Step();
    stack.service.Cancel(gone->ticket);
    stack.stack.Settle();
    ASSERT_EQ(stack.ended.size(), 7U) << steps;
    EXPECT_EQ(stack.queued(), 0) << steps;
    EXPECT_EQ(stack.running(), 0) << steps;
    EXPECT_TRUE(stack.stack.manager.CheckIdle()) << steps;
    const auto next = stack.Ask(Name("t", 1), "goes on");
    stack.stack.Settle();
    ASSERT_TRUE(next->ok()) << steps;
  }
}

TEST(Admission, AStopLeavesNothingBehind) {
  for (int steps = 0; steps < 100; steps += 5) {
    ServiceStack stack(RoomyStack(), OneAtATime());
    for (int i = 0; i < 6; ++i)
      stack.Ask(Name(i % 2 == 0 ? "t" : "other", i), "hello",
                i == 5 ? kBatch : TurnPriority::kInteractive);
    for (int i = 0; i < steps; ++i)
      stack.stack.world.Step();
    bool stopped = false;
    stack.service.Shutdown([&] { stopped = true; });
    stack.stack.Settle();
    EXPECT_TRUE(stopped);
    EXPECT_EQ(stack.ended.size(), 6U);
    EXPECT_EQ(stack.queued(), 0);
    EXPECT_EQ(stack.running(), 0);
    EXPECT_TRUE(stack.stack.manager.CheckIdle());
  }
}

}  // namespace
}  // namespace tenuto
