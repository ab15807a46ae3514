// Little-endian integers in byte spans, one byte at a time: no struct is ever laid over stored
// bytes, so neither padding nor the machine's byte order can leak into a format. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.h"

namespace tenuto {

// REQUIRES: offset + sizeof(T) <= out.size().
template <typename T>
void PutLe(std::span<std::byte> out, size_t offset, T value) {
  static_assert(std::is_integral_v<T>);
  TENUTO_CHECK(offset <= out.size() && sizeof(T) <= out.size() - offset);
  auto bits = static_cast<uint64_t>(value);
  for (size_t i = 0; i < sizeof(T); ++i) {
    out[offset + i] = static_cast<std::byte>(bits & 0xff);
    bits >>= 8;
  }
}

// REQUIRES: offset + sizeof(T) <= in.size().
template <typename T>
T GetLe(std::span<const std::byte> in, size_t offset) {
  static_assert(std::is_integral_v<T>);
  TENUTO_CHECK(offset <= in.size() && sizeof(T) <= in.size() - offset);
  uint64_t bits = 0;
  for (size_t i = sizeof(T); i-- > 0;)
    bits = (bits << 8) | std::to_integer<uint64_t>(in[offset + i]);
  return static_cast<T>(bits);
}

// REQUIRES: offset + from.size() <= out.size().
inline void PutBytes(std::span<std::byte> out, size_t offset, std::span<const std::byte> from) {
  TENUTO_CHECK(offset <= out.size() && from.size() <= out.size() - offset);
  std::copy(from.begin(), from.end(), out.begin() + static_cast<std::ptrdiff_t>(offset));
}

inline bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

inline bool StartsWith(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(), [](char c, std::byte b) {
           return static_cast<std::byte>(static_cast<unsigned char>(c)) == b;
         });
}

}  // namespace tenuto
