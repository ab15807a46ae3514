// The embedded engine when cells run out and when the executor fails: who waits, who goes on, who
// is told.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/log.h"
#include "engine/embedded/testing.h"

namespace tenuto {
namespace {

Tokens AnswerAlone(uint64_t seed) {
  FakeExecutor executor(FakeWithAnswers(20, 40));
  SimEngine sim(executor);
  return sim.RunAlone(BusyRequest(executor, 0, seed))->result().answer;
}

FakeExecutorSettings SmallFake(int32_t cells) {
  FakeExecutorSettings settings = FakeWithAnswers(20, 40);
  settings.cells = cells;
  return settings;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(EnginePressure, StarvedRunGoesOnWhenAnIdleSequenceIsTruncated) {
  FakeExecutor executor(SmallFake(70));
  SimEngine sim(executor);
  const Tokens idle(40, 'a');
  ASSERT_TRUE(sim.RunAlone(GreedyRequest(5, idle, 0))->done->ok());
  std::vector<RunId> starved;
  sim.engine->SetPressureCallback([&](RunId run) {
    starved.push_back(run);
    sim.engine->Truncate(SeqId{5}, 0, [](Status status) { EXPECT_TRUE(status.ok()); });
  });
  const auto run = sim.RunAlone(BusyRequest(executor, 0, 1));
  ASSERT_TRUE(run->done && run->done->ok());
  EXPECT_EQ(run->result().answer, AnswerAlone(1));
  EXPECT_EQ(starved, (std::vector<RunId>{run->id})) << "told once";
  EXPECT_TRUE(executor.HeldTokens(SeqId{5}).empty());
  EXPECT_TRUE(Contains(sim.metrics.Text(), "tenuto_engine_starved_total 1"));
}

TEST(EnginePressure, AllStarvedSleepUntilSomethingIsFreed) {
  FakeExecutor executor(SmallFake(70));
  SimEngine sim(executor);
  ASSERT_TRUE(sim.RunAlone(GreedyRequest(5, Tokens(65, 'a'), 0))->done->ok());
  int told = 0;
  sim.engine->SetPressureCallback([&](RunId) { ++told; });
  const auto first = sim.Start(BusyRequest(executor, 0, 1));
  sim.Settle();  // returns: nobody spins
  EXPECT_FALSE(first->done);
  EXPECT_EQ(executor.cells_free(), 0) << "the prompt's chunk shrank to the cells there were";
  const auto second = sim.Start(BusyRequest(executor, 1, 2));
  sim.Settle();
  EXPECT_FALSE(second->done);
  EXPECT_EQ(told, 2) << "first; and once for both after the second came";
  // A truncation that frees too little: tried again, told again, asleep again.
  ASSERT_TRUE(sim.Truncate(SeqId{5}, 64)->ok());
  EXPECT_GT(told, 2);
  EXPECT_FALSE(first->done || second->done);
  sim.engine->SetPressureCallback(nullptr);
  ASSERT_TRUE(sim.Truncate(SeqId{5}, 0)->ok());
  // Both together may not fit either: whoever still waits goes on when the other has gone.
  for (const auto& [run, seq] : {std::pair(first, 0), std::pair(second, 1)}) {
    if (!run->done) sim.engine->Preempt(run->id);
    sim.Settle();
    ASSERT_TRUE(run->done->ok());
    ASSERT_TRUE(sim.Truncate(SeqId{seq}, 0)->ok());
  }
  EXPECT_EQ(first->done_calls + second->done_calls, 2);
}

// Whoever makes room hears nothing of steps before that room: else it would make room twice.
TEST(EnginePressure, NobodyIsToldOfAStepBeforeTheLastTruncation) {
  int answered = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    FakeExecutor executor(SmallFake(150));
    SimEngine sim(executor, {}, seed);
    std::vector<int32_t> idle = {9, 8, 7, 6};
    for (const int32_t seq : idle)
      ASSERT_TRUE(sim.RunAlone(GreedyRequest(seq, Tokens(30, 'a'), 0))->done->ok());
    int asked = 0, freed = 0;
    sim.engine->SetPressureCallback([&](RunId) {
      EXPECT_EQ(freed, asked) << "a truncation that will help is on its way, seed " << seed;
      if (idle.empty()) return;
      ++asked;
      ++answered;
      sim.engine->Truncate(SeqId{idle.back()}, 0, [&](Status) { ++freed; });
      idle.pop_back();
    });
    std::vector<std::shared_ptr<RecordedRun>> runs;
    for (int32_t i = 0; i < 3; ++i)
      runs.push_back(sim.Start(BusyRequest(executor, i, static_cast<uint64_t>(i))));
    sim.Settle();
  }
  EXPECT_GT(answered, 40);
}

// More runs than the cells hold. The owner preempts the youngest, one at a time, and starts it
// again when another ends.
TEST(EnginePressure, PreemptingTheYoungestLetsAllFinishWithTheSameAnswers) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    FakeExecutor executor(SmallFake(150));
    SimEngine sim(executor, {}, seed);
    std::vector<RunRequest> requests;
    std::vector<std::shared_ptr<RecordedRun>> runs(6);
    std::vector<int32_t> active;  // in the order started
    int preempted = 0;
    bool making_room = false;
    sim.engine->SetPressureCallback([&](RunId) {
      if (making_room || active.size() < 2) return;
      making_room = true;
      ++preempted;
      sim.engine->Preempt(runs[static_cast<size_t>(active.back())]->id);
      sim.engine->Truncate(SeqId{active.back()}, 0, [&](Status) { making_room = false; });
      active.pop_back();
    });
    for (int32_t i = 0; i < 6; ++i) {
      requests.push_back(BusyRequest(executor, i, static_cast<uint64_t>(i)));
      runs[static_cast<size_t>(i)] = sim.Start(requests.back());
      active.push_back(i);
    }
    int rounds = 0;
    for (bool all_done = false; !all_done && rounds < 50; ++rounds) {
      sim.Settle();
      all_done = true;
      active.clear();
      for (size_t i = 0; i < 6; ++i) {
        ASSERT_EQ(runs[i]->done_calls, 1);
        ASSERT_TRUE(runs[i]->done->ok());
        const RunResult& result = runs[i]->result();
        if (result.reason != FinishReason::kPreempted) {
          ASSERT_TRUE(sim.Truncate(SeqId{static_cast<int32_t>(i)}, 0)->ok());
          continue;
        }
        all_done = false;
        RunRequest& request = requests[i];
        request.tokens = WindowOf(request, result);
        request.max_new_tokens -= static_cast<int32_t>(result.answer.size()) - request.answered;
        request.answered = static_cast<int32_t>(result.answer.size());
        runs[i] = sim.Start(request);
        active.push_back(static_cast<int32_t>(i));
      }
    }
    EXPECT_LT(rounds, 50);
    EXPECT_GT(preempted, 0);
    for (size_t i = 0; i < 6; ++i)
      EXPECT_EQ(runs[i]->result().answer, AnswerAlone(i)) << i;
  }
}

