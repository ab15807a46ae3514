// Sets of numbers as bits, 64 to a word. Pure.
#pragma once

#include <cstdint>

namespace tenuto {

inline constexpr uint32_t kWordBits = 64;

// How many bits of each byte are set, in that byte.
constexpr uint64_t CountInBytes(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  return (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
}

// Inline, for there is no instruction for it on every processor that we run on.
constexpr uint32_t CountBits(uint64_t bits) {
  return static_cast<uint32_t>(CountInBytes(bits) * 0x0101010101010101u >> 56);
}

}  // namespace tenuto
