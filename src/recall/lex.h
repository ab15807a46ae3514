// Text made comparable and cut into pieces: words, numbers, runs of scripts without spaces, marks.
// Pure functions; what a piece means is decided by text.h and dates.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenuto {

enum class LexKind : uint8_t {
  kWord,    // letters, with digits and underscores: "otter", "parseLedger", "x86"
  kNumber,  // digits only, of any script, as ASCII; "1,250" is 1250
  kCjk,     // a run of Han, Kana or Hangul
  kDense,   // a run of a script without spaces whose words need a dictionary: Thai, Lao, Khmer
  kMark,    // one character of punctuation
};

struct Piece {
  LexKind kind = LexKind::kMark;
  uint32_t begin = 0;  // bytes [begin, end) of the clean text
  uint32_t end = 0;
  std::string folded;  // case folded
};

// NFKC, without zero-width, bidirectional and other invisible characters, control characters as
// spaces, bytes that are no UTF-8 as U+FFFD. Only the first `bytes_max` bytes are looked at, and
// what is returned has at most four times as many.
std::string CleanText(std::string_view text, size_t bytes_max);

// REQUIRES: `clean` came from CleanText.
std::vector<Piece> LexText(std::string_view clean);

// Case folded by Unicode's simple folding.
std::string FoldCase(std::string_view clean);
// Without accents: for words of scripts in which an accent is often left out.
std::string WithoutMarks(std::string_view word);

// Han, Hiragana, Katakana or Hangul.
bool IsCjk(uint32_t code_point);
bool IsHan(uint32_t code_point);
bool IsHiragana(uint32_t code_point);

// An ASCII digit.
constexpr bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// The code points of a well-formed text with where each begins.
struct Character {
  uint32_t code_point = 0;
  uint32_t begin = 0;
};
std::vector<Character> CharactersOf(std::string_view text);

// The first characters of `text` that fit into `bytes_max`.
std::string_view ClipUtf8(std::string_view text, size_t bytes_max);

}  // namespace tenuto
