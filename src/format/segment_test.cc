#include "format/segment.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

namespace tenuto {
namespace {

constexpr PayloadFileId kFile{0xa3b4c5d6e7f80912};
using Header = std::array<std::byte, kSegmentHeaderBytes>;

Header Encode(PayloadFileId file) {
  Header bytes;
  EncodeSegmentHeader(file, bytes);
  return bytes;
}

TEST(SegmentTest, AHeaderFitsItsFileAlone) {
  const Header bytes = Encode(kFile);
  EXPECT_TRUE(CheckSegmentHeader(bytes, kFile).ok());
  const Status other = CheckSegmentHeader(bytes, PayloadFileId{kFile.value + 1});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code(), Code::kCorrupt);
  EXPECT_EQ(other.error().message(), "segment header: it is of file a3b4c5d6e7f80912");
}

TEST(SegmentTest, EveryByteIsProtectedAndNoneMayBeMissing) {
  const Header good = Encode(kFile);
  for (size_t at = 0; at < good.size(); ++at) {
    Header bad = good;
    bad[at] ^= std::byte{0x40};
    const Status status = CheckSegmentHeader(bad, kFile);
    ASSERT_FALSE(status.ok()) << at;
    const bool in_version = at == 8 || at == 9;
    EXPECT_EQ(status.error().code(), in_version ? Code::kInvalid : Code::kCorrupt) << at;
    EXPECT_FALSE(CheckSegmentHeader(std::span(good).first(at), kFile).ok());
  }
}

TEST(SegmentTest, NamesParseBackAndNothingElseDoes) {
  EXPECT_EQ(SegmentFileName(kFile), "a3b4c5d6e7f80912.seg");
  EXPECT_EQ(SegmentFolderName(kFile), "a");
  EXPECT_EQ(SegmentFileName(PayloadFileId{1}), "0000000000000001.seg");
  EXPECT_EQ(SegmentFolderName(PayloadFileId{1}), "0");
  EXPECT_EQ(ParseSegmentFileName("a3b4c5d6e7f80912.seg"), kFile);
  EXPECT_EQ(ParseSegmentFileName("0000000000000001.seg"), PayloadFileId{1});
  for (const std::string_view name :
       {"", ".seg", "0000000000000000.seg", "a3b4c5d6e7f8091.seg", "a3b4c5d6e7f809123.seg",
        "A3B4C5D6E7F80912.seg", "a3b4c5d6e7f8091g.seg", "a3b4c5d6e7f80912.sej", "a3b4c5d6e7f80912",
        "a3b4c5d6e7f80912.seg.seg", "+3b4c5d6e7f80912.seg"}) {
    EXPECT_EQ(ParseSegmentFileName(name), std::nullopt) << name;
  }
}

TEST(SegmentTest, AlignsUpWithoutOverflow) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(AlignSegmentOffset(0), 0U);
  EXPECT_EQ(AlignSegmentOffset(1), 4096U);
  EXPECT_EQ(AlignSegmentOffset(4096), 4096U);
  EXPECT_EQ(AlignSegmentOffset(4097), 8192U);
  EXPECT_EQ(AlignSegmentOffset(kMax - 4095), kMax - 4095);
  EXPECT_EQ(AlignSegmentOffset(kMax - 4094), std::nullopt);
  EXPECT_EQ(AlignSegmentOffset(kMax), std::nullopt);
}

TEST(SegmentTest, LocationsMustLieInsideTheFile) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  constexpr uint64_t kFileBytes = 3 * 4096;
  const auto check = [](uint64_t offset, uint64_t bytes) {
    return CheckSegmentLocation({kFile, offset, bytes}, kFileBytes);
  };
  EXPECT_TRUE(check(4096, 1).ok());
  EXPECT_TRUE(check(4096, 8192).ok());
  EXPECT_TRUE(check(8192, 4096).ok());
  const std::pair<uint64_t, uint64_t> bad[] = {
      {0, 1},       {4096, 0},         {4097, 1},           {4096, 8193},
      {8192, 4097}, {12288, 1},        {16384, 1},          {kMax - 4095, 4096},
      {4096, kMax}, {4096, kMax - 10}, {kMax - 4095, kMax}, {kMax, 1}};
  for (const auto& [offset, bytes] : bad) {
    const Status status = check(offset, bytes);
    ASSERT_FALSE(status.ok()) << offset << " " << bytes;
    EXPECT_EQ(status.error().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace tenuto
