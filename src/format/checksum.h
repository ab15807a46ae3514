// A checksum for bytes that are read often: XXH3-64, at memory speed. It finds torn and rotten
// bytes; it is no MAC, and nothing may be told apart by it that someone could make alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenuto {

inline constexpr size_t kChecksumBytes = sizeof(uint64_t);  // where stored: little endian

uint64_t ChecksumOf(std::span<const std::byte> bytes);

}  // namespace tenuto
