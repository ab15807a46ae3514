// Runs of the embedded engine over simulated runners: what one run answers, whatever else goes on.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/embedded/testing.h"

namespace tenuto {
namespace {

TEST(EngineRun, GreedyAnswerOfAScript) {
  // Positions 0 1 are the prompt; the answer is "go on" and then the end.
  ScriptedExecutor executor({"p", "go", " on", "<end>"}, {0, 1, 2, 3});
  SimEngine sim(executor);
  RunRequest request = GreedyRequest(0, {0, 0}, 10);
  const auto run = sim.RunAlone(request);
  ASSERT_TRUE(run->done && run->done->ok());
  EXPECT_EQ(run->done_calls, 1);
  EXPECT_EQ(run->result().reason, FinishReason::kStop);
  EXPECT_EQ(run->result().answer, (Tokens{1, 2}));
  EXPECT_EQ(run->Text(), "go on");
  EXPECT_EQ(run->Tokens(), (Tokens{1, 2}));
  EXPECT_EQ(run->chunks.size(), 2u) << "one a step";
  EXPECT_EQ(run->result().prefilled, 2);
  EXPECT_EQ(run->result().kv_end, 4) << "the token before the end was forwarded";
  EXPECT_EQ(executor.length(SeqId{0}), 4);
  EXPECT_EQ(run->progress, (std::vector<std::pair<int32_t, int32_t>>{{2, 2}}));
}

TEST(EngineRun, EndByLengthLeavesTheLastTokenUnforwarded) {
  ScriptedExecutor executor({"p", "go", " on", "<end>"}, {0, 1, 2, 3});
  SimEngine sim(executor);
  RunRequest request = GreedyRequest(0, {0, 0}, 2);
  const auto run = sim.RunAlone(request);
  EXPECT_EQ(run->result().reason, FinishReason::kLength);
  EXPECT_EQ(run->result().answer, (Tokens{1, 2}));
  EXPECT_EQ(run->result().kv_end, 3);
  EXPECT_EQ(executor.length(SeqId{0}), 3);
}

TEST(EngineRun, IgnoreEndGoesOn) {
  ScriptedExecutor executor({"p", "go", " on", "<end>"}, {0, 3, 2, 3});
  SimEngine sim(executor);
  RunRequest request = GreedyRequest(0, {0, 0}, 4);
  request.ignore_end = true;
  const auto run = sim.RunAlone(request);
  EXPECT_EQ(run->result().reason, FinishReason::kLength);
  EXPECT_EQ(run->result().answer, (Tokens{3, 2, 3, 3}));
  EXPECT_EQ(run->Text(), " on");
}

TEST(EngineRun, PrefillOnlyForwardsEveryToken) {
  FakeExecutor executor{FakeExecutorSettings{}};
  SimEngine sim(executor);
  const Tokens tokens = ChatPrompt(executor, "hello");
  const auto run = sim.RunAlone(GreedyRequest(2, tokens, 0));
  EXPECT_EQ(run->result().reason, FinishReason::kLength);
  EXPECT_TRUE(run->result().answer.empty());
  EXPECT_TRUE(run->chunks.empty());
  EXPECT_EQ(run->result().kv_end, static_cast<TokenPos>(tokens.size()));
  EXPECT_EQ(executor.HeldTokens(SeqId{2}), tokens);
}

TEST(EngineRun, StopStringCutsAnswerAndKv) {
  // "say " "x<" "e" "nd" ">y": the stop "<end>" begins inside "x<".
  ScriptedExecutor executor({"p", "say ", "x<", "e", "nd", ">y", "x"}, {1, 2, 3, 4, 5});
  SimEngine sim(executor);
  RunRequest request = GreedyRequest(0, {0}, 20);
  request.stop = {"<end>"};
  const auto run = sim.RunAlone(request);
  EXPECT_EQ(run->result().reason, FinishReason::kStop);
  EXPECT_EQ(run->result().stop_string, "<end>");
  EXPECT_EQ(run->Text(), "say x");
  EXPECT_EQ(run->result().answer, (Tokens{1, 6}));
  EXPECT_EQ(run->Tokens(), run->result().answer);
  EXPECT_EQ(run->result().kv_end, 2) << "prompt and 'say ': the 'x' stands for another token";
  EXPECT_EQ(executor.length(SeqId{0}), 2);
}

TEST(EngineRun, StopOnAModelThatCantGoBackDropsItsKv) {
  ScriptedExecutor executor({"p", "a", "b"}, {1, 2, 1, 2});
  executor.rewinds = false;
  SimEngine sim(executor);
  RunRequest request = GreedyRequest(0, {0}, 20);
  request.stop = {"ba"};
  const auto run = sim.RunAlone(request);
  EXPECT_EQ(run->Text(), "a");
  EXPECT_EQ(run->result().kv_end, 0);
  EXPECT_EQ(executor.length(SeqId{0}), 0);
}

TEST(EngineRun, HeldTextComesOutWhenTheRunEndsOtherwise) {
  ScriptedExecutor executor({"p", "a", "<e", "<end>"}, {1, 2, 3});
  SimEngine sim(executor);
  RunRequest request = GreedyRequest(0, {0}, 20);
  request.stop = {"<end>"};
  const auto run = sim.RunAlone(request);
  EXPECT_EQ(run->Text(), "a<e");
  EXPECT_EQ(run->result().answer, (Tokens{1, 2}));
  EXPECT_EQ(run->result().stop_string, "");
}

TEST(EngineRun, NoTokenLeftToDrawEndsTheRunWithAnError) {
  ScriptedExecutor executor({"p", "a"}, {1});
  SimEngine sim(executor);
  RunRequest request = GreedyRequest(0, {0}, 20);
  const float ban = -std::numeric_limits<float>::infinity();
  request.sampling.logit_bias = {{0, ban}, {1, ban}};
  const auto run = sim.RunAlone(request);
  EXPECT_TRUE(run->failed(Code::kInvalid));
  EXPECT_EQ(run->done_calls, 1);
  EXPECT_EQ(executor.length(SeqId{0}), 0);
}

TEST(EngineRun, EightStreamsEachEqualTheSameRunAlone) {
  for (const uint64_t world_seed : {1u, 2u, 3u}) {
    FakeExecutor executor(FakeWithAnswers(30, 80));
    SimEngine sim(executor, {}, world_seed);
    std::vector<std::shared_ptr<RecordedRun>> together;
    for (int32_t i = 0; i < 8; ++i) {
      together.push_back(sim.Start(BusyRequest(executor, i, static_cast<uint64_t>(i))));
    }
    sim.Settle();
    for (int32_t i = 0; i < 8; ++i) {
      FakeExecutor other(FakeWithAnswers(30, 80));
      SimEngine alone(other);
      const RunRequest request = BusyRequest(other, 0, static_cast<uint64_t>(i));
      const auto want = alone.RunAlone(request);
      const auto& got = together[static_cast<size_t>(i)];
      ASSERT_TRUE(got->done && got->done->ok());
      EXPECT_EQ(got->result().answer, want->result().answer);
      EXPECT_EQ(got->Text(), want->Text());
      EXPECT_EQ(got->Tokens(), got->result().answer);
      EXPECT_EQ(got->result().kv_end, want->result().kv_end);
      EXPECT_EQ(executor.HeldTokens(SeqId{i}),
                First(WindowOf(request, got->result()), got->result().kv_end));
    }
    EXPECT_GT(executor.forward_calls(), 0u);
  }
}

TEST(EngineRun, ChunkedPrefillEqualsWholePrefill) {
  std::vector<Tokens> answers;
  for (const int32_t batch : {7, 64, 512}) {
    FakeExecutor executor(FakeWith([&](auto& s) { s.batch_tokens_max = batch; }));
    SimEngine sim(executor);
    RunRequest request = BusyRequest(executor, 0, 5);
    request.tokens = ChatPrompt(executor, std::string(300, 'q'));
    const auto run = sim.RunAlone(request);
    answers.push_back(run->result().answer);
    const auto total = static_cast<int32_t>(request.tokens.size());
    EXPECT_EQ(run->progress.size(), static_cast<size_t>((total + batch - 1) / batch));
    EXPECT_EQ(run->progress.back(), std::make_pair(total, total));
    EXPECT_EQ(run->result().prefilled, total);
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

// Ends the run after every possible number of steps and goes on, in the same sequence or recomputed
// in another.
TEST(EngineRun, PreemptedAndResumedEqualsUninterrupted) {
  FakeExecutor reference(FakeWithAnswers(30, 80));
  int stopped = 0;
  for (const uint64_t seed : {3u, 5u, 11u, 25u}) {
    SimEngine alone(reference);
    ASSERT_TRUE(alone.Truncate(SeqId{0}, 0)->ok());
    const RunRequest request = BusyRequest(reference, 0, seed);
    const auto want = alone.RunAlone(request);
    ASSERT_TRUE(want->done->ok());
    stopped += want->result().stop_string.empty() ? 0 : 1;
    for (size_t after = 0; after <= want->result().answer.size() + 2; ++after) {
      for (const bool recompute : {false, true}) {
        FakeExecutor executor(FakeWithAnswers(30, 80));
        SimEngine sim(executor, {}, after);
        auto first = sim.Start(request);
        (void)sim.Until([&] { return executor.forward_calls() >= after; });
        sim.engine->Preempt(first->id);
        sim.Settle();
        ASSERT_EQ(first->done_calls, 1);
        if (first->result().reason != FinishReason::kPreempted) {
          EXPECT_EQ(first->result().answer, want->result().answer);
          continue;
        }
        RunRequest rest = request;
        rest.tokens = WindowOf(request, first->result());
        rest.answered = static_cast<int32_t>(first->result().answer.size());
        rest.max_new_tokens = request.max_new_tokens - rest.answered;
        rest.begin = recompute ? 0 : first->result().kv_end;
        if (recompute) rest.seq = SeqId{3};
        EXPECT_LT(first->result().kv_end, static_cast<TokenPos>(rest.tokens.size()));
        const auto second = sim.RunAlone(rest);
        ASSERT_TRUE(second->done && second->done->ok());
        EXPECT_EQ(second->result().answer, want->result().answer);
        EXPECT_EQ(second->result().reason, want->result().reason);
        EXPECT_EQ(second->result().stop_string, want->result().stop_string);
        EXPECT_EQ(first->Text() + second->Text(), want->Text());
        Tokens streamed = first->Tokens();
        for (const TokenId token : second->Tokens())
          streamed.push_back(token);
        EXPECT_EQ(streamed, want->result().answer);
        EXPECT_EQ(second->result().kv_end, want->result().kv_end);
      }
    }
  }
  EXPECT_EQ(stopped, 2) << "two of them end with a stop string in two tokens";
}

TEST(EngineRun, CancelAtEveryStep) {
  for (uint64_t after = 0; after < 40; ++after) {
    FakeExecutorSettings settings = FakeWithAnswers(20, 30);
    settings.batch_tokens_max = 8;
    FakeExecutor executor(settings);
    SimEngine sim(executor, {}, after);
    const RunRequest request = BusyRequest(executor, 1, 9);
    const auto other = sim.Start(BusyRequest(executor, 2, 10));
    const auto run = sim.Start(request);
    (void)sim.Until([&] { return executor.forward_calls() >= after; });
    sim.engine->Cancel(run->id);
    sim.engine->Cancel(run->id);  // harmless
    sim.Settle();
    ASSERT_EQ(run->done_calls, 1) << after;
    ASSERT_TRUE(run->done->ok());
    const RunResult& result = run->result();
    EXPECT_EQ(run->Tokens(), result.answer);
    EXPECT_EQ(executor.HeldTokens(SeqId{1}), First(WindowOf(request, result), result.kv_end));
    EXPECT_EQ(other->done_calls, 1);
    EXPECT_TRUE(other->done->ok());
    sim.engine->Cancel(run->id);  // long gone
    sim.Settle();
    EXPECT_EQ(run->done_calls, 1);
  }
}

TEST(EngineRun, CancelBeforeItsFirstStep) {
  FakeExecutor executor{FakeExecutorSettings{}};
  SimEngine sim(executor);
  const auto run = sim.Start(BusyRequest(executor, 0, 1));
  sim.engine->Cancel(run->id);
  const auto next = sim.Start(BusyRequest(executor, 0, 2));
  sim.Settle();
  EXPECT_EQ(run->result().reason, FinishReason::kCancelled);
  EXPECT_EQ(run->result().kv_end, 0);
  EXPECT_TRUE(next->done->ok()) << "the sequence is free again at once";
  EXPECT_GT(next->result().answer.size(), 0u);
}

TEST(EngineRun, RefusesWhatCantBe) {
  FakeExecutor executor(FakeWith([](auto& s) {
    s.window = 100;
    s.cells = 60;
  }));
  SimEngine sim(executor);
  const auto refused = [&](Code code, const std::function<void(RunRequest&)>& change) {
    RunRequest request = BusyRequest(executor, 0, 1);
    request.tokens = Tokens(20, 'a');
    change(request);
    const auto run = sim.RunAlone(request);
    return run->done_calls == 1 && run->failed(code);
  };
  EXPECT_FALSE(refused(Code::kInvalid, [](RunRequest&) {}));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.seq = SeqId{-1}; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.seq = SeqId{16}; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.tokens.clear(); }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.begin = 20; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.begin = -1; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) {
    r.seq = SeqId{5};
    r.begin = 7;  // it holds nothing
  }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.answered = 21; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.max_new_tokens = -1; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.tokens[3] = 259; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.tokens[3] = -1; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.sampling.repeat_penalty = 0; }));
  EXPECT_TRUE(refused(Code::kInvalid, [](RunRequest& r) { r.tokens = Tokens(100, 'a'); }));
  EXPECT_TRUE(refused(Code::kExhausted, [](RunRequest& r) { r.tokens = Tokens(61, 'a'); }));
}

