// Each limit over a whole stack in virtual time: who is refused, with what, and that nothing of it
// is left.
#include "schedule/limits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedule/service_testing.h"

namespace tenuto {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TestStackOptions Roomy() {
  return SmallStack(4000, 8, 8);
}

std::string Name(const std::string& tenant, int i) {
  return tenant + "::u::a::s" + std::to_string(i);
}

// What a turn was refused with: the limit's name, or "".
std::string LimitOf(const ServiceStack::AnswerPtr& answer) {
  if (!answer->result || answer->ok()) return "";
  EXPECT_EQ(answer->result->error().code(), Code::kExhausted);
  EXPECT_GE(answer->result->error().retry_after_s(), 1);
  return answer->result->error().field();
}

void ExpectNothingLeft(ServiceStack& stack) {
  EXPECT_EQ(stack.queued(), 0);
  EXPECT_EQ(stack.running(), 0);
  EXPECT_TRUE(stack.stack.manager.CheckIdle());
}

TEST(TurnLimits, ATenantThatFillsItsPartOfTheQueueIsRefusedAndOthersAreNot) {
  ServiceSettings settings;
  settings.admission.turns_running_max = 1;
  settings.limits.turns_queued_max = 8;  // half of it for one tenant
  ServiceStack stack(Roomy(), settings);
  std::vector<ServiceStack::AnswerPtr> many;
  for (int i = 0; i < 6; ++i)
    many.push_back(stack.Ask(Name("many", i), "hello"));
  const auto few = stack.Ask(Name("few", 0), "hello");
  stack.stack.Settle();
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(LimitOf(many[static_cast<size_t>(i)]), i < 4 ? "" : "limit.tenant_turns_queued") << i;
  EXPECT_TRUE(few->ok());
  EXPECT_EQ(stack.refused("tenant_turns_queued"), 2U);
  ExpectNothingLeft(stack);
  // There is room again.
  const auto again = stack.Ask(Name("many", 9), "hello");
  stack.stack.Settle();
  EXPECT_TRUE(again->ok());
}

TEST(TurnLimits, TurnsThatRunDoNotCountAsWaiting) {
  ServiceSettings settings;
  settings.admission.turns_running_max = 2;
  settings.limits.tenant_turns_queued_max = 1;
  ServiceStack stack(Roomy(), settings);
  for (int i = 0; i < 2; ++i) {
    stack.Ask(Name("t", i), "hello");
    ASSERT_TRUE(stack.stack.world.RunUntil([&] { return stack.running() == i + 1; }));
  }
  const auto waits = stack.Ask(Name("t", 2), "hello");
  const auto refused = stack.Ask(Name("t", 3), "hello");
  stack.stack.Settle();
  EXPECT_TRUE(waits->ok());
  EXPECT_EQ(LimitOf(refused), "limit.tenant_turns_queued");
  ExpectNothingLeft(stack);
}

TEST(TurnLimits, AFullQueueRefusesEverybody) {
  ServiceSettings settings;
  settings.admission.turns_running_max = 1;
  settings.limits.turns_queued_max = 2;
  settings.limits.tenant_turns_queued_max = 100;
  ServiceStack stack(Roomy(), settings);
  for (int i = 0; i < 3; ++i)
    stack.Ask(Name("t", i), "hello");
  const auto refused = stack.Ask(Name("other", 0), "hello");
  stack.stack.Settle();
  EXPECT_EQ(LimitOf(refused), "queue");
  EXPECT_EQ(stack.refused("queue"), 1U);
  EXPECT_EQ(stack.ended.size(), 4U);
  ExpectNothingLeft(stack);
}

TEST(TurnLimits, TokensPerMinuteAreGivenBackByTime) {
  ServiceSettings settings;
  settings.limits.tenant_tokens_per_minute = 60;
  ServiceStack stack(Roomy(), settings);
  const auto first = stack.Ask(Name("t", 0), std::string(100, 'x'));
  stack.stack.Settle();
  ASSERT_TRUE(first->ok());
  const auto& outcome = first->result->value();
  const int64_t used = outcome.recomputed + outcome.completion_tokens;
  ASSERT_GT(used, 100);

  const auto refused = stack.Ask(Name("t", 1), "x");
  const auto other = stack.Ask(Name("other", 0), "x");
  stack.stack.Settle();
  EXPECT_EQ(LimitOf(refused), "limit.tenant_tokens_per_minute");
  EXPECT_TRUE(other->ok());
  // A token a second: what was overdrawn comes back in as many.
  const int64_t seconds = refused->result->error().retry_after_s();
  EXPECT_NEAR(static_cast<double>(seconds), static_cast<double>(used - 60), 2);
  stack.Wait((seconds - 2) * kSecondNs);
  EXPECT_EQ(LimitOf(stack.AskAndWait(Name("t", 1), "x")), "limit.tenant_tokens_per_minute");
  stack.Wait(2 * kSecondNs);
  EXPECT_TRUE(stack.AskAndWait(Name("t", 1), "x")->ok());
  EXPECT_EQ(stack.refused("tenant_tokens_per_minute"), 2U);
  ExpectNothingLeft(stack);
}

// Turns that came together can't all run on what is left: those that are not ready yet when the
// last of it goes are refused before they run.
TEST(TurnLimits, ABurstDoesNotPassTheTokensPerMinute) {
  ServiceSettings settings;
  settings.limits.tenant_tokens_per_minute = 60;
  ServiceStack stack(Roomy(), settings);
  std::vector<ServiceStack::AnswerPtr> burst;
  for (int i = 0; i < 10; ++i)
    burst.push_back(stack.Ask(Name("t", i), std::string(100, 'x')));
  stack.stack.Settle();
  int ok = 0;
  for (const auto& answer : burst) {
    ok += answer->ok() ? 1 : 0;
    EXPECT_EQ(LimitOf(answer), answer->ok() ? "" : "limit.tenant_tokens_per_minute");
  }
  EXPECT_EQ(ok, 1);
  ExpectNothingLeft(stack);
  EXPECT_TRUE(stack.AskAndWait(Name("other", 0), "x")->ok());
}

// What was not computed is not paid for: here a turn that left before it ran.
TEST(TurnLimits, ATurnThatDidNotRunCostsNothing) {
  ServiceSettings settings;
  settings.admission.turns_running_max = 1;
  settings.limits.tenant_tokens_per_minute = 400;
  ServiceStack stack(SmallStack(4000, 150, 150), settings);
  stack.Ask(Name("other", 0), "runs");
  stack.stack.world.RunUntil([&] { return stack.running() == 1; });
  for (int i = 0; i < 5; ++i) {
    const auto gone = stack.Ask(Name("t", i), std::string(300, 'x'));
    stack.RunFor(8);
    stack.service.Cancel(gone->ticket);
    stack.stack.world.RunUntil([&] { return gone->result.has_value(); });
    ASSERT_FALSE(gone->ok()) << i;
    EXPECT_EQ(gone->result->error().code(), Code::kUnavailable) << i;
  }
  stack.stack.Settle();
  EXPECT_TRUE(stack.AskAndWait(Name("t", 99), std::string(100, 'x'))->ok());
}

// Whatever a turn is at when its time is up, it ends once, and those that run are left alone.
TEST(TurnLimits, ATurnThatWaitsTooLongIsRefused) {
  TestStackOptions options = SmallStack(4000, 60, 60);
  options.engine_task_ns = kSecondNs;
  ServiceSettings settings;
  settings.admission.turns_running_max = 1;
  settings.limits.queue_timeout_s = 5;
  ServiceStack stack(options, settings);
  const auto runs = stack.Ask(Name("t", 0), "runs");
  stack.stack.world.RunUntil([&] { return stack.running() == 1; });
  const auto waits = stack.Ask(Name("t", 1), "waits for a place");
  const auto leased = stack.Ask(Name("t", 0), "waits for its session");
  stack.stack.Settle();
  EXPECT_TRUE(runs->ok());
  EXPECT_EQ(LimitOf(waits), "limit.queue_timeout");
  EXPECT_EQ(LimitOf(leased), "limit.queue_timeout");
  EXPECT_EQ(stack.refused("queue_timeout"), 2U);
  EXPECT_EQ(stack.ended, (std::vector<std::string>{Name("t", 1), Name("t", 0), Name("t", 0)}));
  ExpectNothingLeft(stack);
  EXPECT_TRUE(stack.AskAndWait(Name("t", 0), "goes on")->ok());
}

TEST(TurnLimits, ATurnIsRefusedAtWhateverItWaitsFor) {
  uint64_t refused = 0;
  for (int64_t ms = 1; ms < 60; ms += 2) {
    TestStackOptions options = SmallStack(4000, 20, 20);
    options.engine_task_ns = kSecondNs / 10;
    ServiceSettings settings;
    settings.admission.turns_running_max = 1;
    settings.limits.queue_timeout_s = 1;
    ServiceStack stack(options, settings);
    for (int i = 0; i < 4; ++i) {
      stack.Ask(Name("t", i % 3), "hello");
      stack.Wait(ms * kSecondNs / 100);
    }
    stack.stack.Settle();
    EXPECT_EQ(stack.ended.size(), 4U) << ms;
    refused += stack.refused("queue_timeout");
    ExpectNothingLeft(stack);
    EXPECT_TRUE(stack.AskAndWait(Name("t", 0), "goes on")->ok()) << ms;
  }
  EXPECT_GT(refused, 10U);
}

}  // namespace
}  // namespace tenuto
