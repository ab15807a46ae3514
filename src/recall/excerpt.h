// What of a long turn is quoted. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenuto {

// Half-open range of bytes [begin, end).
struct TextRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const TextRange&) const = default;
};

// The part of `text` that is quoted where the whole would be too long: whole sentences around the
// place where most of `terms` (as RecallHit::terms has them: stems) are near each other, from the
// start where none is. The whole text where it fits.
//
// At most `words_max` words, numbers and characters of scripts without spaces, and at most
// kExcerptWordBytes * words_max bytes, whatever the text is made of. Cut between sentences where
// one fits, between words where there are any, and always between characters: valid UTF-8 in gives
// valid UTF-8 out. Takes time in proportion to the text; of a text above kTurnTextBytesMax only the
// front is looked at.
inline constexpr uint32_t kExcerptWordBytes = 16;
TextRange ChooseExcerpt(std::string_view text, std::span<const std::string> terms,
                        uint32_t words_max);

}  // namespace tenuto
