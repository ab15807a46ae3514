#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenuto {
namespace {

std::string Whole(std::string_view bytes) {
  std::string out;
  AppendLastUtf8(bytes, out);
  return out;
}

// Feeds `bytes` in pieces of `step` and keeps what is unfinished for the next piece.
std::string InPieces(std::string_view bytes, size_t step) {
  std::string out;
  std::string held;
  for (size_t at = 0; at < bytes.size(); at += step) {
    held.append(bytes.substr(at, step));
    held.erase(0, AppendWholeUtf8(held, out));
    EXPECT_LE(held.size(), 3u);
  }
  AppendLastUtf8(held, out);
  return out;
}

TEST(Utf8, ValidTextPassesUnchanged) {
  const std::string text = "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8E\xB5 end";
  EXPECT_EQ(Whole(text), text);
  for (size_t step = 1; step <= text.size(); ++step)
    EXPECT_EQ(InPieces(text, step), text) << step;
}

TEST(Utf8, HoldsAnUnfinishedCharacter) {
  std::string out;
  EXPECT_EQ(AppendWholeUtf8("a\xE2\x82", out), 1u);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(AppendWholeUtf8("\xE2\x82\xAC", out), 3u);
  EXPECT_EQ(out, "a\xE2\x82\xAC");
}

TEST(Utf8, InvalidBytesBecomeOneReplacementPerMaximalPart) {
  EXPECT_EQ(Whole("\xFF"), "\xEF\xBF\xBD");
  EXPECT_EQ(Whole("\x80x"), "\xEF\xBF\xBDx");
  EXPECT_EQ(Whole("\xE2\x82x"), "\xEF\xBF\xBDx");            // one for both bytes
  EXPECT_EQ(Whole("\xF0\x9F\x8E"), "\xEF\xBF\xBD");          // cut at the end
  EXPECT_EQ(Whole("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // overlong
  EXPECT_EQ(Whole("\xED\xA0\x80").size(), 9u);               // surrogate: three
  EXPECT_EQ(Whole("\xF4\x90\x80\x80").size(), 12u);          // past U+10FFFF: four
  EXPECT_EQ(Whole("\xE0\x80\x80").size(), 9u);               // overlong
  EXPECT_EQ(Whole("\xF0\x80\x80\x80").size(), 12u);
  EXPECT_EQ(Whole("\xED\x9F\xBF\xEE\x80\x80"),
            "\xED\x9F\xBF\xEE\x80\x80");  // both sides of the surrogates
}

TEST(Utf8, CuttingMakesNoDifference) {
  // Every string of up to five bytes over an alphabet with one of each kind of byte.
  const std::string alphabet = "a\x80\xA0\xC3\xE0\xE2\xED\xF0\xF4\xFF";
  for (size_t n = 0; n < 100'000; ++n) {
    std::string bytes;
    for (size_t rest = n, i = 0; i < 5; ++i, rest /= 10)
      bytes.push_back(alphabet[rest % 10]);
    const std::string whole = Whole(bytes);
    ASSERT_EQ(InPieces(bytes, 1), whole) << n;
    ASSERT_EQ(InPieces(bytes, 2), whole) << n;
    std::string again;
    ASSERT_EQ(AppendWholeUtf8(whole, again), whole.size()) << "output is valid";
    ASSERT_EQ(again, whole);
  }
}

TEST(Utf8, LengthAndCodePointOfACharacter) {
  const std::vector<std::pair<std::string, uint32_t>> characters = {{"a", 'a'},
                                                                    {std::string(1, '\0'), 0},
                                                                    {"\xC2\x80", 0x80},
                                                                    {"\xDF\xBF", 0x7FF},
                                                                    {"\xE0\xA0\x80", 0x800},
                                                                    {"\xED\x9F\xBF", 0xD7FF},
                                                                    {"\xEE\x80\x80", 0xE000},
                                                                    {"\xF0\x90\x80\x80", 0x10000},
                                                                    {"\xF4\x8F\xBF\xBF", 0x10FFFF}};
  for (const auto& [bytes, code_point] : characters) {
    EXPECT_EQ(Utf8Length(bytes + "x"), bytes.size());
    EXPECT_EQ(CodePointOf(bytes), code_point);
    EXPECT_TRUE(IsUtf8(bytes + bytes));
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      EXPECT_EQ(Utf8Length(bytes.substr(0, cut)), 0U);
      EXPECT_EQ(Utf8Length(bytes.substr(cut)), 0U);
      EXPECT_FALSE(IsUtf8("x" + bytes.substr(0, cut)));
    }
  }
  EXPECT_EQ(Utf8Length(""), 0U);
  EXPECT_TRUE(IsUtf8(""));
  for (const char* bad : {"\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"})
    EXPECT_EQ(Utf8Length(bad), 0U);
}

}  // namespace
}  // namespace tenuto