TEST(EngineRun, SecondRunOnASequenceIsAConflict) {
  FakeExecutor executor{FakeExecutorSettings{}};
  SimEngine sim(executor);
  const auto first = sim.Start(BusyRequest(executor, 0, 1));
  const auto second = sim.Start(BusyRequest(executor, 0, 2));
  std::optional<Status> truncated;
  sim.engine->Truncate(SeqId{0}, 0, [&](Status s) { truncated = std::move(s); });
  sim.Settle();
  EXPECT_TRUE(first->done->ok());
  EXPECT_TRUE(second->failed(Code::kConflict));
  ASSERT_TRUE(truncated);
  EXPECT_EQ(truncated->error().code(), Code::kConflict);
}

TEST(EngineRun, StopsAtTheWindowsEnd) {
  FakeExecutor executor(FakeWith([](auto& s) { s.window = 40; }));
  SimEngine sim(executor);
  RunRequest request = BusyRequest(executor, 0, 1);
  request.tokens = Tokens(30, 'a');
  request.stop.clear();
  request.ignore_end = true;
  request.max_new_tokens = 1'000'000;
  const auto run = sim.RunAlone(request);
  EXPECT_EQ(run->result().reason, FinishReason::kLength);
  EXPECT_EQ(run->result().answer.size(), 10u);
}

TEST(EngineRun, TimesAndCounters) {
  SimEngine* sim_pointer = nullptr;
  FakeExecutor executor(FakeWith([&](auto& s) {
    s.spend = [&](int64_t ns) { sim_pointer->clock.now_ns += ns; };
    s.forward_ns = 1'000'000;
  }));
  SimEngine sim(executor);
  sim_pointer = &sim;
  RunRequest request = GreedyRequest(0, Tokens(1000, 'a'), 5);
  request.ignore_end = true;
  const auto run = sim.RunAlone(request);
  EXPECT_EQ(run->result().times.prefill_ns, 2'000'000) << "two steps";
  EXPECT_EQ(run->result().times.decode_ns, 4'000'000) << "four more";
  const std::string text = sim.metrics.Text();
  EXPECT_NE(text.find("tenuto_engine_steps_total 6"), std::string::npos) << text;
  EXPECT_NE(text.find("tenuto_engine_prefill_tokens_total 1000"), std::string::npos);
  EXPECT_NE(text.find("tenuto_engine_decode_tokens_total 5"), std::string::npos);
}

}  // namespace
}  // namespace tenuto
