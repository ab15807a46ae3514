// Bytes of an answer: its head, and the chunks of a streamed body. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/http/types.h"

namespace tenuto {

struct ResponseFraming {
  enum Kind : uint8_t { kLength, kChunked, kUntilClose };
  Kind kind = kLength;
  bool keep_alive = true;
  int64_t unix_seconds = 0;  // for Date
};

// Status line and header fields with the empty line; no body.
std::string EncodeResponseHead(const HttpResponse& response, const ResponseFraming& framing);

// Appends `bytes` as one chunk; nothing when empty.
void AppendChunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace tenuto
