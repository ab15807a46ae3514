// The header of a segment file and the rule for where records lie. docs/formats/segment.md has the
// bytes. Pure; decoding trusts nothing and never asserts. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/location.h"

namespace tenuto {

inline constexpr size_t kSegmentHeaderBytes = 64;
inline constexpr uint16_t kSegmentVersion = 1;
// Records start at multiples of this, so that a disk block with an acknowledged record is never
// written again.
inline constexpr uint64_t kSegmentAlignBytes = 4096;

void EncodeSegmentHeader(PayloadFileId file, std::span<std::byte, kSegmentHeaderBytes> out);

// kCorrupt: too short, magic, checksum, reserved bytes, or the header of another file than
// `expected`; kInvalid: a version this build does not know (message names both).
Status CheckSegmentHeader(std::span<const std::byte> bytes, PayloadFileId expected);

// The first multiple of kSegmentAlignBytes at or after `offset`; nullopt when there is none in 64
// bits.
std::optional<uint64_t> AlignSegmentOffset(uint64_t offset);

// kCorrupt unless a record can lie there in a file of `file_bytes` bytes.
Status CheckSegmentLocation(const PayloadLocation& location, uint64_t file_bytes);

// "a" and "a3b4c5d6e7f80912.seg".
std::string SegmentFolderName(PayloadFileId file);
std::string SegmentFileName(PayloadFileId file);
// nullopt for whatever SegmentFileName can't have returned.
std::optional<PayloadFileId> ParseSegmentFileName(std::string_view name);

}  // namespace tenuto
