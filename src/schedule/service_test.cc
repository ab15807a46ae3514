// Admission under pressure, over a whole stack in virtual time: who is taken off the engine when
// cells run out, and that all turns end.
#include "schedule/service.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "schedule/service_testing.h"

namespace tenuto {
namespace {

std::string AnswerAlone(const std::string& text, const TestStackOptions& options) {
  ServiceStack alone(options);
  const auto answer = alone.Ask(TestStack::Chat("", text));
  alone.stack.Settle();
  return (*answer->result)->text;
}

// Three turns that grow in step: two of them fit to their end, three don't.
TEST(Service, OnePressureTakesOneTurnOff) {
  const TestStackOptions options = SmallStack(150, 40, 40);
  for (int round = 0; round < 20; ++round) {
    ServiceStack stack(options);
    std::vector<ServiceStack::AnswerPtr> answers;
    for (const std::string name : {"a", "b", "c"})
      answers.push_back(stack.Ask(TestStack::Chat("s" + name, name)));
    stack.stack.Settle();
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_TRUE(answers[i]->ok());
      EXPECT_EQ((*answers[i]->result)->text,
                AnswerAlone(std::string(1, static_cast<char>('a' + i)), options));
    }
    EXPECT_EQ(stack.preemptions(), 1U) << "round " << round;
  }
}

// Whatever ends first, the turn that is being taken off or another: nobody waits for ever.
TEST(Service, AllTurnsEndUnderPressure) {
  const TestStackOptions options = SmallStack(150, 1, 60);
  uint64_t preemptions = 0;
  for (int round = 0; round < 60; ++round) {
    ServiceStack stack(options, {.admission = {.turns_running_max = 6}});
    std::vector<ServiceStack::AnswerPtr> answers;
    for (int i = 0; i < 8; ++i) {
      const std::string name = std::to_string(i);
      const std::string text = "round " + std::to_string(round);
      answers.push_back(stack.Ask(TestStack::Chat(i % 2 == 0 ? "s" + name : "", text + name)));
    }
    stack.stack.Settle();
    for (const auto& answer : answers)
      ASSERT_TRUE(answer->ok()) << "round " << round;
    preemptions += stack.preemptions();
    EXPECT_TRUE(stack.stack.manager.CheckIdle());
  }
  EXPECT_GT(preemptions, 60U);
}

// A turn, and the answer that a replay of it gets.
struct Replayed {
  explicit Replayed(ServiceStack& stack) : service(stack.service), world(stack.stack) {
    const auto answer = stack.Ask(TestStack::Chat("s", "hello"));
    world.Settle();
    key = ParseSessionKey("s").value();
    turn = (*answer->result)->turn;
    stored = (*answer->result)->text;
  }

  TurnTicket Ask(ReplayRequest request = {}) {
    return service.Replay(key, turn, std::move(request),
                          [this](Result<ReplayOutcome> r) { result = std::move(r); });
  }

  Service& service;
  TestStack& world;
  SessionKey key;
  TurnId turn;
  std::string stored;
  std::optional<Result<ReplayOutcome>> result;
};

TEST(Service, AReplayIsTheSameAnswerAndLeavesNothing) {
  ServiceStack stack(SmallStack(1000, 12, 12));
  Replayed replay(stack);
  replay.Ask();
  stack.stack.Settle();
  ASSERT_TRUE(replay.result->ok()) << replay.result->error().message();
  const ReplayOutcome& same = replay.result->value();
  EXPECT_TRUE(same.equal);
  EXPECT_EQ(same.text, replay.stored);
  EXPECT_EQ(same.stored_text, replay.stored);
  EXPECT_EQ(same.turn, replay.turn);
  EXPECT_EQ(same.completion_tokens, 12);

  // Fewer tokens are compared with the beginning; more let it end by itself.
  replay.Ask({.without = {}, .max_tokens = 5});
  stack.stack.Settle();
  EXPECT_TRUE((*replay.result)->equal);
  EXPECT_EQ((*replay.result)->finish_reason, "length");
  EXPECT_EQ((*replay.result)->completion_tokens, 5);
  replay.Ask({.without = {}, .max_tokens = 50});
  stack.stack.Settle();
  EXPECT_TRUE((*replay.result)->equal);
  EXPECT_EQ((*replay.result)->finish_reason, "stop");

  replay.turn = TurnId{"nothing"};
  replay.Ask();
  stack.stack.Settle();
  EXPECT_EQ(replay.result->error().code(), Code::kNotFound);
  const auto next = stack.Ask(TestStack::Chat("s", "again"));
  stack.stack.Settle();
  EXPECT_TRUE(next->ok());
  std::optional<Result<SessionInfo>> info;
  stack.service.GetSession(replay.key, [&](Result<SessionInfo> r) { info = std::move(r); });
  stack.stack.Settle();
  EXPECT_EQ(info->value().row.turns, 2U);
  EXPECT_TRUE(stack.stack.manager.CheckIdle());
}

TEST(Service, AReplayEndsWithItsClient) {
  ServiceStack stack(SmallStack(1000, 12, 12));
  Replayed replay(stack);
  // At every step of it: while the prompt is read, while it waits, while it runs, after its end.
  for (int steps = 0; steps < 40; ++steps) {
    replay.result.reset();
    const TurnTicket ticket = replay.Ask();
    for (int i = 0; i < steps; ++i)
      stack.stack.world.Step();
    stack.service.Cancel(ticket);
    stack.stack.Settle();
    ASSERT_TRUE(replay.result.has_value()) << steps;
    const bool given_up =
        !replay.result->ok() && replay.result->error().code() == Code::kUnavailable;
    EXPECT_TRUE(given_up || (steps > 0 && replay.result->ok())) << steps;
    EXPECT_TRUE(stack.stack.manager.CheckIdle());
  }
  EXPECT_TRUE(replay.result->ok());
}

TEST(Service, NothingNewWhileStopping) {
  ServiceStack stack(SmallStack(1000, 12, 12));
  Replayed replay(stack);
  bool stopped = false;
  replay.Ask();  // in flight: it ends one way or the other
  stack.service.Shutdown([&] { stopped = true; });
  stack.stack.Settle();
  EXPECT_TRUE(stopped);
  ASSERT_TRUE(replay.result.has_value());
  EXPECT_EQ(replay.result->error().code(), Code::kUnavailable);

  int refused = 0;
  const auto expect = [&refused](const auto& result) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), Code::kUnavailable);
    ++refused;
  };
  replay.result.reset();
  replay.Ask();
  stack.service.Search({}, [&](Result<MemoryAnswer> r) { expect(r); });
  stack.service.Explain(replay.key, replay.turn, [&](Result<TurnExplanation> r) { expect(r); });
  stack.service.ChangeTurn(replay.key, replay.turn, {}, [&](Result<TurnState> r) { expect(r); });
  stack.service.DeleteTurn(replay.key, replay.turn, [&](Result<TurnDeletion> r) { expect(r); });
  stack.stack.Settle();
  expect(*replay.result);
  EXPECT_EQ(refused, 5);
}

}  // namespace
}  // namespace tenuto
