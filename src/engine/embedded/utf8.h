// Turns the raw bytes of tokens into whole UTF-8. A token may end inside a character, and a model
// may produce bytes that are no UTF-8 at all; what leaves the engine is always valid. Pure
// functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenuto {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Appends the whole characters of `bytes` to `out`; each maximal part that can't begin a character
// becomes one U+FFFD. Returns the bytes consumed: all, except an unfinished character at the end
// (at most 3 bytes) that later bytes may still complete. How a text is cut into calls makes no
// difference to what comes out.
size_t AppendWholeUtf8(std::string_view bytes, std::string& out);

// The same for the last bytes of a text: an unfinished character becomes U+FFFD.
void AppendLastUtf8(std::string_view bytes, std::string& out);

// 10xxxxxx: can't begin a character.
inline bool IsUtf8Continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u;
}

}  // namespace tenuto