TEST(EnginePressure, ExhaustedForwardIsTriedAgainWithLess) {
  for (int32_t n = 1; n <= 30; ++n) {
    FakeExecutor executor(FakeWithAnswers(20, 40));
    executor.FailForward(n, Code::kExhausted);
    SimEngine sim(executor);
    int told = 0;
    std::vector<std::shared_ptr<RecordedRun>> runs;
    sim.engine->SetPressureCallback([&](RunId) {
      ++told;
      sim.engine->Truncate(SeqId{9}, 0, nullptr);  // frees nothing, but is the owner's answer
    });
    for (int32_t i = 0; i < 3; ++i) {
      runs.push_back(sim.Start(BusyRequest(executor, i, static_cast<uint64_t>(i))));
    }
    sim.Settle();
    for (int32_t i = 0; i < 3; ++i) {
      const auto& run = runs[static_cast<size_t>(i)];
      ASSERT_TRUE(run->done && run->done->ok()) << n;
      EXPECT_EQ(run->result().answer, AnswerAlone(static_cast<uint64_t>(i)));
    }
    EXPECT_LE(told, 1);
  }
}

// These log each failure.
class EngineFailure : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kInfo); }
};

TEST_F(EngineFailure, ForwardFailingAtAnyStepEndsItsRunsAndNoOthers) {
  for (int32_t n = 1; n <= 40; ++n) {
    FakeExecutorSettings settings = FakeWithAnswers(20, 40);
    settings.batch_outputs_max = 2;  // so that not every run is in every batch
    FakeExecutor executor(settings);
    executor.FailForward(n, Code::kIo);
    SimEngine sim(executor);
    std::vector<std::shared_ptr<RecordedRun>> runs;
    for (int32_t i = 0; i < 4; ++i) {
      runs.push_back(sim.Start(BusyRequest(executor, i, static_cast<uint64_t>(i))));
    }
    sim.Settle();
    int failed = 0;
    for (int32_t i = 0; i < 4; ++i) {
      const auto& run = runs[static_cast<size_t>(i)];
      ASSERT_EQ(run->done_calls, 1);
      if (run->failed(Code::kIo)) {
        ++failed;
        EXPECT_TRUE(executor.HeldTokens(SeqId{i}).empty());
      } else {
        ASSERT_TRUE(run->done->ok());
        EXPECT_EQ(run->result().answer, AnswerAlone(static_cast<uint64_t>(i)));
      }
    }
    EXPECT_GE(failed, 1) << n;
    if (n > 5) {
      EXPECT_LE(failed, 2) << n;
    }
    // The sequences are usable again.
    for (int32_t i = 0; i < 4; ++i) {
      const auto again = sim.RunAlone(BusyRequest(executor, i, 7));
      ASSERT_TRUE(again->done->ok());
      EXPECT_EQ(again->result().answer, AnswerAlone(7));
    }
  }
}

