// Any bytes as a piece: refused, or a header that encodes back to the very same bytes. Each input
// is tried as it is and once more with a fitting magic, version and checksum, which no fuzzer would
// find.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "format/bytes.h"
#include "format/piece.h"

namespace tenuto {
namespace {

constexpr size_t kChecksumAt = 992;
constexpr size_t kFixedBytes = 12;  // magic, version, header_bytes

void TryBytes(std::span<const std::byte> bytes) {
  auto header = DecodePieceHeader(bytes);
  if (!header.ok()) {
    const Code code = header.error().code();
    TENUTO_CHECK(code == Code::kCorrupt || code == Code::kInvalid);
    return;
  }
  TENUTO_CHECK(header->payload_bytes > 0 && header->payload_bytes <= kPieceBytesMax);
  TENUTO_CHECK(header->range.begin >= 0 && header->range.size() > 0);

  // The rest of the input is a payload that nearly never fits: the check must answer, whatever the
  // sizes.
  const auto rest = bytes.subspan(kPieceHeaderBytes);
  const bool fits = CheckPiecePayload(*header, rest).ok();
  TENUTO_CHECK(!fits || rest.size() == header->payload_bytes);

  // Canonical: with the payload's checksums put back the encoder writes what was read.
  PieceHeader again = *header;
  std::array<std::byte, kPieceHeaderBytes> encoded;
  static const std::vector<std::byte> kPayload(kPieceBytesMax);
  EncodePieceHeader(again, std::span(kPayload).first(header->payload_bytes), encoded);
  const auto read_back = DecodePieceHeader(encoded);
  TENUTO_CHECK(read_back.ok());
  again.chunk_xxh3 = header->chunk_xxh3;
  TENUTO_CHECK(again == *header);
}

void TryRepaired(std::span<const std::byte> bytes) {
  static const auto kGood = [] {
    PieceHeader header;
    header.range = {.begin = 0, .end = 1};
    std::array<std::byte, kPieceHeaderBytes> encoded;
    EncodePieceHeader(header, std::array{std::byte{1}}, encoded);
    return encoded;
  }();
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  if (repaired.size() < kPieceHeaderBytes) repaired.resize(kPieceHeaderBytes);
  std::copy_n(kGood.begin(), kFixedBytes, repaired.begin());
  PutBytes(repaired, kChecksumAt, Sha256Of(std::span(repaired).first(kChecksumAt)).bytes);
  TryBytes(repaired);
}

}  // namespace
}  // namespace tenuto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  tenuto::TryBytes(bytes);
  tenuto::TryRepaired(bytes);
  return 0;
}
