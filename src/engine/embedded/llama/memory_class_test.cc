// What an executor can and cannot do for each class of memory, on tiny models.
#include <gtest/gtest.h>

#include "engine/embedded/llama/executor.h"
#include "engine/embedded/llama/test_model.h"
#include "engine/embedded/llama/tiny_model.h"

namespace tenuto {
namespace {

constexpr SeqId kA{0}, kB{1};

class MemoryClassTest : public ::testing::Test {
 protected:
  std::unique_ptr<LlamaExecutor> Open(TinyKind kind, bool swa_full = true) {
    LlamaSettings settings = SmallSettings(WriteTinyModel(folder_, {.kind = kind}));
    settings.cells = 512;
    settings.swa_full = swa_full;
    settings.sequences = 2;  // a small window's cache grows with these two
    settings.ubatch_tokens = 16;
    return OpenOrFail(settings);
  }
  TempDir folder_;
};

TEST_F(MemoryClassTest, FullAttentionCanDoEverything) {
  const auto executor = Open(TinyKind::kFullAttention);
  ASSERT_NE(executor, nullptr);
  EXPECT_TRUE(executor->info().range_export);
  EXPECT_EQ(executor->info().kv_bytes_per_token, 2U * 2 * 32 * 2 + 12);
  const std::vector<TokenId> tokens = StoryTokens(*executor, 100);
  const std::vector<float> live = Compute(*executor, kA, 0, tokens, 7);
  std::vector<std::byte> bytes;
  ASSERT_TRUE(executor->Export(kA, {0, 98}, bytes).ok());
  ASSERT_TRUE(executor->Truncate(kA, 0).ok());
  ASSERT_TRUE(executor->Import(kB, {0, 98}, bytes).ok());
  EXPECT_EQ(MaxDifference(live, Compute(*executor, kB, 98, std::span(tokens).last(2))), 0.0F);
}

TEST_F(MemoryClassTest, ASlidingWindowDoesNotExportRanges) {
  const auto executor = Open(TinyKind::kSlidingWindow);
  ASSERT_NE(executor, nullptr);
  EXPECT_FALSE(executor->info().range_export);
  EXPECT_GT(executor->info().kv_bytes_per_token, 0U);
  Compute(*executor, kA, 0, StoryTokens(*executor, 40));
  std::vector<std::byte> bytes(10);
  EXPECT_EQ(CodeOf(executor->Export(kA, {0, 10}, bytes)), Code::kInvalid);
  EXPECT_EQ(CodeOf(executor->Import(kB, {0, 10}, bytes)), Code::kInvalid);
}

// libllama says yes to the removal although nothing of the window is left; going on would give
// other answers.
TEST_F(MemoryClassTest, ASmallSlidingWindowGoesBackOnlyAsFarAsItHolds) {
  const auto executor = Open(TinyKind::kSlidingWindow, false);
  ASSERT_NE(executor, nullptr);
  const std::vector<TokenId> tokens = StoryTokens(*executor, 480);
  const std::vector<float> live = Compute(*executor, kA, 0, tokens, 16);
  EXPECT_EQ(CodeOf(executor->Truncate(kA, 20)), Code::kInvalid);
  EXPECT_EQ(CodeOf(executor->CopyPrefix(kA, kB, 20)), Code::kInvalid);
  EXPECT_EQ(executor->cells_free(), 512 - 480);
  ASSERT_TRUE(executor->Truncate(kA, 479).ok());  // the last token again
  const std::vector<float> again = Compute(*executor, kA, 479, std::span(tokens).last(1));
  EXPECT_LT(MaxDifference(live, again), 0.01F);
  ASSERT_TRUE(executor->Truncate(kA, 0).ok());  // wholly: always
  EXPECT_EQ(executor->cells_free(), 512);
}

TEST_F(MemoryClassTest, AFullSlidingWindowGoesBackAnywhereWhileItIsLive) {
  const auto executor = Open(TinyKind::kSlidingWindow, true);
  ASSERT_NE(executor, nullptr);
  const std::vector<TokenId> tokens = StoryTokens(*executor, 300);
  Compute(*executor, kA, 0, std::span(tokens).first(100), 16);
  const std::vector<float> straight =
      Compute(*executor, kA, 100, std::span(tokens).subspan(200, 16));
  ASSERT_TRUE(executor->Truncate(kA, 0).ok());
  Compute(*executor, kA, 0, std::span(tokens).first(200), 16);
  ASSERT_TRUE(executor->Truncate(kA, 100).ok());
  const std::vector<float> back = Compute(*executor, kA, 100, std::span(tokens).subspan(200, 16));
  EXPECT_LT(MaxDifference(straight, back), 0.01F);
}

// Wholly or in one layer of two: a hybrid's attention could go back, its other half can't, and
// nothing of either may change.
class RecurrentTest : public MemoryClassTest, public ::testing::WithParamInterface<TinyKind> {};

TEST_P(RecurrentTest, AStateOnlyGoesForward) {
  const auto executor = Open(GetParam());
  ASSERT_NE(executor, nullptr);
  EXPECT_FALSE(executor->info().range_export);
  const std::vector<TokenId> tokens = StoryTokens(*executor, 60);
  Compute(*executor, kA, 0, std::span(tokens).first(59));
  const int32_t free = executor->cells_free();
  EXPECT_EQ(CodeOf(executor->Truncate(kA, 30)), Code::kInvalid);
  EXPECT_EQ(executor->cells_free(), free);
  EXPECT_EQ(CodeOf(executor->CopyPrefix(kA, kB, 30)), Code::kInvalid);
  ASSERT_TRUE(executor->CopyPrefix(kA, kB, 59).ok());
  // Nothing was changed by the refusals, and two sequences keep their states apart.
  const std::vector<float> one = Compute(*executor, kA, 59, std::span(tokens).last(1));
  Compute(*executor, kA, 60, std::span(tokens).first(20));
  const float other_cell = GetParam() == TinyKind::kHybrid ? 1e-4F : 0.0F;  // of its attention
  EXPECT_LE(MaxDifference(one, Compute(*executor, kB, 59, std::span(tokens).last(1))), other_cell);
  ASSERT_TRUE(executor->Truncate(kA, 0).ok());
  ASSERT_TRUE(executor->Truncate(kB, 0).ok());
  Compute(*executor, kA, 0, std::span(tokens).first(59));
  EXPECT_EQ(MaxDifference(one, Compute(*executor, kA, 59, std::span(tokens).last(1))), 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentTest,
                         ::testing::Values(TinyKind::kRecurrent, TinyKind::kHybrid),
                         [](const auto& kind) {
                           return kind.param == TinyKind::kHybrid ? "Hybrid" : "Recurrent";
                         });

}  // namespace
}  // namespace tenuto
