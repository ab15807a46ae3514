#include "engine/fake/executor.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tenuto {
namespace {

constexpr SeqId kA{0}, kB{1}, kC{2};

template <typename T>
Code CodeOf(const Result<T>& result) {
  return result ? Code{0} : result.error().code();
}

std::vector<TokenId> Tokens(const FakeExecutor& executor, std::string_view text) {
  return *executor.Tokenize(text, true, true);
}

std::vector<ForwardToken> Batch(SeqId seq, TokenPos begin, std::span<const TokenId> tokens) {
  std::vector<ForwardToken> batch;
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.push_back({seq, begin + static_cast<TokenPos>(i), tokens[i], i + 1 == tokens.size()});
  }
  return batch;
}

TokenId Greedy(const FakeExecutor& executor, size_t output = 0) {
  const std::span<const float> logits = executor.Logits(output);
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Greedy answer after `prompt`, whose last token is decoded here; the rest is in the sequence
// already.
std::string Answer(FakeExecutor& executor, SeqId seq, const std::vector<TokenId>& prompt,
                   TokenPos held) {
  const std::span<const TokenId> rest = std::span(prompt).subspan(static_cast<size_t>(held));
  EXPECT_TRUE(executor.Forward(Batch(seq, held, rest)).ok());
  std::string text;
  auto pos = static_cast<TokenPos>(prompt.size());
  for (int i = 0; i < 500; ++i) {
    const TokenId token = Greedy(executor);
    if (executor.IsEnd(token)) return text;
    text += executor.TokenText(token, false);
    EXPECT_TRUE(executor.Forward(std::vector<ForwardToken>{{seq, pos++, token, true}}).ok());
  }
  ADD_FAILURE() << "the answer has no end";
  return text;
}

std::vector<TokenId> ChatPrompt(const FakeExecutor& executor, std::string text) {
  const std::vector<ChatMessage> messages = {{"user", std::move(text), ""}};
  return Tokens(executor, *executor.RenderChat(messages, true));
}

TEST(FakeExecutor, AnswersInLettersAndEnds) {
  FakeExecutor executor({});
  size_t shortest = 1000;
  size_t longest = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string answer =
        Answer(executor, kA, ChatPrompt(executor, "q" + std::to_string(i)), 0);
    shortest = std::min(shortest, answer.size());
    longest = std::max(longest, answer.size());
    for (const char c : answer) {
      const auto byte = static_cast<uint8_t>(c);
      EXPECT_TRUE((c >= 'a' && c <= 'z') || c == ' ' || byte == 0xC3 ||
                  (byte >= 0xA0 && byte <= 0xBF));
    }
    ASSERT_TRUE(executor.Truncate(kA, 0).ok());
  }
  EXPECT_GE(shortest, 5U);
  EXPECT_LE(longest, 62U);
  EXPECT_LT(shortest, longest);
  EXPECT_EQ(executor.cells_free(), 4096);
}

TEST(FakeExecutor, TheAnswerDependsOnTokensOnly) {
  FakeExecutor whole({});
  FakeExecutor pieces({});
  const std::vector<TokenId> prompt = ChatPrompt(whole, "tell me");
  const std::string expected = Answer(whole, kA, prompt, 0);
  // Another sequence, cut into batches of three, beside another tenant.
  ASSERT_TRUE(pieces.Forward(Batch(kC, 0, Tokens(pieces, "someone else"))).ok());
  TokenPos held = 0;
  while (held + 4 < static_cast<TokenPos>(prompt.size())) {
    ASSERT_TRUE(
        pieces.Forward(Batch(kB, held, std::span(prompt).subspan(static_cast<size_t>(held), 3)))
            .ok());
    held += 3;
  }
  EXPECT_EQ(Answer(pieces, kB, prompt, held), expected);
}

TEST(FakeExecutor, OtherModelsAndTokensAnswerOtherwise) {
  FakeExecutor one({});
  FakeExecutorSettings settings;
  settings.model_seed = 2;
  FakeExecutor two(settings);
  const std::vector<TokenId> prompt = ChatPrompt(one, "tell me");
  EXPECT_NE(Answer(one, kA, prompt, 0), Answer(two, kA, prompt, 0));
  EXPECT_NE(Answer(one, kB, ChatPrompt(one, "tell mf"), 0), Answer(one, kC, prompt, 0));
  EXPECT_NE(one.info().fingerprint, two.info().fingerprint);
  EXPECT_EQ(one.info().vocabulary, two.info().vocabulary);
  settings = {};
  settings.config = "q8_0";
  EXPECT_NE(FakeExecutor(settings).info().fingerprint, one.info().fingerprint);
}

