// A stored piece of KV: a header of fixed size, then the payload that an executor exported.
// docs/formats/piece.md has the bytes. Encoding and decoding are pure; decoding trusts nothing and
// never asserts. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"
#include "crypto/hash.h"

namespace tenuto {

inline constexpr size_t kPieceHeaderBytes = 1024;
inline constexpr uint16_t kPieceVersion = 1;

enum class PieceKind : uint8_t {
  kDelta = 1,       // KV of positions [begin, end), follows the piece that ends at begin
  kCheckpoint = 2,  // a merged run of deltas; read like a delta
  kState = 3,  // sliding-window or recurrent state at position end (room is left; not written yet)
};

enum class OwnerScope : uint8_t {
  kSession = 1,
  kTenant = 2,  // a prefix shared inside one tenant (room is left; not written yet)
};

// Who wrote the payload, hence who can read it. The store never looks inside.
enum class PieceCodec : uint16_t {
  kFake = 1,
  kLlamaSeqState = 2,  // libllama's llama_state_seq_get_data of a scratch sequence
};

struct PieceHeader {
  PieceKind kind = PieceKind::kDelta;
  OwnerScope scope = OwnerScope::kSession;
  PieceCodec codec = PieceCodec::kFake;
  TokenRange range;  // positions of the window that the payload covers
  uint32_t payload_bytes = 0;
  int64_t created_unix_ms = 0;
  Digest256 owner;         // OwnerDigest of the session (or tenant)
  Digest256 fingerprint;   // model, executor and configuration: see Engine
  Digest256 prefix_begin;  // chain value at range.begin
  Digest256 prefix_end;    // chain value at range.end
  std::array<uint64_t, kPieceChunksMax>
      chunk_xxh3{};  // of each payload chunk of kPieceChunkBytes; rest zero

  bool operator==(const PieceHeader&) const = default;
};

// Fills chunk_xxh3 and payload_bytes from `payload` and writes the header's bytes.
// REQUIRES: 0 < payload.size() <= kPieceBytesMax, range not empty.
void EncodePieceHeader(PieceHeader& header, std::span<const std::byte> payload,
                       std::span<std::byte, kPieceHeaderBytes> out);

// kCorrupt: magic, checksum, sizes, reserved bytes; kInvalid: a version this build does not know
// (message names both).
Result<PieceHeader> DecodePieceHeader(std::span<const std::byte> bytes);

// Compares each chunk's checksum. kCorrupt names the first bad chunk.
Status CheckPiecePayload(const PieceHeader& header, std::span<const std::byte> payload);

// What a piece must be to be let into an engine; the first difference wins.
struct PieceExpectation {
  OwnerScope scope = OwnerScope::kSession;
  PieceCodec codec = PieceCodec::kFake;
  Digest256 owner;
  Digest256 fingerprint;
  TokenRange range;
  Digest256 prefix_begin;
  Digest256 prefix_end;
};

enum class PieceMismatch : uint8_t { kNone, kOwner, kFingerprint, kPrefix, kVersion };
PieceMismatch ComparePiece(const PieceHeader& header, const PieceExpectation& expected);

}  // namespace tenuto
