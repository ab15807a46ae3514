#include "engine/embedded/llama/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/embedded/llama/test_model.h"
#include "engine/embedded/llama/tiny_model.h"

namespace tenuto {
namespace {

constexpr SeqId kA{0}, kB{1}, kC{2}, kD{3};

// On a tiny model; what needs a real one is in real_model_test.cc.
class LlamaExecutorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempDir;
    executor_ = OpenOrFail(Settings()).release();
  }
  static void TearDownTestSuite() {
    delete executor_;
    delete folder_;
    executor_ = nullptr;
    folder_ = nullptr;
  }
  static LlamaSettings Settings() {
    LlamaSettings settings = SmallSettings(WriteTinyModel(*folder_, {}));
    settings.cells = 1024;
    return settings;
  }
  void SetUp() override {
    ASSERT_NE(executor_, nullptr);
    for (int32_t seq = 0; seq < 4; ++seq)
      ASSERT_TRUE(executor_->Truncate(SeqId{seq}, 0).ok());
    ASSERT_EQ(executor_->cells_free(), executor_->info().cells);
  }
  static std::vector<std::byte> Exported(SeqId seq, TokenRange range) {
    std::vector<std::byte> bytes;
    const Status status = executor_->Export(seq, range, bytes);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
    return bytes;
  }
  static TempDir* folder_;
  static LlamaExecutor* executor_;
};
TempDir* LlamaExecutorTest::folder_ = nullptr;
LlamaExecutor* LlamaExecutorTest::executor_ = nullptr;

TEST_F(LlamaExecutorTest, ExportedBytesComeBackTheSame) {
  const std::vector<TokenId> tokens = StoryTokens(*executor_, 100);
  Compute(*executor_, kA, 0, tokens);
  const std::vector<std::byte> whole = Exported(kA, {0, 99});
  EXPECT_EQ(executor_->cells_free(), 1024 - 100);
  ASSERT_TRUE(executor_->Import(kB, {0, 99}, whole).ok());
  EXPECT_EQ(executor_->cells_free(), 1024 - 199);
  EXPECT_EQ(Exported(kB, {0, 99}), whole);
  EXPECT_EQ(Exported(kB, {40, 60}), Exported(kA, {40, 60}));
}

TEST_F(LlamaExecutorTest, ABytesFormDoesNotDependOnWhereCellsLie) {
  const std::vector<TokenId> tokens = StoryTokens(*executor_, 90);
  Compute(*executor_, kA, 0, tokens);
  const std::vector<std::byte> expected = Exported(kA, {0, 89});
  // Holes between tenants, then a sequence that has to be scattered over them.
  for (TokenPos begin = 0; begin < 60; begin += 10) {
    Compute(*executor_, kB, begin, std::span(tokens).subspan(static_cast<size_t>(begin), 10));
    Compute(*executor_, kC, begin, std::span(tokens).subspan(static_cast<size_t>(begin), 10));
  }
  ASSERT_TRUE(executor_->Truncate(kB, 0).ok());
  std::vector<TokenId> filler =
      StoryTokens(*executor_, static_cast<size_t>(executor_->cells_free()) - 70);
  Compute(*executor_, kD, 0, filler);
  ASSERT_TRUE(executor_->Truncate(kA, 0).ok());
  ASSERT_TRUE(executor_->Import(kB, {0, 89}, expected).ok());
  EXPECT_EQ(Exported(kB, {0, 89}), expected);
}

TEST_F(LlamaExecutorTest, ARefusedImportChangesNothing) {
  const std::vector<TokenId> tokens = StoryTokens(*executor_, 61);
  Compute(*executor_, kA, 0, std::span(tokens).first(60));
  const std::vector<std::byte> bytes = Exported(kA, {40, 60});
  ASSERT_TRUE(executor_->CopyPrefix(kA, kB, 40).ok());
  const int32_t free = executor_->cells_free();

  EXPECT_EQ(CodeOf(executor_->Import(kB, {0, 20}, bytes)),
            Code::kInvalid);                                                  // holds 40 already
  EXPECT_EQ(CodeOf(executor_->Import(kB, {41, 61}, bytes)), Code::kInvalid);  // a gap
  EXPECT_EQ(CodeOf(executor_->Import(kB, {40, 40}, {})), Code::kInvalid);     // nothing
  EXPECT_EQ(CodeOf(executor_->Import(kB, {40, 59}, bytes)), Code::kCorrupt);
  EXPECT_EQ(CodeOf(executor_->Import(kB, {40, 60}, std::span(bytes).first(bytes.size() - 1))),
            Code::kCorrupt);
  EXPECT_EQ(CodeOf(executor_->Import(kB, {40, 60}, {})), Code::kCorrupt);
  for (const size_t at :
       {size_t{0}, size_t{4}, size_t{8}, size_t{12}, size_t{16}, size_t{20}, size_t{24}}) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x40};
    EXPECT_EQ(CodeOf(executor_->Import(kB, {40, 60}, damaged)), Code::kCorrupt) << at;
  }
  EXPECT_EQ(executor_->cells_free(), free);

  ASSERT_TRUE(executor_->Import(kB, {40, 60}, bytes).ok());
  std::vector<std::byte> again = Exported(kB, {40, 60});
  EXPECT_EQ(again, bytes);
  const std::vector<float> a = Compute(*executor_, kA, 60, std::span(tokens).last(1));
  const std::vector<float> b = Compute(*executor_, kB, 60, std::span(tokens).last(1));
  EXPECT_LT(MaxDifference(a, b), 1.0F);  // other cells; logits reach 28
  EXPECT_EQ(std::max_element(a.begin(), a.end()) - a.begin(),
            std::max_element(b.begin(), b.end()) - b.begin());
}

