// Admission under pressure, over a whole stack in virtual time: who is taken off the engine when
// cells run out, and that all turns end.
#include "schedule/service.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "session/testing.h"

namespace tenuto {
namespace {

constexpr const char* kPreemptions = "tenuto_preemptions_total";

// TestStack with the real scheduler in the place of its own.
struct ServiceStack {
  explicit ServiceStack(const TestStackOptions& options, ServiceSettings settings = {})
      : stack(disk, options), service(settings, stack.manager, stack.core, stack.metrics) {}

  std::shared_ptr<std::optional<Result<TurnOutcome>>> Ask(TurnRequest request) {
    auto answer = std::make_shared<std::optional<Result<TurnOutcome>>>();
    TurnSink sink;
    sink.on_chunk = [](const RunChunk&) {};
    sink.on_done = [answer](Result<TurnOutcome> outcome) { *answer = std::move(outcome); };
    service.Submit(std::move(request), std::move(sink));
    return answer;
  }
  uint64_t preemptions() {
    return stack.metrics
        .GetCounter(kPreemptions, "Running turns taken off the engine for lack of KV cells")
        .value();
  }

  TestDisk disk;
  TestStack stack;
  Service service;
};

TestStackOptions Options(int32_t cells, int32_t answer_min, int32_t answer_max) {
  TestStackOptions options;
  options.model.cells = cells;
  options.model.sequences = 8;
  options.model.answer_tokens_min = answer_min;
  options.model.answer_tokens_max = answer_max;
  options.session.answer_reserve_tokens = 5;
  return options;
}

std::string AnswerAlone(const std::string& text, const TestStackOptions& options) {
  ServiceStack alone(options);
  const auto answer = alone.Ask(TestStack::Chat("", text));
  alone.stack.Settle();
  return answer->value()->text;
}

// Three turns that grow in step: two of them fit to their end, three don't.
TEST(Service, OnePressureTakesOneTurnOff) {
  const TestStackOptions options = Options(150, 40, 40);
  for (int round = 0; round < 20; ++round) {
    ServiceStack stack(options);
    std::vector<std::shared_ptr<std::optional<Result<TurnOutcome>>>> answers;
    for (const std::string name : {"a", "b", "c"})
      answers.push_back(stack.Ask(TestStack::Chat("s" + name, name)));
    stack.stack.Settle();
    for (size_t i = 0; i < answers.size(); ++i) {
      ASSERT_TRUE(answers[i]->has_value() && answers[i]->value().ok());
      EXPECT_EQ(answers[i]->value()->text,
                AnswerAlone(std::string(1, static_cast<char>('a' + i)), options));
    }
    EXPECT_EQ(stack.preemptions(), 1U) << "round " << round;
  }
}

// Whatever ends first, the turn that is being taken off or another: nobody waits for ever.
TEST(Service, AllTurnsEndUnderPressure) {
  const TestStackOptions options = Options(150, 1, 60);
  uint64_t preemptions = 0;
  for (int round = 0; round < 60; ++round) {
    ServiceStack stack(options, {.turns_running_max = 6});
    std::vector<std::shared_ptr<std::optional<Result<TurnOutcome>>>> answers;
    for (int i = 0; i < 8; ++i) {
      const std::string name = std::to_string(i);
      const std::string text = "round " + std::to_string(round);
      answers.push_back(stack.Ask(TestStack::Chat(i % 2 == 0 ? "s" + name : "", text + name)));
    }
    stack.stack.Settle();
    for (const auto& answer : answers)
      ASSERT_TRUE(answer->has_value() && answer->value().ok()) << "round " << round;
    preemptions += stack.preemptions();
    EXPECT_TRUE(stack.stack.manager.CheckIdle());
  }
  EXPECT_GT(preemptions, 60U);
}

}  // namespace
}  // namespace tenuto