TEST_F(EngineFailure, DestructionAnswersAllThatIsOpen) {
  for (uint64_t steps = 0; steps < 60; ++steps) {
    FakeExecutor executor(FakeWithAnswers(20, 40));
    SimEngine sim(executor, {}, steps);
    ASSERT_TRUE(sim.RunAlone(GreedyRequest(7, Tokens(30, 'a'), 0))->done->ok());
    std::vector<std::shared_ptr<RecordedRun>> runs;
    for (int32_t i = 0; i < 3; ++i) {
      runs.push_back(sim.Start(BusyRequest(executor, i, static_cast<uint64_t>(i))));
    }
    int exported = 0, truncated = 0, imported = 0, copied = 0;
    sim.engine->Export(SeqId{7}, {0, 30}, [&](auto) { ++exported; });
    sim.engine->Import(SeqId{8}, {0, 1}, nullptr, {}, [&](Status) { ++imported; });
    sim.engine->CopyPrefix(SeqId{7}, SeqId{9}, 5, [&](Status) { ++copied; });
    sim.engine->Truncate(SeqId{8}, 0, [&](Status) { ++truncated; });
    for (uint64_t i = 0; i < steps; ++i)
      (void)sim.world.Step();
    sim.engine.reset();
    const uint64_t calls = executor.forward_calls();
    sim.Settle();
    EXPECT_EQ(executor.forward_calls(), calls) << "the executor is left alone";
    for (const auto& run : runs) {
      ASSERT_EQ(run->done_calls, 1);
      EXPECT_TRUE(run->done->ok() || run->failed(Code::kUnavailable));
    }
    EXPECT_EQ(exported + imported + copied + truncated, 4);
  }
}

}  // namespace
}  // namespace tenuto
