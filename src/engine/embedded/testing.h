// Helpers of this folder's tests: an executor with a vocabulary and an answer that the test wrote
// down, and an engine over simulated runners whose runs are recorded. Tests only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "engine/embedded/engine.h"
#include "engine/embedded/scripted_executor.h"
#include "engine/executor.h"
#include "engine/fake/executor.h"
#include "io/fake.h"

namespace tenuto {

// What a run said.
struct RecordedRun {
  RunId id;
  std::vector<RunChunk> chunks;
  std::vector<std::pair<int32_t, int32_t>> progress;
  std::optional<Result<RunResult>> done;
  int done_calls = 0;

  std::string Text() const {
    std::string text;
    for (const RunChunk& chunk : chunks)
      text += chunk.text;
    return text;
  }
  std::vector<TokenId> Tokens() const {
    std::vector<TokenId> tokens;
    for (const RunChunk& chunk : chunks) {
      tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    }
    return tokens;
  }
  // REQUIRES: done with a result.
  const RunResult& result() const { return done->value(); }
  bool failed(Code code) const {
    return done.has_value() && !done->ok() && done->error().code() == code;
  }
};

inline RunListener RecordInto(std::shared_ptr<RecordedRun> run) {
  RunListener listener;
  listener.on_chunk = [run](RunChunk chunk) { run->chunks.push_back(std::move(chunk)); };
  listener.on_prefill = [run](int32_t n, int32_t total) { run->progress.emplace_back(n, total); };
  listener.on_done = [run](Result<RunResult> result) {
    run->done = std::move(result);
    ++run->done_calls;
  };
  return listener;
}

// An engine over two runners in virtual time. Executor calls and answers interleave as the seed
// draws them.
class SimEngine {
 public:
  explicit SimEngine(Executor& executor, EmbeddedSettings settings = {}, uint64_t seed = 1)
      : world(seed),
        engine_runner(world.NewRunner("engine", 1000)),
        answer_runner(world.NewRunner("answer", 1000)),
        engine(std::make_unique<EmbeddedEngine>(
            executor, EngineRunners{engine_runner, answer_runner}, clock, settings, metrics)) {}

  std::shared_ptr<RecordedRun> Start(RunRequest request) {
    auto run = std::make_shared<RecordedRun>();
    run->id = engine->Start(std::move(request), RecordInto(run));
    return run;
  }
  // Starts it and steps the world until nothing is left to do.
  std::shared_ptr<RecordedRun> RunAlone(RunRequest request) {
    auto run = Start(std::move(request));
    Settle();
    return run;
  }
  void Settle() {
    (void)world.RunUntil([] { return false; });
  }
  bool Until(const std::function<bool()>& done) { return world.RunUntil(done); }
  std::optional<Status> Truncate(SeqId seq, TokenPos end) {
    std::optional<Status> status;
    engine->Truncate(seq, end, [&](Status s) { status = std::move(s); });
    Settle();
    return status;
  }

  FakeClock clock;
  Metrics metrics;
  SimWorld world;
  Runner& engine_runner;
  Runner& answer_runner;
  std::unique_ptr<EmbeddedEngine> engine;
};

using Tokens = std::vector<TokenId>;

inline RunRequest GreedyRequest(int32_t seq, Tokens tokens, int32_t max_new_tokens) {
  RunRequest request;
  request.seq = SeqId{seq};
  request.tokens = std::move(tokens);
  request.max_new_tokens = max_new_tokens;
  request.sampling.temperature = 0;
  return request;
}

template <typename Change>
FakeExecutorSettings FakeWith(Change change) {
  FakeExecutorSettings settings;
  change(settings);
  return settings;
}

// Answers of `min` to `max` tokens.
inline FakeExecutorSettings FakeWithAnswers(int32_t min, int32_t max) {
  return FakeWith([&](auto& s) {
    s.answer_tokens_min = min;
    s.answer_tokens_max = max;
  });
}

// A chat prompt for FakeExecutor, with the answer opened.
inline Tokens ChatPrompt(const FakeExecutor& executor, const std::string& user) {
  const std::vector<ChatMessage> messages = {{.role = "user", .content = user, .name = ""}};
  return executor.Tokenize(executor.RenderChat(messages, true).value(), false, true).value();
}

// A request for FakeExecutor that uses everything a run has: draws, penalties, a stop string that
// holds text back.
inline RunRequest BusyRequest(const FakeExecutor& executor, int32_t seq, uint64_t seed) {
  RunRequest request;
  request.seq = SeqId{seq};
  request.tokens = ChatPrompt(executor, "question " + std::to_string(seed));
  request.max_new_tokens = 50;
  request.sampling.temperature = 1.3;
  request.sampling.seed = seed;
  request.sampling.repeat_penalty = 1.2;
  request.sampling.frequency_penalty = 0.3;
  request.stop = {"eh", "zzz"};
  return request;
}

// prompt + answer, which is what the sequence must hold up to kv_end.
inline Tokens WindowOf(const RunRequest& request, const RunResult& result) {
  Tokens tokens = request.tokens;
  tokens.resize(tokens.size() - static_cast<size_t>(request.answered));
  tokens.insert(tokens.end(), result.answer.begin(), result.answer.end());
  return tokens;
}

inline Tokens First(Tokens tokens, TokenPos n) {
  tokens.resize(static_cast<size_t>(n));
  return tokens;
}

}  // namespace tenuto
