#include "engine/embedded/batcher.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/embedded/testing.h"

namespace tenuto {
namespace {

class BatcherTest : public testing::Test {
 protected:
  // A run that has `waiting` tokens to forward.
  EngineRun& AddRun(int32_t waiting, bool prefill_only = false) {
    RunRequest request;
    request.seq = SeqId{static_cast<int32_t>(runs_.size())};
    request.tokens.assign(static_cast<size_t>(waiting) + 10, 65);
    request.begin = 10;
    request.max_new_tokens = prefill_only ? 0 : 5;
    runs_.push_back(std::make_unique<EngineRun>(RunId{runs_.size() + 1}, std::move(request),
                                                listener_, executor_));
    return *runs_.back();
  }
  void Plan() { batcher_.Plan(runs_, budget_, batch_); }
  int32_t ShareOf(const EngineRun& run) const {
    int32_t tokens = 0;
    for (const BatchShare& share : batch_.shares)
      tokens += share.run == &run ? share.tokens : 0;
    return tokens;
  }
  // As the engine does after a step.
  void Advance() {
    for (const BatchShare& share : batch_.shares) {
      share.run->in_kv += share.tokens;
      if (share.output) share.run->tokens.push_back(66);
    }
  }

  FakeExecutor executor_{FakeExecutorSettings{}};
  std::shared_ptr<const RunListener> listener_ = std::make_shared<RunListener>();
  std::vector<std::unique_ptr<EngineRun>> runs_;
  BatchBudget budget_{.tokens_max = 512,
                      .outputs_max = 64,
                      .cells_free = 10'000,
                      .prefill_alone_max = 512,
                      .prefill_beside_max = 32};
  Batcher batcher_;
  Batch batch_;
};

TEST_F(BatcherTest, NothingToDo) {
  Plan();
  EXPECT_TRUE(batch_.tokens.empty());
  AddRun(5).starved = true;
  Plan();
  EXPECT_TRUE(batch_.tokens.empty());
  EXPECT_TRUE(batch_.starved.empty());
}

TEST_F(BatcherTest, PromptAloneIsCutAndOnlyItsLastTokenHasOutput) {
  EngineRun& run = AddRun(700);
  Plan();
  EXPECT_EQ(batch_.tokens.size(), 512u);
  EXPECT_FALSE(batch_.shares[0].output);
  for (const ForwardToken& token : batch_.tokens)
    EXPECT_FALSE(token.output);
  EXPECT_EQ(batch_.tokens.front().pos, 10);
  Advance();
  Plan();
  EXPECT_EQ(batch_.tokens.size(), 188u);
  EXPECT_TRUE(batch_.tokens.back().output);
  EXPECT_FALSE(batch_.tokens[186].output);
  EXPECT_EQ(ShareOf(run), 188);
}

TEST_F(BatcherTest, PrefillOnlyWantsNoOutput) {
  AddRun(3, true);
  budget_.outputs_max = 0;
  Plan();
  EXPECT_EQ(batch_.tokens.size(), 3u);
  EXPECT_FALSE(batch_.tokens.back().output);
}

TEST_F(BatcherTest, DecodeComesFirstAndLimitsThePrefill) {
  EngineRun& document = AddRun(1000);
  EngineRun& a = AddRun(1);
  EngineRun& b = AddRun(1);
  Plan();
  EXPECT_EQ(batch_.decode_tokens, 2);
  EXPECT_EQ(batch_.shares[0].run, &a);
  EXPECT_EQ(batch_.shares[1].run, &b);
  EXPECT_EQ(ShareOf(document), 32);
  EXPECT_EQ(batch_.prefill_tokens, 32);
}

TEST_F(BatcherTest, FirstComeFirstServedWithAQuarterForTheShortest) {
  EngineRun& document = AddRun(2000);
  EngineRun& second = AddRun(600);
  EngineRun& chat = AddRun(20);
  Plan();
  EXPECT_EQ(ShareOf(chat), 20) << "needs less than a quarter";
  EXPECT_EQ(ShareOf(document), 492);
  EXPECT_EQ(ShareOf(second), 0);
  chat.starved = true;
  Plan();
  EXPECT_EQ(ShareOf(document), 384);
  EXPECT_EQ(ShareOf(second), 128);
}

TEST_F(BatcherTest, WhatTheFirstLeavesGoesToTheNext) {
  EngineRun& a = AddRun(100);
  EngineRun& b = AddRun(100);
  EngineRun& c = AddRun(1000);
  Plan();
  EXPECT_EQ(ShareOf(a), 100);
  EXPECT_EQ(ShareOf(b), 100);
  EXPECT_EQ(ShareOf(c), 312);
  EXPECT_TRUE(batch_.shares[0].output);
  EXPECT_FALSE(batch_.shares[2].output);
}

TEST_F(BatcherTest, DecodersTakeTurnsWhereOutputsAreFew) {
  std::vector<int> turns(5, 0);
  for (int i = 0; i < 5; ++i)
    AddRun(1);
  budget_.outputs_max = 2;
  for (int step = 0; step < 10; ++step) {
    Plan();
    ASSERT_EQ(batch_.tokens.size(), 2u);
    for (const BatchShare& share : batch_.shares)
      ++turns[static_cast<size_t>(share.run->seq.value)];
    Advance();
  }
  EXPECT_EQ(turns, (std::vector<int>{4, 4, 4, 4, 4}));
}

TEST_F(BatcherTest, PromptWaitsWithItsLastTokenForAnOutput) {
  AddRun(1);
  EngineRun& prompt = AddRun(8);
  budget_.outputs_max = 1;
  Plan();
  EXPECT_EQ(ShareOf(prompt), 7);
  Advance();
  int got = 0;
  for (int step = 0; step < 2; ++step) {
    Plan();
    got += ShareOf(prompt);
    Advance();
  }
  EXPECT_EQ(got, 1) << "it takes turns with the one that decodes";
}

TEST_F(BatcherTest, BatchIsNeverOverfull) {
  for (int i = 0; i < 8; ++i)
    AddRun(1);
  AddRun(300);
  AddRun(300);
  budget_.tokens_max = 10;
  Plan();
  EXPECT_EQ(batch_.tokens.size(), 10u);
  EXPECT_EQ(batch_.decode_tokens, 8);
  budget_.tokens_max = 4;
  Plan();
  EXPECT_EQ(batch_.tokens.size(), 4u);
  EXPECT_EQ(batch_.prefill_tokens, 0);
}

TEST_F(BatcherTest, FewCells) {
  EngineRun& a = AddRun(1);
  EngineRun& b = AddRun(1);
  EngineRun& c = AddRun(1);
  EngineRun& prompt = AddRun(50);
  budget_.cells_free = 2;
  Plan();
  EXPECT_EQ(batch_.tokens.size(), 2u);
  EXPECT_EQ(ShareOf(a) + ShareOf(b), 2) << "the oldest";
  EXPECT_EQ(batch_.starved, (std::vector<EngineRun*>{&c, &prompt}));
  budget_.cells_free = 10;
  Plan();
  EXPECT_EQ(ShareOf(prompt), 7) << "a chunk shrinks to the cells there are";
  EXPECT_TRUE(batch_.starved.empty());
  budget_.cells_free = 0;
  Plan();
  EXPECT_TRUE(batch_.tokens.empty());
  EXPECT_EQ(batch_.starved.size(), 4u);
}

}  // namespace
}  // namespace tenuto
