// The bytes of docs/formats/piece.md.
#include "format/piece.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"
#include "format/bytes.h"
#include "format/checksum.h"

namespace tenuto {
namespace {

constexpr std::string_view kMagic = "TNTPIECE";

// Offsets of docs/formats/piece.md.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 8;
constexpr size_t kHeaderBytesAt = 10;
constexpr size_t kKindAt = 12;
constexpr size_t kScopeAt = 13;
constexpr size_t kCodecAt = 14;
constexpr size_t kBeginAt = 16;
constexpr size_t kEndAt = 20;
constexpr size_t kPayloadBytesAt = 24;
constexpr size_t kChunkBytesAt = 28;
constexpr size_t kCreatedAt = 32;
constexpr size_t kReservedAt = 40;
constexpr size_t kOwnerAt = 48;
constexpr size_t kFingerprintAt = 80;
constexpr size_t kPrefixBeginAt = 112;
constexpr size_t kPrefixEndAt = 144;
constexpr size_t kChunksAt = 176;
constexpr size_t kSealingAt = 240;  // from here to the checksum all is zero in version 1
constexpr size_t kChecksumAt = 992;

static_assert(kReservedAt + 8 == kOwnerAt);
static_assert(kChunksAt + kPieceChunksMax * sizeof(uint64_t) == kSealingAt);
static_assert(kChecksumAt + sizeof(Digest256) == kPieceHeaderBytes);
static_assert(kPieceBytesMax == kPieceChunksMax * kPieceChunkBytes);

size_t ChunkCount(size_t payload_bytes) {
  return (payload_bytes + kPieceChunkBytes - 1) / kPieceChunkBytes;
}

std::span<const std::byte> Chunk(std::span<const std::byte> payload, size_t index) {
  const size_t begin = index * kPieceChunkBytes;
  return payload.subspan(begin, std::min(kPieceChunkBytes, payload.size() - begin));
}

Digest256 GetDigest(std::span<const std::byte> bytes, size_t offset) {
  Digest256 digest;
  const auto from = bytes.subspan(offset, digest.bytes.size());
  std::copy(from.begin(), from.end(), digest.bytes.begin());
  return digest;
}

Error Corrupt(std::string what) {
  return Error(Code::kCorrupt, "piece header: " + std::move(what));
}

// Version 1 writes only these; the other values of the enums are for later versions.
bool IsWrittenKind(PieceKind kind) {
  return kind == PieceKind::kDelta || kind == PieceKind::kCheckpoint;
}

// Fields whose value alone makes a header invalid.
Status CheckFields(const PieceHeader& header) {
  if (!IsWrittenKind(header.kind)) return Corrupt("unknown kind");
  if (header.scope != OwnerScope::kSession) return Corrupt("unknown owner scope");
  if (header.codec == PieceCodec{}) return Corrupt("no codec");
  if (header.range.begin < 0 || header.range.end <= header.range.begin) {
    return Corrupt("impossible range of positions");
  }
  if (header.payload_bytes == 0 || header.payload_bytes > kPieceBytesMax) {
    return Corrupt("impossible payload size " + std::to_string(header.payload_bytes));
  }
  for (size_t i = ChunkCount(header.payload_bytes); i < kPieceChunksMax; ++i) {
    if (header.chunk_xxh3[i] != 0) return Corrupt("checksum of a chunk that is not there");
  }
  return Ok();
}

}  // namespace

void EncodePieceHeader(PieceHeader& header, std::span<const std::byte> payload,
                       std::span<std::byte, kPieceHeaderBytes> out) {
  TENUTO_CHECK(!payload.empty() && payload.size() <= kPieceBytesMax);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.chunk_xxh3 = {};
  for (size_t i = 0; i < ChunkCount(payload.size()); ++i) {
    header.chunk_xxh3[i] = ChecksumOf(Chunk(payload, i));
  }
  TENUTO_CHECK(CheckFields(header).ok());

  std::fill(out.begin(), out.end(), std::byte{0});
  PutBytes(out, kMagicAt, std::as_bytes(std::span(kMagic)));
  PutLe(out, kVersionAt, kPieceVersion);
  PutLe(out, kHeaderBytesAt, static_cast<uint16_t>(kPieceHeaderBytes));
  PutLe(out, kKindAt, static_cast<uint8_t>(header.kind));
  PutLe(out, kScopeAt, static_cast<uint8_t>(header.scope));
  PutLe(out, kCodecAt, static_cast<uint16_t>(header.codec));
  PutLe(out, kBeginAt, header.range.begin);
  PutLe(out, kEndAt, header.range.end);
  PutLe(out, kPayloadBytesAt, header.payload_bytes);
  PutLe(out, kChunkBytesAt, static_cast<uint32_t>(kPieceChunkBytes));
  PutLe(out, kCreatedAt, header.created_unix_ms);
  PutBytes(out, kOwnerAt, header.owner.bytes);
  PutBytes(out, kFingerprintAt, header.fingerprint.bytes);
  PutBytes(out, kPrefixBeginAt, header.prefix_begin.bytes);
  PutBytes(out, kPrefixEndAt, header.prefix_end.bytes);
  for (size_t i = 0; i < kPieceChunksMax; ++i) {
    PutLe(out, kChunksAt + i * sizeof(uint64_t), header.chunk_xxh3[i]);
  }
  PutBytes(out, kChecksumAt, Sha256Of(out.first(kChecksumAt)).bytes);
}

Result<PieceHeader> DecodePieceHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kPieceHeaderBytes) {
    return Corrupt("only " + std::to_string(bytes.size()) + " bytes");
  }
  bytes = bytes.first(kPieceHeaderBytes);
  if (!StartsWith(bytes, kMagic)) return Corrupt("wrong magic");
  // Before the checksum, whose place only this version knows.
  const auto version = GetLe<uint16_t>(bytes, kVersionAt);
  if (version != kPieceVersion) {
    return Error(Code::kInvalid, "piece version " + std::to_string(version) +
                                     ", this build reads version " + std::to_string(kPieceVersion));
  }
  if (Sha256Of(bytes.first(kChecksumAt)) != GetDigest(bytes, kChecksumAt)) {
    return Corrupt("wrong checksum");
  }
  if (GetLe<uint16_t>(bytes, kHeaderBytesAt) != kPieceHeaderBytes) {
    return Corrupt("wrong header size");
  }
  if (GetLe<uint32_t>(bytes, kChunkBytesAt) != kPieceChunkBytes) return Corrupt("wrong chunk size");
  if (!AllZero(bytes.subspan(kReservedAt, kOwnerAt - kReservedAt)) ||
      !AllZero(bytes.subspan(kSealingAt, kChecksumAt - kSealingAt))) {
    return Corrupt("reserved bytes are not zero");
  }

  PieceHeader header;
  header.kind = static_cast<PieceKind>(GetLe<uint8_t>(bytes, kKindAt));
  header.scope = static_cast<OwnerScope>(GetLe<uint8_t>(bytes, kScopeAt));
  header.codec = static_cast<PieceCodec>(GetLe<uint16_t>(bytes, kCodecAt));
  header.range = {.begin = GetLe<int32_t>(bytes, kBeginAt), .end = GetLe<int32_t>(bytes, kEndAt)};
  header.payload_bytes = GetLe<uint32_t>(bytes, kPayloadBytesAt);
  header.created_unix_ms = GetLe<int64_t>(bytes, kCreatedAt);
  header.owner = GetDigest(bytes, kOwnerAt);
  header.fingerprint = GetDigest(bytes, kFingerprintAt);
  header.prefix_begin = GetDigest(bytes, kPrefixBeginAt);
  header.prefix_end = GetDigest(bytes, kPrefixEndAt);
  for (size_t i = 0; i < kPieceChunksMax; ++i) {
    header.chunk_xxh3[i] = GetLe<uint64_t>(bytes, kChunksAt + i * sizeof(uint64_t));
  }
  TENUTO_TRY(CheckFields(header));
  return header;
}

