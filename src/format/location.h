// Where a stored piece lies: what a piece row of the token log holds and a payload store reads.
#pragma once

#include <compare>
#include <cstdint>

namespace tenuto {

// Names a file of a payload store: random, never made from client text. 0 is never one.
struct PayloadFileId {
  uint64_t value = 0;
  auto operator<=>(const PayloadFileId&) const = default;
};

struct PayloadLocation {
  PayloadFileId file;
  uint64_t offset = 0;
  uint64_t bytes = 0;  // header and payload together
  auto operator<=>(const PayloadLocation&) const = default;
};

}  // namespace tenuto