TEST_F(LlamaExecutorTest, ImportAsksForCellsBeforeItTouchesAny) {
  const std::vector<TokenId> tokens = StoryTokens(*executor_, 100);
  Compute(*executor_, kA, 0, tokens);
  const std::vector<std::byte> bytes = Exported(kA, {0, 100});
  Compute(*executor_, kB, 0, StoryTokens(*executor_, 900));
  const std::vector<std::byte> before = Exported(kB, {800, 900});
  EXPECT_EQ(CodeOf(executor_->Import(kC, {0, 100}, bytes)), Code::kExhausted);
  EXPECT_EQ(executor_->cells_free(), 24);
  EXPECT_EQ(Exported(kB, {800, 900}), before);
  ASSERT_TRUE(executor_->Truncate(kB, 0).ok());
  EXPECT_TRUE(executor_->Import(kC, {0, 100}, bytes).ok());
}

TEST_F(LlamaExecutorTest, AFullCacheChangesNothing) {
  const std::vector<TokenId> story = StoryTokens(*executor_, 1000);
  const std::vector<TokenId> question = StoryTokens(*executor_, 24);
  Compute(*executor_, kA, 0, story);
  Compute(*executor_, kB, 0, std::span(question).first(20));
  const std::vector<std::byte> before = Exported(kB, {0, 20});
  ASSERT_EQ(executor_->cells_free(), 4);
  EXPECT_EQ(CodeOf(executor_->Forward(BatchOf(kB, 20, std::span(story).first(5)))),
            Code::kExhausted);
  EXPECT_EQ(executor_->cells_free(), 4);
  EXPECT_EQ(Exported(kB, {0, 20}), before);
  Compute(*executor_, kB, 20, std::span(question).subspan(20, 4));  // the last cells can be used
  EXPECT_EQ(executor_->cells_free(), 0);
  ASSERT_TRUE(executor_->Truncate(kA, 0).ok());
  EXPECT_EQ(executor_->cells_free(), 1000);
}

TEST_F(LlamaExecutorTest, TruncateThenOtherTokensEqualsAFreshSequence) {
  const std::vector<TokenId> tokens = StoryTokens(*executor_, 80);
  const std::vector<TokenId> other =
      *executor_->Tokenize("Something else was said then.", false, false);
  Compute(*executor_, kA, 0, tokens);
  ASSERT_TRUE(executor_->Truncate(kA, 50).ok());
  ASSERT_TRUE(executor_->Truncate(kA, 70).ok());  // past its end: nothing to do
  EXPECT_EQ(executor_->cells_free(), 1024 - 50);
  const std::vector<float> cut = Compute(*executor_, kA, 50, other);
  // On the very cells: in others the same numbers are added up in another order.
  ASSERT_TRUE(executor_->Truncate(kA, 0).ok());
  Compute(*executor_, kB, 0, std::span(tokens).first(50));
  EXPECT_EQ(MaxDifference(cut, Compute(*executor_, kB, 50, other)), 0.0F);
}

TEST_F(LlamaExecutorTest, CopiedPrefixesShareCellsAndStayApart) {
  const std::vector<TokenId> tokens = StoryTokens(*executor_, 64);
  Compute(*executor_, kA, 0, tokens);
  ASSERT_TRUE(executor_->CopyPrefix(kA, kB, 64).ok());
  ASSERT_TRUE(executor_->CopyPrefix(kA, kC, 32).ok());
  EXPECT_EQ(executor_->cells_free(), 1024 - 64);
  EXPECT_FALSE(executor_->CopyPrefix(kA, kB, 10).ok());  // not empty
  EXPECT_FALSE(executor_->CopyPrefix(kC, kD, 33).ok());
  const std::vector<std::byte> before = Exported(kB, {0, 64});
  ASSERT_TRUE(executor_->Truncate(kA, 0).ok());
  Compute(*executor_, kA, 0, StoryTokens(*executor_, 300));
  EXPECT_EQ(Exported(kB, {0, 64}), before);
  ASSERT_TRUE(executor_->Truncate(kB, 0).ok());
  EXPECT_EQ(executor_->cells_free(), 1024 - 300 - 32);
}

