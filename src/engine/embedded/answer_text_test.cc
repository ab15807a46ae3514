#include "engine/embedded/answer_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "engine/embedded/testing.h"

namespace tenuto {
namespace {

std::string Decode(const Executor& executor, const Tokens& tokens) {
  std::string raw, out;
  for (const TokenId token : tokens)
    raw += executor.TokenText(token, false);
  AppendLastUtf8(raw, out);
  return out;
}

// The answer's tokens as the run result has them.
Tokens Kept(const Tokens& added, const AnswerText& text) {
  Tokens kept(added.begin(), added.begin() + text.kept());
  kept.insert(kept.end(), text.replacement().begin(), text.replacement().end());
  return kept;
}

TEST(AnswerText, TokensWithoutStopsAreVisibleAtOnce) {
  const ScriptedExecutor executor({"one ", "two", "<end>"}, {0});
  AnswerText text(executor, {});
  text.Add(0);
  RunChunk chunk = text.TakeChunk();
  EXPECT_EQ(chunk.text, "one ");
  EXPECT_EQ(chunk.tokens, (Tokens{0}));
  EXPECT_FALSE(text.has_chunk());
  text.Add(2);  // no text: still a token of the answer
  chunk = text.TakeChunk();
  EXPECT_EQ(chunk.text, "");
  EXPECT_EQ(chunk.tokens, (Tokens{2}));
}

TEST(AnswerText, HoldsHalfACharacterAndReplacesItAtTheEnd) {
  const ScriptedExecutor executor({"a\xE2", "\x82", "\xAC"}, {0});
  AnswerText text(executor, {});
  text.Add(0);
  RunChunk chunk = text.TakeChunk();
  EXPECT_EQ(chunk.text, "a");
  EXPECT_TRUE(chunk.tokens.empty()) << "its text is not complete";
  text.Add(1);
  EXPECT_FALSE(text.has_chunk());
  text.Add(2);
  chunk = text.TakeChunk();
  EXPECT_EQ(chunk.text, "\xE2\x82\xAC");
  EXPECT_EQ(chunk.tokens, (Tokens{0, 1, 2}));
  text.Add(0);
  EXPECT_EQ(text.TakeChunk().text, "a");
  text.Finish();
  chunk = text.TakeChunk();
  EXPECT_EQ(chunk.text, "\xEF\xBF\xBD");
  EXPECT_EQ(chunk.tokens, (Tokens{0}));
}

TEST(AnswerText, StopAcrossTokens) {
  const ScriptedExecutor executor({"hi", "<", "e", "nd>", "x"}, {0});
  AnswerText text(executor, {"<end>"});
  text.Add(0);
  EXPECT_EQ(text.TakeChunk().text, "hi");
  text.Add(1);
  EXPECT_FALSE(text.has_chunk()) << "may begin the stop string";
  text.Add(4);
  EXPECT_EQ(text.TakeChunk().text, "<x") << "it did not";
  for (const TokenId token : {1, 2, 3})
    text.Add(token);
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.stop_string(), "<end>");
  EXPECT_FALSE(text.has_chunk());
  EXPECT_EQ(text.kept(), 3);
  EXPECT_TRUE(text.replacement().empty());
}

TEST(AnswerText, StopInTheMiddleOfATokenKeepsItsVisiblePart) {
  const ScriptedExecutor executor({"so be it\n\nand", "so", " be", " it", "x"}, {0});
  AnswerText text(executor, {"\n\n"});
  text.Add(4);
  text.Add(0);
  ASSERT_TRUE(text.stopped());
  const RunChunk chunk = text.TakeChunk();
  EXPECT_EQ(chunk.text, "xso be it");
  EXPECT_EQ(chunk.tokens, (Tokens{4, 1, 2, 3}));
  EXPECT_EQ(text.kept(), 1);
  EXPECT_EQ(text.replacement(), (Tokens{1, 2, 3}));
}

TEST(AnswerText, VisiblePartSurvivesATokenizerThatAddsASpace) {
  ScriptedExecutor executor({"itSTOP", "it", " ", " it", "i", "t"}, {0});
  executor.tokenize_adds_space = true;
  AnswerText text(executor, {"STOP"});
  text.Add(0);
  ASSERT_TRUE(text.stopped());
  EXPECT_EQ(text.TakeChunk().text, "it");
  EXPECT_EQ(text.replacement(), (Tokens{1})) << "not ' it'";
}

TEST(AnswerText, StopThatBeginsWithASplitCharacter) {
  // The euro sign comes in two tokens; the first is held back for the stop and for UTF-8.
  const ScriptedExecutor executor({"5 \xE2", "\x82\xAC", "5 ", "\x82\xAD"}, {0});
  AnswerText text(executor, {"\xE2\x82\xAC"});
  text.Add(0);
  EXPECT_EQ(text.TakeChunk().text, "5 ");
  text.Add(1);
  ASSERT_TRUE(text.stopped());
  EXPECT_EQ(text.TakeChunk().text, "");
  EXPECT_EQ(text.kept(), 0);
  EXPECT_EQ(text.replacement(), (Tokens{2}));

  AnswerText other(executor, {"\xE2\x82\xAC"});
  other.Add(0);
  other.Add(3);
  EXPECT_FALSE(other.stopped());
  EXPECT_EQ(other.TakeChunk().text, "5 \xE2\x82\xAD");
}

TEST(AnswerText, StopThatBeginsInsideACharacterTakesTheWholeCharacter) {
  const ScriptedExecutor executor({"a\xE2\x82\xAC!", "a"}, {0});
  AnswerText text(executor, {"\xAC!"});  // not UTF-8, but bytes are bytes
  text.Add(0);
  ASSERT_TRUE(text.stopped());
  EXPECT_EQ(text.TakeChunk().text, "a");
  EXPECT_EQ(text.replacement(), (Tokens{1}));
}

TEST(AnswerText, BrokenCharacterBeforeAStopIsShownAsReplacement) {
  const ScriptedExecutor executor({"a\xE2\x82", "STOP"}, {0});
  AnswerText text(executor, {"STOP"});
  text.Add(0);
  text.Add(1);
  ASSERT_TRUE(text.stopped());
  const RunChunk chunk = text.TakeChunk();
  EXPECT_EQ(chunk.text, "a\xEF\xBF\xBD");
  EXPECT_EQ(chunk.tokens, (Tokens{0}));
  EXPECT_EQ(text.kept(), 1);
}

// Random vocabularies of nasty pieces, random stops: what is shown, kept and left out against the
// plain definition.
TEST(AnswerText, AgreesWithTheDefinition) {
  std::mt19937 random(5);
  const std::string alphabet = "ab\xC3\xA9\xE2\x82\xAC";
  const auto draw = [&](size_t most) {
    std::string s;
    for (size_t i = 0, n = random() % (most + 1); i < n; ++i) {
      s.push_back(alphabet[random() % alphabet.size()]);
    }
    return s;
  };
  int stopped_inside_a_token = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::string> vocabulary;
    for (const char c : alphabet)
      vocabulary.emplace_back(1, c);  // every byte alone
    for (int i = 0; i < 12; ++i)
      vocabulary.push_back(draw(4));
    const ScriptedExecutor executor(vocabulary, {0});
    std::vector<std::string> stops;
    for (size_t i = 0; i < random() % 3; ++i)
      stops.push_back(draw(3));

    AnswerText text(executor, stops);
    Tokens added, shown_tokens;
    std::string raw, shown;
    for (int i = 0; i < 12 && !text.stopped(); ++i) {
      const auto token = static_cast<TokenId>(random() % vocabulary.size());
      added.push_back(token);
      raw += executor.TokenText(token, false);
      text.Add(token);
      const RunChunk chunk = text.TakeChunk();
      shown += chunk.text;
      shown_tokens.insert(shown_tokens.end(), chunk.tokens.begin(), chunk.tokens.end());

      // Somebody who starts here with the same tokens is in the same state.
      AnswerText again(executor, stops);
      std::string again_shown;
      for (const TokenId t : added)
        again.Add(t);
      ASSERT_EQ(again.TakeChunk().text, shown);
      ASSERT_EQ(again.stopped(), text.stopped());
    }
    text.Finish();
    const RunChunk chunk = text.TakeChunk();
    shown += chunk.text;
    shown_tokens.insert(shown_tokens.end(), chunk.tokens.begin(), chunk.tokens.end());

    StopMatcher matcher(stops);
    const auto match = matcher.Feed(raw);
    ASSERT_EQ(match.has_value(), text.stopped());
    if (!match) {
      ASSERT_EQ(shown, Decode(executor, added));
      ASSERT_EQ(shown_tokens, added);
      continue;
    }
    const Tokens kept = Kept(added, text);
    ASSERT_EQ(shown_tokens, kept);
    ASSERT_EQ(shown, Decode(executor, kept)) << "the answer decodes to what was streamed";
    std::string before;
    (void)AppendWholeUtf8(std::string_view(raw).substr(0, match->begin), before);
    ASSERT_TRUE(shown.starts_with(before));
    ASSERT_LE(shown.size(), before.size() + kReplacementCharacter.size());
    stopped_inside_a_token += text.replacement().empty() ? 0 : 1;
  }
  EXPECT_GT(stopped_inside_a_token, 100);
}

}  // namespace
}  // namespace tenuto