TEST(FakeExecutor, ExportedPiecesContinueElsewhere) {
  FakeExecutor executor({});
  const std::vector<TokenId> prompt = ChatPrompt(executor, "a longer question about nothing");
  const std::string expected = Answer(executor, kA, prompt, 0);
  const auto held = static_cast<TokenPos>(prompt.size()) - 1;
  std::vector<std::byte> first, second, again;
  ASSERT_TRUE(executor.Export(kA, {0, 20}, first).ok());
  ASSERT_TRUE(executor.Export(kA, {20, held}, second).ok());
  ASSERT_TRUE(executor.Import(kB, {0, 20}, first).ok());
  ASSERT_TRUE(executor.Import(kB, {20, held}, second).ok());
  ASSERT_TRUE(executor.Export(kB, {0, 20}, again).ok());
  EXPECT_EQ(first, again);
  EXPECT_EQ(Answer(executor, kB, prompt, held), expected);
}

TEST(FakeExecutor, AForeignPieceInTheMiddleChangesTheAnswer) {
  FakeExecutor executor({});
  const std::vector<TokenId> prompt = ChatPrompt(executor, "a longer question about nothing");
  const std::string expected = Answer(executor, kA, prompt, 0);
  std::vector<TokenId> other = prompt;
  other[15] = 'X';
  ASSERT_TRUE(executor.Forward(Batch(kB, 0, other)).ok());
  std::vector<std::byte> own, foreign, rest;
  const auto held = static_cast<TokenPos>(prompt.size()) - 1;
  ASSERT_TRUE(executor.Export(kA, {0, 10}, own).ok());
  ASSERT_TRUE(executor.Export(kB, {10, 20}, foreign).ok());
  ASSERT_TRUE(executor.Export(kA, {20, held}, rest).ok());
  ASSERT_TRUE(executor.Import(kC, {0, 10}, own).ok());
  ASSERT_TRUE(executor.Import(kC, {10, 20}, foreign).ok());
  ASSERT_TRUE(executor.Import(kC, {20, held}, rest).ok());
  EXPECT_NE(Answer(executor, kC, prompt, held), expected);
}

TEST(FakeExecutor, ImportChecksItsRangeAndChangesNothingOnError) {
  FakeExecutorSettings settings;
  settings.kv_bytes_per_token = 40;
  FakeExecutor executor(settings);
  ASSERT_TRUE(executor.Forward(Batch(kA, 0, Tokens(executor, "0123456789"))).ok());
  std::vector<std::byte> bytes;
  ASSERT_TRUE(executor.Export(kA, {4, 8}, bytes).ok());
  EXPECT_EQ(bytes.size(), 16U + 4 * 40);
  const int32_t free = executor.cells_free();

  EXPECT_EQ(CodeOf(executor.Import(kB, {4, 8}, bytes)), Code::kInvalid);  // holds nothing
  EXPECT_EQ(CodeOf(executor.Import(kB, {0, 4}, bytes)), Code::kCorrupt);  // other positions
  ASSERT_TRUE(executor.CopyPrefix(kA, kB, 4).ok());
  EXPECT_EQ(CodeOf(executor.Import(kB, {4, 7}, bytes)), Code::kCorrupt);
  EXPECT_EQ(CodeOf(executor.Import(kB, {4, 8}, std::span(bytes).first(60))), Code::kCorrupt);
  std::vector<std::byte> damaged = bytes;
  damaged.back() ^= std::byte{1};
  EXPECT_EQ(CodeOf(executor.Import(kB, {4, 8}, damaged)), Code::kCorrupt);
  EXPECT_EQ(executor.cells_free(), free);
  EXPECT_EQ(executor.HeldTokens(kB), Tokens(executor, "0123"));
  ASSERT_TRUE(executor.Import(kB, {4, 8}, bytes).ok());
  EXPECT_EQ(executor.HeldTokens(kB), Tokens(executor, "01234567"));
}

TEST(FakeExecutor, CellsAreABudget) {
  FakeExecutorSettings settings;
  settings.cells = 10;
  FakeExecutor executor(settings);
  ASSERT_TRUE(executor.Forward(Batch(kA, 0, Tokens(executor, "0123456"))).ok());
  ASSERT_TRUE(executor.CopyPrefix(kA, kB, 5).ok());  // shared: costs nothing
  EXPECT_EQ(executor.cells_free(), 3);
  const auto full = executor.Forward(Batch(kB, 5, Tokens(executor, "wxyz")));
  EXPECT_EQ(CodeOf(full), Code::kExhausted);
  EXPECT_EQ(executor.HeldTokens(kB), Tokens(executor, "01234"));
  ASSERT_TRUE(executor.Truncate(kA, 0).ok());
  EXPECT_EQ(executor.cells_free(), 5);
  EXPECT_TRUE(executor.Forward(Batch(kB, 5, Tokens(executor, "wxyz"))).ok());
  std::vector<std::byte> bytes;
  ASSERT_TRUE(executor.Export(kB, {0, 9}, bytes).ok());
  EXPECT_EQ(CodeOf(executor.Import(kC, {0, 9}, bytes)), Code::kExhausted);
  EXPECT_TRUE(executor.HeldTokens(kC).empty());
}

