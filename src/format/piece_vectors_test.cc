// Every vector of tests/vectors/piece and tests/vectors/segment, which were made from the format
// pages by other code.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "format/piece.h"
#include "format/segment.h"
#include "format/vector_file.h"

namespace tenuto {
namespace {

std::string Outcome(const Status& status) {
  if (status.ok()) return "ok";
  if (status.error().code() == Code::kCorrupt) return "corrupt";
  if (status.error().code() == Code::kInvalid) return "invalid";
  return "unexpected code";
}

std::vector<std::byte> PatternPayload(const VectorFile& file) {
  std::vector<std::byte> payload(std::stoul(file.Get("payload_pattern")));
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<std::byte>((i * 131 + (i >> 8)) & 0xff);
  }
  const std::string flip = file.Get("payload_flip");
  if (!flip.empty()) payload.at(std::stoul(flip)) ^= std::byte{1};
  return payload;
}

Status CheckWholePiece(const VectorFile& file) {
  TENUTO_ASSIGN(const PieceHeader header, DecodePieceHeader(file.bytes));
  return CheckPiecePayload(header, PatternPayload(file));
}

TEST(PieceVectorsTest, EveryVectorHasItsOutcome) {
  for (const VectorFile& file : ReadVectors("piece")) {
    SCOPED_TRACE(file.path);
    const Status status = CheckWholePiece(file);
    EXPECT_EQ(Outcome(status), file.Get("expect")) << file.Get("note");
    if (!status && status.error().code() == Code::kInvalid) {
      const std::string version = std::to_string(std::to_integer<int>(file.bytes[8]));
      EXPECT_EQ(status.error().message(),
                "piece version " + version + ", this build reads version 1");
    }
  }
}

TEST(PieceVectorsTest, ValidOnesHaveTheirFieldsAndEncodeBack) {
  for (const VectorFile& file : ReadVectors("piece")) {
    if (file.Get("expect") != "ok") continue;
    SCOPED_TRACE(file.path);
    auto header = DecodePieceHeader(file.bytes);
    ASSERT_TRUE(header.ok());
    std::ostringstream fields;
    fields << static_cast<int>(header->kind) << ' ' << static_cast<int>(header->codec) << ' '
           << header->range.begin << ' ' << header->range.end << ' ' << header->payload_bytes << ' '
           << header->created_unix_ms;
    EXPECT_EQ(fields.str(), file.Get("fields"));
    EXPECT_EQ(header->owner.Hex(), file.Get("owner"));
    EXPECT_EQ(header->fingerprint.Hex(), file.Get("fingerprint"));
    EXPECT_EQ(header->prefix_begin.Hex(), file.Get("prefix_begin"));
    EXPECT_EQ(header->prefix_end.Hex(), file.Get("prefix_end"));

    std::vector<std::byte> again(kPieceHeaderBytes);
    EncodePieceHeader(*header, PatternPayload(file),
                      std::span<std::byte, kPieceHeaderBytes>(again));
    EXPECT_EQ(again, file.bytes);
  }
}

TEST(SegmentVectorsTest, EveryVectorHasItsOutcome) {
  for (const VectorFile& file : ReadVectors("segment")) {
    SCOPED_TRACE(file.path);
    const auto id = ParseSegmentFileName(file.Get("file") + ".seg");
    ASSERT_TRUE(id.has_value());
    const Status status = CheckSegmentHeader(file.bytes, *id);
    EXPECT_EQ(Outcome(status), file.Get("expect")) << file.Get("note");
    if (status.ok()) {
      std::vector<std::byte> again(kSegmentHeaderBytes);
      EncodeSegmentHeader(*id, std::span<std::byte, kSegmentHeaderBytes>(again));
      EXPECT_TRUE(std::equal(again.begin(), again.end(), file.bytes.begin()));
    } else if (status.error().code() == Code::kInvalid) {
      const std::string version = std::to_string(std::to_integer<int>(file.bytes[8]));
      EXPECT_EQ(status.error().message(),
                "segment version " + version + ", this build reads version 1");
    }
  }
}

}  // namespace
}  // namespace tenuto