Status CheckPiecePayload(const PieceHeader& header, std::span<const std::byte> payload) {
  // A header that was made up, not decoded, may claim more than the table holds.
  if (payload.size() != header.payload_bytes || payload.size() > kPieceBytesMax) {
    return Error(Code::kCorrupt, "piece payload: " + std::to_string(payload.size()) +
                                     " bytes, the header says " +
                                     std::to_string(header.payload_bytes));
  }
  for (size_t i = 0; i < ChunkCount(payload.size()); ++i) {
    if (ChecksumOf(Chunk(payload, i)) != header.chunk_xxh3[i]) {
      return Error(Code::kCorrupt, "piece payload: wrong checksum of chunk " + std::to_string(i));
    }
  }
  return Ok();
}

PieceMismatch ComparePiece(const PieceHeader& header, const PieceExpectation& expected) {
  if (header.scope != expected.scope || header.owner != expected.owner) {
    return PieceMismatch::kOwner;
  }
  if (header.fingerprint != expected.fingerprint) return PieceMismatch::kFingerprint;
  // Another codec is another version of the payload, the one thing about it that the header tells.
  if (header.codec != expected.codec) return PieceMismatch::kVersion;
  if (header.range != expected.range || header.prefix_begin != expected.prefix_begin ||
      header.prefix_end != expected.prefix_end) {
    return PieceMismatch::kPrefix;
  }
  return PieceMismatch::kNone;
}

}  // namespace tenuto
