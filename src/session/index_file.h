// The bytes around a recall index in its file: what must agree with the token log, and a seal over
// all. Pure functions; docs/formats/recall_index.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/result.h"
#include "crypto/hash.h"

namespace tenuto {

inline constexpr uint16_t kIndexFileVersion = 2;
inline constexpr size_t kIndexFileBytesMax = 1024 * kMiB;
inline constexpr size_t kIndexFileHeaderBytes = 80;
inline constexpr size_t kIndexFileSealBytes = 32;
inline constexpr size_t kIndexFileTurnBytesMax = 64;

struct IndexFileHeader {
  int64_t session_id = 0;
  Digest256 owner;
  uint64_t lines = 0;
  size_t last_turn_bytes = 0;
  size_t index_bytes = 0;

  size_t FileBytes() const {
    return kIndexFileHeaderBytes + last_turn_bytes + index_bytes + kIndexFileSealBytes;
  }
};

std::string IndexFileName(int64_t session_id);
// Of the file; nothing when it is not named as an index is.
std::optional<int64_t> SessionOfIndexFile(std::string_view name);

// REQUIRES: out.size() == kIndexFileHeaderBytes; last_turn_bytes <= kIndexFileTurnBytesMax.
void EncodeIndexFileHeader(const IndexFileHeader& header, std::span<std::byte> out);
// kCorrupt; kInvalid: another version. What it returns fits the size of the file, and is not known
// to be undamaged before the seal is compared.
Result<IndexFileHeader> DecodeIndexFileHeader(std::span<const std::byte> in, uint64_t file_bytes);

// Covers the index through its own checksum. REQUIRES: index.size() >= kChecksumBytes.
Digest256 IndexFileSeal(std::span<const std::byte> header, std::span<const std::byte> last_turn,
                        std::span<const std::byte> index);

}  // namespace tenuto
