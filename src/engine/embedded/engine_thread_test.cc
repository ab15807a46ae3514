// The embedded engine on real threads: answers, calls from many threads, destruction in full
// flight.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/embedded/testing.h"

namespace tenuto {
namespace {

class Latch {
 public:
  void Add() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void WaitFor(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

RunListener Counting(std::shared_ptr<RecordedRun> run, Latch& latch) {
  RunListener listener = RecordInto(run);
  listener.on_done = [run, &latch](Result<RunResult> result) {
    run->done = std::move(result);
    ++run->done_calls;
    latch.Add();
  };
  return listener;
}

TEST(EngineThreads, ManyThreadsManyRuns) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 6;
  FakeExecutor reference(FakeWithAnswers(10, 40));
  std::vector<Tokens> want;
  SimEngine alone(reference);
  for (uint64_t i = 0; i < kThreads; ++i) {
    want.push_back(
        alone.RunAlone(BusyRequest(reference, static_cast<int32_t>(i), i))->result().answer);
  }

  FakeExecutor executor(FakeWithAnswers(10, 40));
  Metrics metrics;
  ThreadRunner engine_runner("engine");
  ThreadRunner answer_runner("answer");
  EmbeddedEngine engine(executor, {engine_runner, answer_runner}, SystemClock(), {}, metrics);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        Latch latch;
        auto run = std::make_shared<RecordedRun>();
        auto doomed = std::make_shared<RecordedRun>();
        engine.Start(BusyRequest(executor, t, static_cast<uint64_t>(t)), Counting(run, latch));
        const RunId cancelled =
            engine.Start(BusyRequest(executor, t + kThreads, 99), Counting(doomed, latch));
        if (round % 2 == 0) engine.Cancel(cancelled);
        latch.WaitFor(2);
        if (!run->done->ok() || run->result().answer != want[static_cast<size_t>(t)] ||
            run->Tokens() != run->result().answer || !doomed->done->ok()) {
          ++wrong;
        }
        engine.Export(SeqId{t}, {0, run->result().kv_end}, [&](auto pieces) {
          if (!pieces.ok()) ++wrong;
          latch.Add();
        });
        engine.Truncate(SeqId{t}, 0, [&](Status status) {
          if (!status.ok()) ++wrong;
          latch.Add();
        });
        latch.WaitFor(4);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(EngineThreads, DestructionInFullFlight) {
  for (int round = 0; round < 20; ++round) {
    FakeExecutor executor(FakeWithAnswers(50, 60));
    Metrics metrics;
    std::vector<std::shared_ptr<RecordedRun>> runs;
    Latch latch;
    ThreadRunner engine_runner("engine");
    ThreadRunner answer_runner("answer");
    {
      EmbeddedEngine engine(executor, {engine_runner, answer_runner}, SystemClock(), {}, metrics);
      for (int32_t i = 0; i < 8; ++i) {
        runs.push_back(std::make_shared<RecordedRun>());
        engine.Start(BusyRequest(executor, i, 1), Counting(runs.back(), latch));
      }
    }
    const uint64_t calls = executor.forward_calls();
    latch.WaitFor(8);
    engine_runner.DrainAndStop();
    answer_runner.DrainAndStop();
    EXPECT_EQ(executor.forward_calls(), calls);
    for (const auto& run : runs)
      EXPECT_EQ(run->done_calls, 1);
  }
}

}  // namespace
}  // namespace tenuto
