#include "human_text.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

TEST(HumanTextTest, CountsHaveSeparators) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(CountText(18446744073709551615ULL), "18,446,744,073,709,551,615");
  EXPECT_EQ(CountText(1, "turn"), "1 turn");
  EXPECT_EQ(CountText(0, "turn"), "0 turns");
  EXPECT_EQ(CountText(1204, "token"), "1,204 tokens");
}

TEST(HumanTextTest, BytesHaveOneDigitAfterThePoint) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1000), "1.0 kB");
  EXPECT_EQ(BytesText(999949), "999.9 kB");
  EXPECT_EQ(BytesText(999960), "1.0 MB");
  EXPECT_EQ(BytesText(27123456), "27.1 MB");
  EXPECT_EQ(BytesText(18446744073709551615ULL), "18446744.1 TB");
}

TEST(HumanTextTest, AgesAreRoundedDown) {
  const int64_t now = 1'700'000'000'000;
  EXPECT_EQ(AgeText(now, now), "just now");
  EXPECT_EQ(AgeText(now + 3'600'000, now), "just now");  // a clock that went back
  EXPECT_EQ(AgeText(now - 60'000, now), "1 min ago");
  EXPECT_EQ(AgeText(now - 59 * 60'000, now), "59 min ago");
  EXPECT_EQ(AgeText(now - 90 * 60'000, now), "1 h ago");
  EXPECT_EQ(AgeText(now - 48 * 3'600'000LL, now), "2 days ago");
}

TEST(HumanTextTest, NothingStoredMovesTheCursor) {
  EXPECT_EQ(TerminalText("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(TerminalText("a\x1b[31mb\rc\x07\x7f"), "a [31mb c  ");
  EXPECT_EQ(TerminalText("a\xC2\x9B"
                         "31m"),
            "a 31m");  // U+009B is a control sequence introducer too
  EXPECT_EQ(TerminalText("\xC2\xA7 \xE2\x82\xAC"), "\xC2\xA7 \xE2\x82\xAC");
  EXPECT_EQ(TerminalText("\xC2"), "\xC2");
  EXPECT_EQ(TerminalText(std::string_view("\0", 1)), " ");
}

TEST(HumanTextTest, NothingStoredTurnsTheTextAround) {
  for (const std::string mark : {"\xE2\x80\xAE", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x81\xA6",
                                 "\xD8\x9C", "\xF3\xA0\x81\xA1"})
    EXPECT_EQ(TerminalText("a" + mark + "b"), "a b");
  const std::string plain =
      "\xE2\x80\x8D \xF0\x9F\x98\x80 \xFF";  // a joiner, an emoji, no character
  EXPECT_EQ(TerminalText(plain), plain);
}

TEST(HumanTextTest, TablesAreAligned) {
  const std::string table = TableText({{"NAME"}, {"SIZE", Align::kRight}, {"NOTE"}},
                                      {{"a", "1", ""}, {"longer", "1,000", "x"}});
  EXPECT_EQ(table,
            "NAME     SIZE  NOTE\n"
            "a           1\n"
            "longer  1,000  x\n");
  EXPECT_EQ(TableText({{"NAME"}}, {}), "NAME\n");
}

}  // namespace
}  // namespace tenuto
