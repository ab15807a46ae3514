#include "recall/lex.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace tenuto {
namespace {

std::vector<std::string> Folded(std::string_view text) {
  std::vector<std::string> found;
  const std::string clean = CleanText(text, 10000);
  for (const Piece& piece : LexText(clean))
    found.push_back(piece.folded);
  return found;
}

using Texts = std::vector<std::string>;

TEST(LexTest, InvisibleCharactersAreGone) {
  // Zero-width space, joiner, left-to-right override, soft hyphen, byte order mark.
  EXPECT_EQ(CleanText("ot\u200bter \u202erow\u202c bo\u00adat\ufeff", 1000), "otter row boat");
}

TEST(LexTest, CompatibilityFormsMeet) {
  EXPECT_EQ(CleanText("\uff21\uff22\uff11 \ufb01sh", 1000), "AB1 fish");
  EXPECT_EQ(CleanText("Jose\u0301", 1000), CleanText("Jos\u00e9", 1000));
}

TEST(LexTest, BrokenBytesBecomeText) {
  const std::string clean = CleanText("a\xff\xc3 b\x01", 100);
  EXPECT_TRUE(IsUtf8(clean));
  EXPECT_NE(clean.find('b'), std::string::npos);
  EXPECT_EQ(clean.find('\x01'), std::string::npos);
}

TEST(LexTest, InputIsBoundedAtWholeCharacters) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "\u00e4";
  EXPECT_EQ(CleanText(text, 101).size(), 100U);
  EXPECT_LE(CleanText("\ufdfa\ufdfa\ufdfa", 9).size(), 36U);
  EXPECT_EQ(CleanText("", 10), "");
}

TEST(LexTest, WordsNumbersAndMarks) {
  EXPECT_EQ(Folded("Gudrun's Code: 4711!"), (Texts{"gudrun", "'", "s", "code", ":", "4711", "!"}));
  EXPECT_EQ(Folded("parse_ledger x86 3rd _a_"), (Texts{"parse_ledger", "x86", "3rd", "a"}));
}

TEST(LexTest, ThousandsAreOneNumber) {
  EXPECT_EQ(Folded("1,250 and 3.500.000 and 3.50"),
            (Texts{"1250", "and", "3500000", "and", "3", ".", "50"}));
  EXPECT_EQ(Folded("2024.05.03"), (Texts{"2024", ".", "05", ".", "03"}));
  EXPECT_EQ(Folded("\u0e51\u0e52"), (Texts{"12"}));  // Thai digits
}

TEST(LexTest, ScriptsWithoutSpacesAreRuns) {
  const std::string clean = CleanText("\u738b\u82b3 likes \u0e1b\u0e25\u0e32 2024\u5e74", 1000);
  const std::vector<Piece> pieces = LexText(clean);
  ASSERT_EQ(pieces.size(), 5U);
  EXPECT_EQ(pieces[0].kind, LexKind::kCjk);
  EXPECT_EQ(pieces[1].kind, LexKind::kWord);
  EXPECT_EQ(pieces[2].kind, LexKind::kDense);
  EXPECT_EQ(pieces[3].kind, LexKind::kNumber);
  EXPECT_EQ(pieces[4].kind, LexKind::kCjk);
  EXPECT_EQ(clean.substr(pieces[2].begin, pieces[2].end - pieces[2].begin), "\u0e1b\u0e25\u0e32");
}

TEST(LexTest, MarksAndCase) {
  EXPECT_EQ(WithoutMarks("j\u00fcrgen"), "jurgen");
  EXPECT_EQ(WithoutMarks("plain"), "plain");
  EXPECT_EQ(FoldCase("\u00c4PFEL"), "\u00e4pfel");
}

TEST(LexTest, HundredKilobytesOfNothing) {
  EXPECT_TRUE(LexText(CleanText(std::string(102400, ' '), 102400)).empty());
  EXPECT_EQ(LexText(CleanText(std::string(1000, '*'), 1000)).size(), 1000U);
}

}  // namespace
}  // namespace tenuto
