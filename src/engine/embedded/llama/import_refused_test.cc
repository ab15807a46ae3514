// States that libllama itself refuses, or takes for others than they are. CheckState keeps them
// from it, so these tests go around CheckState: nothing of what failed may be left behind.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/embedded/llama/executor.h"
#include "engine/embedded/llama/test_model.h"
#include "engine/embedded/llama/tiny_model.h"

namespace tenuto {

class LlamaExecutorPeer {
 public:
  static Status LoadState(LlamaExecutor& executor, SeqId seq, TokenRange range,
                          std::span<const std::byte> bytes) {
    return executor.LoadState(seq, range, bytes);
  }
};

namespace {

constexpr SeqId kA{0}, kB{1}, kC{2};
constexpr TokenRange kRange{40, 60};
// The frame in front of the layers: header, one entry a cell, two numbers (state_check.cc).
constexpr size_t kHeaderBytes = 16, kCellBytes = 12, kTailBytes = 8;
constexpr size_t kCells = 20;
constexpr size_t kLayersAt = kHeaderBytes + kCells * kCellBytes + kTailBytes;

struct BadState {
  const char* name;
  std::vector<std::byte> bytes;
};

void PutU32(std::vector<std::byte>& bytes, size_t at, uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// By how V lies: transposed without flash attention. The frame's sizes are the same.
class ImportRefusedTest : public ::testing::TestWithParam<FlashAttention> {
 protected:
  void SetUp() override {
    LlamaSettings settings = SmallSettings(WriteTinyModel(folder_, {}));
    settings.flash_attention = GetParam();
    executor_ = OpenOrFail(settings);
    ASSERT_NE(executor_, nullptr);
    tokens_ = StoryTokens(*executor_, 61);
    Compute(*executor_, kA, 0, std::span(tokens_).first(60));
    ASSERT_TRUE(executor_->Export(kA, {0, 40}, head_).ok());
    ASSERT_TRUE(executor_->Export(kA, kRange, good_).ok());
    ASSERT_TRUE(executor_->Truncate(kA, 0).ok());
  }

  // The good state with every number of every row not a number, its frame whole. The rows of a
  // layer lie behind 12 bytes of type and size; two layers of keys, two of values.
  std::vector<std::byte> Poisoned() const {
    std::vector<std::byte> bytes = good_;
    const size_t layer_bytes = kCells * 32 * sizeof(uint16_t);
    const size_t heads = bytes.size() - kLayersAt - 4 * layer_bytes;
    EXPECT_EQ(heads, 12U * 4);
    for (size_t layer = 0; layer < 4; ++layer) {
      const size_t begin = kLayersAt + layer * (12 + layer_bytes) + 12;
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(begin), layer_bytes, std::byte{0x7f});
    }
    return bytes;
  }

  std::vector<BadState> BadStates() const {
    const std::vector<std::byte> poisoned = Poisoned();
    const size_t layer = (poisoned.size() - kLayersAt) / 4;
    std::vector<BadState> bad;
    bad.push_back({"another magic number", poisoned});
    PutU32(bad.back().bytes, 0, 0x12345678);
    bad.push_back({"two streams", poisoned});
    PutU32(bad.back().bytes, 8, 2);
    bad.push_back({"more cells than there are", poisoned});
    PutU32(bad.back().bytes, 12, 100'000);
    bad.push_back({"a cell of two sequences", poisoned});
    PutU32(bad.back().bytes, kHeaderBytes + kCellBytes + 4, 2);
    bad.push_back({"another type of the last layer", poisoned});
    PutU32(bad.back().bytes, kLayersAt + 3 * layer, 8);
    for (const size_t size : {kLayersAt - 4, kLayersAt + 100, kLayersAt + 2 * layer,
                              poisoned.size() - 1, size_t{8}, size_t{0}}) {
      bad.push_back({"cut", poisoned});
      bad.back().bytes.resize(size);
    }
    bad.push_back({"bytes behind the end", poisoned});
    bad.back().bytes.resize(poisoned.size() + 4);
    bad.push_back({"another first position", poisoned});
    PutU32(bad.back().bytes, kHeaderBytes, 39);
    bad.push_back({"another last position", poisoned});
    PutU32(bad.back().bytes, kHeaderBytes + (kCells - 1) * kCellBytes, 77);
    bad.push_back({"no cells", std::vector<std::byte>(good_.begin(), good_.begin() + 16)});
    PutU32(bad.back().bytes, 12, 0);
    return bad;
  }

  std::vector<std::byte> Exported(SeqId seq, TokenRange range) {
    std::vector<std::byte> bytes;
    const Status status = executor_->Export(seq, range, bytes);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
    return bytes;
  }
  std::vector<float> LastLogits(SeqId seq) {
    return Compute(*executor_, seq, 60, std::span(tokens_).last(1));
  }

  TempDir folder_;
  std::unique_ptr<LlamaExecutor> executor_;
  std::vector<TokenId> tokens_;
  std::vector<std::byte> head_, good_;  // [0, 40) and kRange of `tokens_`
};

TEST_P(ImportRefusedTest, LeavesNothingWhereNobodyElseIsLive) {
  ASSERT_TRUE(executor_->Import(kB, {0, 40}, head_).ok());
  ASSERT_TRUE(executor_->Import(kB, kRange, good_).ok());
  const std::vector<float> expected = LastLogits(kB);
  for (const BadState& bad : BadStates()) {
    SCOPED_TRACE(bad.name);
    ASSERT_TRUE(executor_->Truncate(kB, 0).ok());
    // Not behind what it needs: a first piece can be refused as well.
    EXPECT_EQ(CodeOf(LlamaExecutorPeer::LoadState(*executor_, kB, kRange, bad.bytes)),
              Code::kCorrupt);
    EXPECT_EQ(executor_->cells_free(), executor_->info().cells);
    // Takes fewer cells than the state had.
    EXPECT_FALSE(std::isnan(Compute(*executor_, kC, 0, std::span(tokens_).first(5))[0]));
    ASSERT_TRUE(executor_->Truncate(kC, 0).ok());
    ASSERT_TRUE(executor_->Import(kB, {0, 40}, head_).ok());
    ASSERT_TRUE(executor_->Import(kB, kRange, good_).ok());
    EXPECT_EQ(Exported(kB, kRange), good_);
    const std::vector<float> logits = LastLogits(kB);
    EXPECT_FALSE(std::isnan(logits[0]));
    EXPECT_EQ(MaxDifference(logits, expected), 0.0F);
  }
}

TEST_P(ImportRefusedTest, LeavesNothingBesideOthersThatAreLive) {
  // A neighbour, and the sequence that the state is for.
  Compute(*executor_, kC, 0, std::span(tokens_).first(30));
  ASSERT_TRUE(executor_->Import(kB, {0, 40}, head_).ok());
  ASSERT_TRUE(executor_->Import(kB, kRange, good_).ok());
  const std::vector<float> expected = LastLogits(kB);
  ASSERT_TRUE(executor_->Truncate(kB, 40).ok());
  const std::vector<float> neighbour =
      Compute(*executor_, kC, 30, std::span(tokens_).subspan(30, 1));
  ASSERT_TRUE(executor_->Truncate(kC, 30).ok());
  const int32_t free = executor_->cells_free();
  for (const BadState& bad : BadStates()) {
    SCOPED_TRACE(bad.name);
    EXPECT_EQ(CodeOf(LlamaExecutorPeer::LoadState(*executor_, kB, kRange, bad.bytes)),
              Code::kCorrupt);
    EXPECT_EQ(executor_->cells_free(), free);
    EXPECT_EQ(Exported(kB, {0, 40}), head_);
    const std::vector<float> beside =
        Compute(*executor_, kC, 30, std::span(tokens_).subspan(30, 1));
    EXPECT_FALSE(std::isnan(beside[0]));
    EXPECT_LT(MaxDifference(beside, neighbour), 0.01F);  // another cell
    ASSERT_TRUE(executor_->Truncate(kC, 30).ok());
    ASSERT_TRUE(executor_->Import(kB, kRange, good_).ok());
    EXPECT_EQ(Exported(kB, kRange), good_);
    const std::vector<float> logits = LastLogits(kB);
    EXPECT_FALSE(std::isnan(logits[0]));
    EXPECT_LT(MaxDifference(logits, expected), 0.01F);
    ASSERT_TRUE(executor_->Truncate(kB, 40).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Values, ImportRefusedTest,
                         ::testing::Values(FlashAttention::kOff, FlashAttention::kOn),
                         [](const auto& test) {
                           return test.param == FlashAttention::kOff ? "Transposed" : "Rows";
                         });

}  // namespace
}  // namespace tenuto
