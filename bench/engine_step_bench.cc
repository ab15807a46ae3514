// Question: what does continuous batching cost a step beside the forward pass itself?
// EmbeddedEngine with eight greedy runs over FakeExecutor, on its own threads as in production,
// less a bare loop of the same steps over a FakeExecutor. Both in every iteration, one after the
// other, so that drift of the machine hits both. No model, no disk. The reported time is a step of
// the engine; alone_us is the bare step, over_us the difference.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "engine/embedded/engine.h"
#include "engine/fake/executor.h"
#include "io/clock.h"
#include "io/runner.h"

namespace tenuto {
namespace {

constexpr int32_t kPromptTokens = 8;
constexpr int32_t kAnswerTokens = 256;

FakeExecutorSettings Settings(int32_t runs) {
  FakeExecutorSettings settings;
  settings.cells = runs * (kPromptTokens + kAnswerTokens);
  settings.sequences = runs;
  return settings;
}

std::vector<TokenId> Prompt(int32_t run) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < kPromptTokens; ++i)
    tokens.push_back('a' + (run + i) % 26);
  return tokens;
}

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Counts runs that ended; the benchmark's thread waits.
class Gate {
 public:
  explicit Gate(int32_t wanted) : left_(wanted) {}
  void Pass(bool good) {
    const std::lock_guard<std::mutex> lock(mutex_);
    good_ = good_ && good;
    if (--left_ == 0) condition_.notify_all();
  }
  bool Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return left_ == 0; });
    return good_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  int32_t left_;
  bool good_ = true;
};

RunRequest Request(int32_t run) {
  RunRequest request;
  request.seq = SeqId{run};
  request.tokens = Prompt(run);
  request.max_new_tokens = kAnswerTokens;
  request.sampling.temperature = 0;
  request.ignore_end = true;
  return request;
}

// Seconds a step, and whether all went well.
std::pair<double, bool> EngineSteps(int32_t runs) {
  FakeExecutor executor(Settings(runs));
  Metrics metrics;
  ThreadRunner engine_runner("engine");
  ThreadRunner answer_runner("answer");
  EmbeddedEngine engine(executor, EngineRunners{engine_runner, answer_runner}, SystemClock(),
                        EmbeddedSettings{}, metrics);
  Gate gate(runs);
  const auto begun = std::chrono::steady_clock::now();
  for (int32_t i = 0; i < runs; ++i) {
    RunListener listener;
    listener.on_chunk = [](RunChunk chunk) { benchmark::DoNotOptimize(chunk); };
    listener.on_done = [&gate](Result<RunResult> result) {
      gate.Pass(result.ok() && result->answer.size() == kAnswerTokens);
    };
    engine.Start(Request(i), std::move(listener));
  }
  const bool good = gate.Wait();
  const double seconds = Seconds(std::chrono::steady_clock::now() - begun);
  return {seconds / static_cast<double>(std::max<uint64_t>(1, executor.forward_calls())), good};
}

TokenId Greedy(const FakeExecutor& executor, size_t output) {
  const auto logits = executor.Logits(output);
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The same steps with nothing around them.
std::pair<double, bool> BareSteps(int32_t runs) {
  FakeExecutor executor(Settings(runs));
  std::vector<ForwardToken> batch;
  std::vector<TokenId> last(static_cast<size_t>(runs));
  bool good = true;
  const auto begun = std::chrono::steady_clock::now();
  for (int32_t run = 0; run < runs; ++run) {
    const std::vector<TokenId> prompt = Prompt(run);
    for (int32_t pos = 0; pos < kPromptTokens; ++pos)
      batch.push_back(
          {SeqId{run}, pos, prompt[static_cast<size_t>(pos)], pos + 1 == kPromptTokens});
  }
  for (int32_t step = 0; step < kAnswerTokens; ++step) {
    good = executor.Forward(batch).ok() && good;
    batch.clear();
    for (int32_t run = 0; run < runs; ++run) {
      last[static_cast<size_t>(run)] = Greedy(executor, static_cast<size_t>(run));
      batch.push_back({SeqId{run}, kPromptTokens + step, last[static_cast<size_t>(run)], true});
    }
  }
  return {Seconds(std::chrono::steady_clock::now() - begun) / kAnswerTokens, good};
}

void BM_EngineStep(benchmark::State& state) {
  const auto runs = static_cast<int32_t>(state.range(0));
  double engine_seconds = 0;
  double bare_seconds = 0;
  for (auto _ : state) {
    const auto [engine, engine_good] = EngineSteps(runs);
    const auto [bare, bare_good] = BareSteps(runs);
    if (!engine_good || !bare_good) {
      state.SkipWithError("a run failed");
      break;
    }
    state.SetIterationTime(engine);
    engine_seconds += engine;
    bare_seconds += bare;
  }
  const auto rounds = static_cast<double>(std::max<int64_t>(1, state.iterations()));
  state.counters["alone_us"] = bare_seconds / rounds * 1e6;
  state.counters["over_us"] = (engine_seconds - bare_seconds) / rounds * 1e6;
}

// A fixed number of rounds: the time that is reported is a step, and a round has hundreds.
BENCHMARK(BM_EngineStep)
    ->Arg(1)
    ->Arg(8)
    ->UseManualTime()
    ->Iterations(40)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenuto

BENCHMARK_MAIN();
