#include "recall/excerpt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <vector>

#include "base/utf8.h"
#include "recall/lex.h"
#include "recall/text.h"

namespace tenuto {
namespace {

using Terms = std::vector<std::string>;

std::string Excerpt(std::string_view text, const Terms& terms, uint32_t words_max) {
  const TextRange range = ChooseExcerpt(text, terms, words_max);
  EXPECT_LE(range.begin, range.end);
  EXPECT_LE(range.end, text.size());
  return std::string(text.substr(range.begin, range.end - range.begin));
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

size_t WordsOf(std::string text) {
  // A mark over a letter is no character of its own.
  constexpr std::string_view kTone = "\u0e49";
  for (size_t at = text.find(kTone); at != std::string::npos; at = text.find(kTone))
    text.erase(at, kTone.size());
  size_t words = 0;
  for (const Piece& piece : LexText(text)) {
    const bool run = piece.kind == LexKind::kCjk || piece.kind == LexKind::kDense;
    if (run) words += CharactersOf(piece.folded).size();
    words += !run && piece.kind != LexKind::kMark ? 1 : 0;
  }
  return words;
}

TEST(Excerpt, TheWholeTextWhereItFits) {
  EXPECT_EQ(Excerpt(" We met an otter. ", {"otter"}, 4), " We met an otter. ");
  EXPECT_EQ(Excerpt("", {"otter"}, 4), "");
  EXPECT_EQ(Excerpt("We met an otter.", {"otter"}, 0), "");
}

TEST(Excerpt, WholeSentencesAroundTheTerms) {
  const std::string_view text =
      "The morning was cold. We walked along the river. The otter likes smoked trout. It sleeps "
      "at noon. Nobody knows why. Later we went home.";
  EXPECT_EQ(Excerpt(text, {"otter", "trout"}, 5), "The otter likes smoked trout.");
  EXPECT_EQ(Excerpt(text, {"otter", "trout"}, 9),
            "The otter likes smoked trout. It sleeps at noon.");
  EXPECT_EQ(Excerpt(text, {"otter", "trout"}, 14),
            "We walked along the river. The otter likes smoked trout. It sleeps at noon.");
  EXPECT_EQ(Excerpt(text, {}, 9), "The morning was cold. We walked along the river.");
  EXPECT_EQ(Excerpt(text, {"zebra"}, 4), "The morning was cold.");
}

TEST(Excerpt, WhereMostTermsAreNearEachOther) {
  std::string text = "The otter came. ";
  for (int i = 0; i < 200; ++i)
    text += "Rain fell on the hills again. ";
  text += "Happily the otters were fed on trout by Marit. ";
  for (int i = 0; i < 200; ++i)
    text += "The trout was gone by then.\n";
  EXPECT_EQ(Excerpt(text, {"otter", "trout", "happili", "marit"}, 12),
            "Happily the otters were fed on trout by Marit.");
}

TEST(Excerpt, ALongSentenceIsCutBetweenWords) {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "reed and ";
  text += "an otter ";
  for (int i = 0; i < 100; ++i)
    text += "and moss ";
  const std::string excerpt = Excerpt(text, {"otter"}, 8);
  EXPECT_EQ(excerpt, "reed and an otter and moss and moss");
  EXPECT_EQ(Excerpt("one two three otter five six seven", {"otter"}, 5),
            "one two three otter five");
}

TEST(Excerpt, NumbersDaysAndIdentifiers) {
  const std::string_view text =
      "First line here.\nPaid 1,250 on 3 May 2024.\nCall parse_ledger twice.\nLast line here.";
  EXPECT_EQ(Excerpt(text, {"1250"}, 6), "Paid 1,250 on 3 May 2024.");
  EXPECT_EQ(Excerpt(text, {"2024-05-03", "05-03"}, 6), "Paid 1,250 on 3 May 2024.");
  EXPECT_EQ(Excerpt(text, {"parseledger"}, 3), "Call parse_ledger twice.");
}

TEST(Excerpt, ScriptsWithoutSpaces) {
  // "It is cold today. The otter eats fish. We go home." with an otter, mizu-inu, of two
  // characters.
  const std::string_view text =
      "\u4eca\u5929\u5f88\u51b7\u3002\u6c34\u736d\u5403\u9c7c\u3002\u6211\u4eec\u56de\u5bb6\u3002";
  EXPECT_EQ(Excerpt(text, {"\u6c34\u736d"}, 4), "\u6c34\u736d\u5403\u9c7c\u3002");
  EXPECT_EQ(Excerpt(text, {"\u6c34\u736d"}, 3), "\u6c34\u736d\u5403");
  // A tone mark stays with its letter.
  const std::string_view thai = "\u0e1b\u0e25\u0e32\u0e19\u0e49\u0e33\u0e43\u0e2b\u0e0d\u0e48";
  EXPECT_EQ(Excerpt(thai, {}, 4), "\u0e1b\u0e25\u0e32\u0e19\u0e49");
}

TEST(Excerpt, TextWithoutWordsIsBounded) {
  const std::string marks(1 << 20, '!');
  EXPECT_LE(Excerpt(marks, {"otter"}, 10).size(), 10u * kExcerptWordBytes);
  const std::string letters(1 << 20, 'x');
  EXPECT_LE(Excerpt(letters, {"otter"}, 10).size(), 10u * kExcerptWordBytes);
  EXPECT_GE(Excerpt(letters, {"otter"}, 10).size(), 8u * kExcerptWordBytes);
  const std::string spaces = "otter" + std::string(1 << 19, ' ') + "trout";
  EXPECT_EQ(Excerpt(spaces, {"trout"}, 10), "trout");
  EXPECT_EQ(Excerpt(std::string(1 << 20, '\n'), {"otter"}, 10), "");
  EXPECT_LE(Excerpt(std::string(1 << 20, '\xff'), {"otter"}, 10).size(), 160u);
}

TEST(Excerpt, OneMegabyteTakesNoLongerThanItMust) {
  // One endless sentence on one side, many short ones on the other; terms everywhere.
  std::string text;
  while (text.size() < kTurnTextBytesMax / 2)
    text += "an otter. ";
  while (text.size() < kTurnTextBytesMax)
    text += "trout and otter ";
  const auto started = std::chrono::steady_clock::now();
  const std::string excerpt = Excerpt(text, {"otter", "trout"}, 2000);
  EXPECT_LE(WordsOf(excerpt), 2000u);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
}

TEST(Excerpt, AnyTextGivesWholeCharactersAndKeepsTheLimit) {
  const std::vector<std::string> bits = {"otter",      " ",       ". ",         "\n",     "\u6c34",
                                         "\u736d",     "!",       "trout ",     "\u0e19", "\u0e49",
                                         "\u00e9",     "e\u0301", "\u3002",     "7",      "-",
                                         "\U0001f9a6", "\t",      "xxxxxxxxxxx"};
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const size_t count = random() % 60;
    for (size_t i = 0; i < count; ++i)
      text += bits[random() % bits.size()];
    const auto words_max = static_cast<uint32_t>(random() % 12);
    const std::string excerpt = Excerpt(text, {"otter", "\u6c34\u736d", "7"}, words_max);
    EXPECT_TRUE(IsUtf8(excerpt)) << text;
    EXPECT_LE(WordsOf(excerpt), words_max) << text;
    if (words_max > 0 && WordsOf(text) <= words_max && text.find("\u0e49") == std::string::npos &&
        text.size() <= size_t{words_max} * kExcerptWordBytes && WordsOf(text) > 0) {
      EXPECT_EQ(excerpt, text);
    }
  }
}

}  // namespace
}  // namespace tenuto
