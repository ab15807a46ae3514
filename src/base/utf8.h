// What UTF-8 is (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF), in one place:
// is a text well-formed, and how bytes that may not be become text that is. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenuto {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Bytes of the well-formed character at the front of `text`, 0 when there is none.
size_t Utf8Length(std::string_view text);
// REQUIRES: `character` is one well-formed character.
uint32_t CodePointOf(std::string_view character);
bool IsUtf8(std::string_view text);

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