TEST(FakeExecutor, BadBatchesChangeNothing) {
  FakeExecutor executor({});
  const std::vector<ForwardToken> bad[] = {
      {},
      {{kA, 1, 'a', true}},                       // a gap
      {{kA, 0, 'a', false}, {kA, 2, 'b', true}},  // a gap inside
      {{kA, 0, 999, true}},
      {{kA, 0, -1, true}},
      {{SeqId{99}, 0, 'a', true}},
      {{SeqId{-1}, 0, 'a', true}},
  };
  for (const auto& batch : bad) {
    EXPECT_EQ(CodeOf(executor.Forward(batch)), Code::kInvalid);
  }
  EXPECT_EQ(executor.cells_free(), executor.info().cells);
  EXPECT_FALSE(executor.Truncate(SeqId{99}, 0).ok());
  EXPECT_FALSE(executor.Truncate(kA, -1).ok());
  EXPECT_FALSE(executor.CopyPrefix(kA, kB, 1).ok());
  std::vector<std::byte> bytes;
  EXPECT_FALSE(executor.Export(kA, {0, 1}, bytes).ok());
}

TEST(FakeExecutor, FaultsComeWhenAskedFor) {
  FakeExecutor executor({});
  executor.FailForward(2, Code::kIo);
  EXPECT_TRUE(executor.Forward(Batch(kA, 0, Tokens(executor, "abcd"))).ok());
  EXPECT_EQ(CodeOf(executor.Forward(Batch(kA, 4, Tokens(executor, "efgh")))), Code::kIo);
  ASSERT_TRUE(executor.Truncate(kA, 0).ok());
  executor.FailForward(1, Code::kExhausted);
  EXPECT_EQ(CodeOf(executor.Forward(Batch(kA, 0, Tokens(executor, "ab")))), Code::kExhausted);
  EXPECT_TRUE(executor.HeldTokens(kA).empty());
  EXPECT_TRUE(executor.Forward(Batch(kA, 0, Tokens(executor, "ab"))).ok());
  std::vector<std::byte> bytes;
  executor.FailExport(1, Code::kIo);
  EXPECT_FALSE(executor.Export(kA, {0, 2}, bytes).ok());
  ASSERT_TRUE(executor.Export(kA, {0, 2}, bytes).ok());
  executor.FailImport(1, Code::kCorrupt);
  EXPECT_EQ(CodeOf(executor.Import(kB, {0, 2}, bytes)), Code::kCorrupt);
  EXPECT_TRUE(executor.Import(kB, {0, 2}, bytes).ok());
}

TEST(FakeExecutor, TimeIsToldToTheSimulator) {
  int64_t spent = 0;
  FakeExecutorSettings settings;
  settings.spend = [&spent](int64_t ns) { spent += ns; };
  settings.forward_ns = 1000;
  settings.prefill_token_ns = 10;
  settings.decode_token_ns = 100;
  FakeExecutor executor(settings);
  ASSERT_TRUE(executor.Forward(Batch(kA, 0, Tokens(executor, "abcd"))).ok());
  EXPECT_EQ(spent, 1000 + 3 * 10 + 100);
}

TEST(FakeExecutor, WithoutRangeExportItOnlyGoesForward) {
  FakeExecutorSettings settings;
  settings.range_export = false;
  FakeExecutor executor(settings);
  EXPECT_FALSE(executor.info().range_export);
  ASSERT_TRUE(executor.Forward(Batch(kA, 0, Tokens(executor, "abcd"))).ok());
  std::vector<std::byte> bytes;
  EXPECT_EQ(CodeOf(executor.Export(kA, {0, 4}, bytes)), Code::kInvalid);
  EXPECT_EQ(CodeOf(executor.Truncate(kA, 2)), Code::kInvalid);
  EXPECT_EQ(CodeOf(executor.CopyPrefix(kA, kB, 2)), Code::kInvalid);
  EXPECT_EQ(executor.HeldTokens(kA).size(), 4U);
  EXPECT_TRUE(executor.CopyPrefix(kA, kB, 4).ok());
  EXPECT_TRUE(executor.Truncate(kA, 0).ok());
}

TEST(FakeExecutor, TokenizesBytesAndSpecials) {
  FakeExecutor executor({});
  EXPECT_EQ(executor.Tokenize("a<|im_end|>", true, false)->size(), 11U);
  EXPECT_EQ(*executor.Tokenize("a<|im_end|>", true, true),
            (std::vector<TokenId>{'a', FakeExecutor::kMessageEnd}));
  EXPECT_EQ(executor.TokenText(FakeExecutor::kMessageEnd, false), "");
  EXPECT_EQ(executor.TokenText(FakeExecutor::kMessageEnd, true), "<|im_end|>");
  EXPECT_EQ(executor.TokenText(-1, true), "");
  EXPECT_EQ(executor.TokenText(999, true), "");
  const std::vector<ChatMessage> odd = {{"tool", "x", ""}};
  EXPECT_EQ(CodeOf(executor.RenderChat(odd, true)), Code::kInvalid);
}

}  // namespace
}  // namespace tenuto