TEST_F(LlamaExecutorTest, MixedBatchesAnswerEachSequenceForItself) {
  const std::vector<TokenId> one = StoryTokens(*executor_, 31);
  const std::vector<TokenId> two =
      *executor_->Tokenize("The capital of France is the city of", true, false);
  const std::vector<float> alone = Compute(*executor_, kA, 0, two);
  ASSERT_TRUE(executor_->Truncate(kA, 0).ok());
  Compute(*executor_, kA, 0, std::span(one).first(30));
  std::vector<ForwardToken> batch = BatchOf(kA, 30, std::span(one).last(1));
  for (const ForwardToken& token : BatchOf(kB, 0, two))
    batch.push_back(token);
  ASSERT_TRUE(executor_->Forward(batch).ok());
  const std::span<const float> second = executor_->Logits(1);
  // Other batch shapes may round otherwise, but the answer is that of the same text.
  EXPECT_LT(MaxDifference(alone, {second.begin(), second.end()}), 0.05F);
  EXPECT_EQ(std::max_element(alone.begin(), alone.end()) - alone.begin(),
            std::max_element(second.begin(), second.end()) - second.begin());
}

TEST_F(LlamaExecutorTest, BadBatchesAreRefusedBeforeTheLibrarySeesThem) {
  const std::vector<ForwardToken> bad[] = {
      {},
      {{kA, 1, 5, true}},
      {{kA, 0, 5, false}, {kA, 2, 5, true}},
      {{kA, 0, 259, true}},
      {{kA, 0, -1, true}},
      {{SeqId{4}, 0, 5, true}},  // the scratch sequence is nobody's
      {{SeqId{-1}, 0, 5, true}},
      std::vector<ForwardToken>(257, ForwardToken{kA, 0, 5, false}),
  };
  for (const auto& batch : bad)
    EXPECT_EQ(CodeOf(executor_->Forward(batch)), Code::kInvalid);
  std::vector<ForwardToken> outputs;
  for (TokenPos pos = 0; pos < 9; ++pos)
    outputs.push_back({kA, pos, 5, true});
  EXPECT_EQ(CodeOf(executor_->Forward(outputs)), Code::kInvalid);
  std::vector<std::byte> bytes;
  EXPECT_FALSE(executor_->Export(kA, {0, 1}, bytes).ok());
  EXPECT_FALSE(executor_->Export(SeqId{4}, {0, 1}, bytes).ok());
  EXPECT_FALSE(executor_->Truncate(kA, -1).ok());
  EXPECT_FALSE(executor_->Truncate(SeqId{4}, 0).ok());
  EXPECT_EQ(executor_->cells_free(), 1024);
  outputs.pop_back();
  EXPECT_TRUE(executor_->Forward(outputs).ok());  // all outputs that were promised
  EXPECT_EQ(executor_->Logits(7).size(), 259U);
}

TEST_F(LlamaExecutorTest, OtherKvTypesAreOtherFingerprintsAndTheirStatesAreRefused) {
  Compute(*executor_, kA, 0, StoryTokens(*executor_, 32));
  const std::vector<std::byte> bytes = Exported(kA, {0, 32});
  LlamaSettings quantised = Settings();
  quantised.type_k = "q8_0";
  LlamaSettings flash = Settings();
  flash.flash_attention = FlashAttention::kOn;
  for (const LlamaSettings& settings : {quantised, flash}) {
    const auto other = OpenOrFail(settings);
    ASSERT_NE(other, nullptr);
    EXPECT_NE(other->info().fingerprint, executor_->info().fingerprint);
    EXPECT_EQ(other->info().vocabulary, executor_->info().vocabulary);
    EXPECT_EQ(CodeOf(other->Import(kA, {0, 32}, bytes)), Code::kCorrupt);
    Compute(*other, kA, 0, StoryTokens(*other, 8));  // still usable
  }
}

TEST_F(LlamaExecutorTest, QuantisedKvWithFlashAttentionComesBackTheSame) {
  LlamaSettings settings = Settings();
  settings.type_k = "q8_0";
  settings.type_v = "q8_0";  // auto turns flash attention on
  const auto executor = OpenOrFail(settings);
  ASSERT_NE(executor, nullptr);
  EXPECT_NE(executor->info().fingerprint_text.find("flash_attention=on"), std::string::npos);
  Compute(*executor, kA, 0, StoryTokens(*executor, 50));
  std::vector<std::byte> bytes, again;
  ASSERT_TRUE(executor->Export(kA, {10, 50}, bytes).ok());
  ASSERT_TRUE(executor->CopyPrefix(kA, kB, 10).ok());
  ASSERT_TRUE(executor->Import(kB, {10, 50}, bytes).ok());
  ASSERT_TRUE(executor->Export(kB, {10, 50}, again).ok());
  EXPECT_EQ(again, bytes);
}

TEST_F(LlamaExecutorTest, AnyThreadMayAskForTokensAndTextWhileOneComputes) {
  const std::string text = "Several threads, one <|im_end|> vocabulary.";
  const std::vector<TokenId> expected = *executor_->Tokenize(text, true, true);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const auto tokens = executor_->Tokenize(text, true, true);
        std::string back;
        for (const TokenId token : *tokens)
          back += executor_->TokenText(token, true);
        if (*tokens != expected || back != text || !executor_->IsEnd(258)) ++wrong;
      }
    });
  }
  Compute(*executor_, kA, 0, StoryTokens(*executor_, 200), 16);
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tenuto
