// The head of a request, checked more strictly than Beast does: what two parsers could read in two
// ways is refused, so that nothing can be smuggled past a proxy. Pure functions over bytes from the
// wire; nothing here asserts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/types.h"
#include "serve/settings.h"

namespace tenuto {

struct HeadError {
  int status = 400;  // 400, 413, 417, 431, 501, 505
  std::string message;
};

// Where the head ends in `bytes`, just behind the empty line; nullopt: not all there yet. An error
// as soon as a line ends in a bare LF or more than `header_bytes_max` bytes came without an end.
struct HeadScan {
  std::optional<size_t> end;
  std::optional<HeadError> error;
};
HeadScan ScanHead(std::string_view bytes, size_t scanned_before, size_t header_bytes_max);

struct RequestHead {
  HttpRequest request;  // no body yet
  bool keep_alive = true;
  bool expects_continue = false;
  bool chunked = false;
  std::optional<uint64_t> content_length;
};

// `head` as ScanHead found it, the empty line included. Sets `error` and returns nullopt when it is
// refused.
std::optional<RequestHead> ParseHead(std::string_view head, const HttpLimits& limits,
                                     HeadError& error);

// "localhost:8585" -> "localhost", "[::1]:80" -> "[::1]", lower case; nullopt when it is no
// host[:port].
std::optional<std::string> HostOf(std::string_view host_header);

}  // namespace tenuto
