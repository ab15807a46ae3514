#include "format/piece.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "format/bytes.h"

namespace tenuto {
namespace {

using HeaderBytes = std::array<std::byte, kPieceHeaderBytes>;

std::vector<std::byte> Payload(size_t bytes, unsigned salt = 1) {
  std::vector<std::byte> payload(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    payload[i] = static_cast<std::byte>((static_cast<uint32_t>(i) + salt) * 2654435761U >> 24);
  }
  return payload;
}

PieceHeader ExampleHeader() {
  PieceHeader header;
  header.codec = PieceCodec::kLlamaSeqState;
  header.range = {.begin = 3, .end = 19};
  header.created_unix_ms = 1'700'000'000'000;
  header.owner = Sha256Of("owner");
  header.fingerprint = Sha256Of("fingerprint");
  header.prefix_begin = Sha256Of("begin");
  header.prefix_end = Sha256Of("end");
  return header;
}

HeaderBytes Encode(PieceHeader& header, std::span<const std::byte> payload) {
  HeaderBytes bytes;
  EncodePieceHeader(header, payload, bytes);
  return bytes;
}

// Makes the checksum fit again, so that what it would hide is reached.
void FixChecksum(HeaderBytes& bytes) {
  PutBytes(bytes, 992, Sha256Of(std::span(bytes).first(992)).bytes);
}

TEST(PieceTest, DecodesWhatItEncoded) {
  const size_t sizes[] = {1,
                          kPieceChunkBytes - 1,
                          kPieceChunkBytes,
                          kPieceChunkBytes + 1,
                          3 * kPieceChunkBytes - 7,
                          kPieceBytesMax};
  for (const size_t size : sizes) {
    PieceHeader header = ExampleHeader();
    const auto payload = Payload(size);
    const HeaderBytes bytes = Encode(header, payload);
    EXPECT_EQ(header.payload_bytes, size);
    const auto decoded = DecodePieceHeader(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message();
    EXPECT_EQ(*decoded, header);
    EXPECT_TRUE(CheckPiecePayload(*decoded, payload).ok());
  }
}

TEST(PieceTest, EveryByteOfTheHeaderIsProtected) {
  PieceHeader header = ExampleHeader();
  const HeaderBytes good = Encode(header, Payload(1000));
  for (size_t at = 0; at < good.size(); ++at) {
    for (const unsigned mask : {0x01U, 0x80U, 0xffU}) {
      HeaderBytes bad = good;
      bad[at] ^= static_cast<std::byte>(mask);
      const auto decoded = DecodePieceHeader(bad);
      ASSERT_FALSE(decoded.ok()) << "byte " << at << " mask " << mask;
      const bool in_version = at == 8 || at == 9;
      EXPECT_EQ(decoded.error().code(), in_version ? Code::kInvalid : Code::kCorrupt) << at;
    }
  }
}

TEST(PieceTest, EveryTruncationIsCorrupt) {
  PieceHeader header = ExampleHeader();
  const HeaderBytes good = Encode(header, Payload(1000));
  for (size_t size = 0; size < good.size(); ++size) {
    const auto decoded = DecodePieceHeader(std::span(good).first(size));
    ASSERT_FALSE(decoded.ok()) << size;
    EXPECT_EQ(decoded.error().code(), Code::kCorrupt);
  }
}

TEST(PieceTest, WhatFollowsTheHeaderIsIgnored) {
  PieceHeader header = ExampleHeader();
  const HeaderBytes good = Encode(header, Payload(10));
  std::vector<std::byte> longer(good.begin(), good.end());
  longer.resize(longer.size() + 100, std::byte{0xee});
  const auto decoded = DecodePieceHeader(longer);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, header);
}

// With a checksum that fits: each reserved byte alone must be refused.
TEST(PieceTest, EveryReservedByteMustBeZero) {
  PieceHeader header = ExampleHeader();
  const HeaderBytes good = Encode(header, Payload(10));
  size_t reserved = 0;
  for (size_t at = 0; at < 992; ++at) {
    if (!((at >= 40 && at < 48) || (at >= 184 && at < 992))) continue;
    HeaderBytes bad = good;
    bad[at] = std::byte{1};
    FixChecksum(bad);
    const auto decoded = DecodePieceHeader(bad);
    ASSERT_FALSE(decoded.ok()) << at;
    EXPECT_EQ(decoded.error().code(), Code::kCorrupt);
    ++reserved;
  }
  EXPECT_EQ(reserved, 8U + 808U);
}

TEST(PieceTest, PayloadOfAnotherSizeIsCorrupt) {
  PieceHeader header = ExampleHeader();
  const auto payload = Payload(2 * kPieceChunkBytes);
  Encode(header, payload);
  for (const size_t size : {size_t{0}, size_t{1}, kPieceChunkBytes, payload.size() - 1}) {
    const Status status = CheckPiecePayload(header, std::span(payload).first(size));
    ASSERT_FALSE(status.ok()) << size;
    EXPECT_EQ(status.error().code(), Code::kCorrupt);
  }
  auto longer = payload;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(CheckPiecePayload(header, longer).ok());
}

TEST(PieceTest, FlippedPayloadNamesItsFirstBadChunk) {
  PieceHeader header = ExampleHeader();
  const auto payload = Payload(3 * kPieceChunkBytes + 5);
  Encode(header, payload);
  const size_t places[] = {0, kPieceChunkBytes - 1, kPieceChunkBytes, 2 * kPieceChunkBytes + 4096,
                           payload.size() - 1};
  for (const size_t at : places) {
    auto bad = payload;
    bad[at] ^= std::byte{0x10};
    const Status status = CheckPiecePayload(header, bad);
    ASSERT_FALSE(status.ok()) << at;
    EXPECT_EQ(status.error().code(), Code::kCorrupt);
    EXPECT_EQ(status.error().message(),
              "piece payload: wrong checksum of chunk " + std::to_string(at / kPieceChunkBytes));
  }
}

TEST(PieceTest, SwappedChunksAreCorrupt) {
  PieceHeader header = ExampleHeader();
  auto payload = Payload(2 * kPieceChunkBytes);
  Encode(header, payload);
  std::rotate(payload.begin(), payload.begin() + kPieceChunkBytes, payload.end());
  EXPECT_FALSE(CheckPiecePayload(header, payload).ok());
}

TEST(PieceTest, PayloadOfAnotherPieceIsCorrupt) {
  PieceHeader header = ExampleHeader();
  Encode(header, Payload(5000, 1));
  EXPECT_FALSE(CheckPiecePayload(header, Payload(5000, 2)).ok());
}

// A header that did not come from DecodePieceHeader can claim anything: no assertion, no read past
// the table.
TEST(PieceTest, MadeUpSizesAreRefused) {
  PieceHeader header = ExampleHeader();
  const auto payload = Payload(kPieceBytesMax + 1);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  EXPECT_FALSE(CheckPiecePayload(header, payload).ok());
}

PieceExpectation ExpectationOf(const PieceHeader& header) {
  return {.scope = header.scope,
          .codec = header.codec,
          .owner = header.owner,
          .fingerprint = header.fingerprint,
          .range = header.range,
          .prefix_begin = header.prefix_begin,
          .prefix_end = header.prefix_end};
}

TEST(PieceTest, CompareNamesTheFirstDifference) {
  const PieceHeader header = ExampleHeader();
  EXPECT_EQ(ComparePiece(header, ExpectationOf(header)), PieceMismatch::kNone);

  PieceExpectation other = ExpectationOf(header);
  other.prefix_end = Sha256Of("x");
  EXPECT_EQ(ComparePiece(header, other), PieceMismatch::kPrefix);
  other = ExpectationOf(header);
  other.prefix_begin = Sha256Of("x");
  EXPECT_EQ(ComparePiece(header, other), PieceMismatch::kPrefix);
  other = ExpectationOf(header);
  other.range.end += 1;
  EXPECT_EQ(ComparePiece(header, other), PieceMismatch::kPrefix);
  other.codec = PieceCodec::kFake;
  EXPECT_EQ(ComparePiece(header, other), PieceMismatch::kVersion);
  other.fingerprint = Sha256Of("x");
  EXPECT_EQ(ComparePiece(header, other), PieceMismatch::kFingerprint);
  other.scope = OwnerScope::kTenant;
  EXPECT_EQ(ComparePiece(header, other), PieceMismatch::kOwner);
  other = ExpectationOf(header);
  other.owner = Sha256Of("x");
  EXPECT_EQ(ComparePiece(header, other), PieceMismatch::kOwner);
}

TEST(PieceDeathTest, EncodingRefusesWhatCannotBe) {
  PieceHeader header = ExampleHeader();
  HeaderBytes bytes;
  EXPECT_DEATH(EncodePieceHeader(header, {}, bytes), "internal error");
  EXPECT_DEATH(EncodePieceHeader(header, Payload(kPieceBytesMax + 1), bytes), "internal error");
  header.range.end = header.range.begin;
  EXPECT_DEATH(EncodePieceHeader(header, Payload(1), bytes), "internal error");
  header = ExampleHeader();
  header.kind = PieceKind::kState;
  EXPECT_DEATH(EncodePieceHeader(header, Payload(1), bytes), "internal error");
}

Digest256 AnyDigest() {
  Digest256 digest;
  for (std::byte& byte : digest.bytes)
    byte = static_cast<std::byte>(*rc::gen::arbitrary<uint8_t>());
  return digest;
}

RC_GTEST_PROP(PieceProperty, RoundTrip, ()) {
  PieceHeader header;
  header.kind = *rc::gen::element(PieceKind::kDelta, PieceKind::kCheckpoint);
  header.codec = static_cast<PieceCodec>(*rc::gen::inRange<uint16_t>(1, 65535));
  header.range.begin = *rc::gen::inRange<TokenPos>(0, 1 << 30);
  header.range.end = header.range.begin + *rc::gen::inRange<TokenPos>(1, 1 << 20);
  header.created_unix_ms = *rc::gen::arbitrary<int64_t>();
  header.owner = AnyDigest();
  header.fingerprint = AnyDigest();
  header.prefix_begin = AnyDigest();
  header.prefix_end = AnyDigest();
  const size_t chunk_edge = *rc::gen::inRange<size_t>(0, 3) * kPieceChunkBytes;
  const auto payload = Payload(chunk_edge + *rc::gen::inRange<size_t>(1, 100));

  HeaderBytes bytes = Encode(header, payload);
  const auto decoded = DecodePieceHeader(bytes);
  RC_ASSERT(decoded.ok());
  RC_ASSERT(*decoded == header);
  RC_ASSERT(CheckPiecePayload(*decoded, payload).ok());
  RC_ASSERT(ComparePiece(*decoded, ExpectationOf(header)) == PieceMismatch::kNone);
}

// Any bytes behind a fitting magic, version and checksum: refused, or the one encoding of what they
// decode to.
RC_GTEST_PROP(PieceProperty, ValidMeansCanonical, ()) {
  PieceHeader header = ExampleHeader();
  const auto payload = Payload(10);
  HeaderBytes bytes = Encode(header, payload);
  for (int i = 0; i < 3; ++i) {
    bytes[*rc::gen::inRange<size_t>(10, 992)] =
        static_cast<std::byte>(*rc::gen::arbitrary<uint8_t>());
  }
  FixChecksum(bytes);
  auto decoded = DecodePieceHeader(bytes);
  if (!decoded.ok()) {
    RC_ASSERT(decoded.error().code() == Code::kCorrupt);
    return;
  }
  if (!CheckPiecePayload(*decoded, payload).ok()) return;
  RC_ASSERT(Encode(*decoded, payload) == bytes);
}

}  // namespace
}  // namespace tenuto
