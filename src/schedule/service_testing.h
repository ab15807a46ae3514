// The scheduler over a whole stack in virtual time, for tests of this layer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/service.h"
#include "session/testing.h"

namespace tenuto {

// TestStack with the real scheduler in the place of its own.
struct ServiceStack {
  explicit ServiceStack(const TestStackOptions& options, ServiceSettings settings = {})
      : stack(disk, options), service(settings, stack.manager, stack.core, stack.metrics) {}

  struct Answer {
    std::string name;
    TurnTicket ticket;
    std::optional<Result<TurnOutcome>> result;
    bool ok() const { return result && result->ok(); }
  };
  using AnswerPtr = std::shared_ptr<Answer>;

  AnswerPtr Ask(TurnRequest request, std::string name = "") {
    auto answer = std::make_shared<Answer>();
    answer->name = std::move(name);
    TurnSink sink;
    sink.on_chunk = [](const RunChunk&) {};
    sink.on_done = [this, answer](Result<TurnOutcome> outcome) {
      answer->result = std::move(outcome);
      ended.push_back(answer->name);
    };
    answer->ticket = service.Submit(std::move(request), std::move(sink));
    return answer;
  }
  // A turn of a session whose name is its own.
  AnswerPtr Ask(const std::string& session, const std::string& text,
                TurnPriority priority = TurnPriority::kInteractive) {
    TurnRequest request = TestStack::Chat(session, text);
    request.priority = priority;
    return Ask(std::move(request), session);
  }

  uint64_t preemptions() {
    return stack.metrics
        .GetCounter("tenuto_preemptions_total",
                    "Running turns taken off the engine for lack of KV cells")
        .value();
  }
  int64_t queued(TurnPriority priority) {
    return stack.metrics
        .GetGauge(
            "tenuto_turns_queued", "Turns that wait for a place in the engine, by priority",
            priority == TurnPriority::kBatch ? "priority=\"batch\"" : "priority=\"interactive\"")
        .value();
  }
  int64_t queued() { return queued(TurnPriority::kInteractive) + queued(TurnPriority::kBatch); }
  int64_t running() {
    return stack.metrics.GetGauge("tenuto_turns_running", "Turns in the engine").value();
  }
  uint64_t refused(const std::string& limit) {
    return stack.metrics
        .GetCounter("tenuto_turns_refused_total", "Turns refused, by limit",
                    MetricLabel("limit", limit))
        .value();
  }
  AnswerPtr AskAndWait(const std::string& session, const std::string& text) {
    auto answer = Ask(session, text);
    stack.Settle();
    return answer;
  }
  // So much time passes, with what happens in it.
  void Wait(int64_t ns) {
    bool over = false;
    stack.core.After(ns, [&over] { over = true; });
    stack.world.RunUntil([&over] { return over; });
  }
  void RunUntilEnded(size_t turns) {
    stack.world.RunUntil([&] { return ended.size() >= turns; });
  }

  void RunFor(int steps) {
    for (int i = 0; i < steps; ++i)
      stack.world.Step();
  }

  TestDisk disk;
  TestStack stack;
  Service service;
  std::vector<std::string> ended;  // names of turns, in the order of their ends
};

inline TestStackOptions SmallStack(int32_t cells, int32_t answer_min, int32_t answer_max) {
  TestStackOptions options;
  options.model.cells = cells;
  options.model.sequences = 8;
  options.model.answer_tokens_min = answer_min;
  options.model.answer_tokens_max = answer_max;
  options.session.answer_reserve_tokens = 5;
  return options;
}

}  // namespace tenuto
