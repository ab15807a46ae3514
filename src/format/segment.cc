// The bytes of docs/formats/segment.md.
#include "format/segment.h"

#include <algorithm>
#include <limits>

#include "crypto/hash.h"
#include "format/bytes.h"

namespace tenuto {
namespace {

constexpr std::string_view kMagic = "TNTSEGMT";
constexpr std::string_view kSuffix = ".seg";
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr size_t kIdDigits = 16;

// Offsets of docs/formats/segment.md.
constexpr size_t kVersionAt = 8;
constexpr size_t kAlignAt = 12;
constexpr size_t kFileIdAt = 16;
constexpr size_t kChecksumAt = 48;

Error Corrupt(std::string what) {
  return Error(Code::kCorrupt, "segment header: " + std::move(what));
}

std::string Hex(PayloadFileId file) {
  std::string text(kIdDigits, '0');
  for (size_t i = 0; i < kIdDigits; ++i) {
    text[kIdDigits - 1 - i] = kHexDigits[(file.value >> (4 * i)) & 15];
  }
  return text;
}

}  // namespace

void EncodeSegmentHeader(PayloadFileId file, std::span<std::byte, kSegmentHeaderBytes> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  PutBytes(out, 0, std::as_bytes(std::span(kMagic)));
  PutLe(out, kVersionAt, kSegmentVersion);
  PutLe(out, kAlignAt, static_cast<uint32_t>(kSegmentAlignBytes));
  PutLe(out, kFileIdAt, file.value);
  const Digest256 digest = Sha256Of(out.first(kChecksumAt));
  PutBytes(out, kChecksumAt, std::span(digest.bytes).first(kSegmentHeaderBytes - kChecksumAt));
}

Status CheckSegmentHeader(std::span<const std::byte> bytes, PayloadFileId expected) {
  if (bytes.size() < kSegmentHeaderBytes) {
    return Corrupt("only " + std::to_string(bytes.size()) + " bytes");
  }
  bytes = bytes.first(kSegmentHeaderBytes);
  if (!StartsWith(bytes, kMagic)) return Corrupt("wrong magic");
  const auto version = GetLe<uint16_t>(bytes, kVersionAt);
  if (version != kSegmentVersion) {
    return Error(Code::kInvalid, "segment version " + std::to_string(version) +
                                     ", this build reads version " +
                                     std::to_string(kSegmentVersion));
  }
  const auto file = GetLe<uint64_t>(bytes, kFileIdAt);
  if (file != expected.value) return Corrupt("it is of file " + Hex(PayloadFileId{file}));
  // What a header of this version and file must be is known to the last bit: compare instead of
  // parsing.
  std::array<std::byte, kSegmentHeaderBytes> want;
  EncodeSegmentHeader(expected, want);
  if (!std::equal(want.begin(), want.end(), bytes.begin())) {
    return Corrupt("wrong checksum, alignment or reserved bytes");
  }
  return Ok();
}

std::optional<uint64_t> AlignSegmentOffset(uint64_t offset) {
  if (offset > std::numeric_limits<uint64_t>::max() - (kSegmentAlignBytes - 1)) return std::nullopt;
  return (offset + kSegmentAlignBytes - 1) / kSegmentAlignBytes * kSegmentAlignBytes;
}

Status CheckSegmentLocation(const PayloadLocation& location, uint64_t file_bytes) {
  if (location.offset == 0 || location.offset % kSegmentAlignBytes != 0 || location.bytes == 0) {
    return Error(Code::kCorrupt, "no record can lie at offset " + std::to_string(location.offset) +
                                     " with " + std::to_string(location.bytes) + " bytes");
  }
  if (location.offset > file_bytes || location.bytes > file_bytes - location.offset) {
    return Error(Code::kCorrupt, "segment " + Hex(location.file) + " ends at " +
                                     std::to_string(file_bytes) + ", the record is at " +
                                     std::to_string(location.offset) + " with " +
                                     std::to_string(location.bytes) + " bytes");
  }
  return Ok();
}

std::string SegmentFolderName(PayloadFileId file) {
  return Hex(file).substr(0, 1);
}

std::string SegmentFileName(PayloadFileId file) {
  return Hex(file).append(kSuffix);
}

std::optional<PayloadFileId> ParseSegmentFileName(std::string_view name) {
  if (name.size() != kIdDigits + kSuffix.size() || !name.ends_with(kSuffix)) return std::nullopt;
  PayloadFileId file;
  for (const char c : name.substr(0, kIdDigits)) {
    const size_t digit = kHexDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    file.value = (file.value << 4) | digit;
  }
  if (file.value == 0) return std::nullopt;
  return file;
}

}  // namespace tenuto
