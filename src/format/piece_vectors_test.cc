// Every vector of tests/vectors/piece and tests/vectors/segment, which were made from the format
// pages by other code.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "format/piece.h"
#include "format/segment.h"

namespace tenuto {
namespace {

// A file of tests/vectors: "key: value" lines, then "bytes:" and lines of hex.
struct VectorFile {
  std::string path;
  std::map<std::string, std::string> keys;
  std::vector<std::byte> bytes;

  // "" where the key is missing.
  std::string Get(const std::string& key) const {
    const auto found = keys.find(key);
    return found == keys.end() ? std::string() : found->second;
  }
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

VectorFile ReadVectorFile(const std::filesystem::path& path) {
  VectorFile file{.path = path.string(), .keys = {}, .bytes = {}};
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::string line;
  while (std::getline(in, line) && line != "bytes:") {
    const size_t colon = line.find(": ");
    EXPECT_NE(colon, std::string::npos) << path << ": " << line;
    if (colon != std::string::npos) file.keys[line.substr(0, colon)] = line.substr(colon + 2);
  }
  EXPECT_EQ(line, "bytes:") << path;
  while (std::getline(in, line)) {
    EXPECT_EQ(line.size() % 2, 0U) << path << ": " << line;
    for (size_t i = 0; i + 1 < line.size(); i += 2) {
      const int high = HexDigit(line[i]);
      const int low = HexDigit(line[i + 1]);
      EXPECT_TRUE(high >= 0 && low >= 0) << path << ": " << line;
      file.bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
  }
  return file;
}

// All vectors of a format, of every version, by path. Never empty: a folder that moved must not
// pass.
std::vector<VectorFile> ReadVectors(const std::string& format) {
  std::vector<VectorFile> files;
  const std::filesystem::path root = std::filesystem::path(TENUTO_VECTORS_DIR) / format;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".txt") files.push_back(ReadVectorFile(entry.path()));
  }
  std::sort(files.begin(), files.end(),
            [](const VectorFile& a, const VectorFile& b) { return a.path < b.path; });
  EXPECT_FALSE(files.empty()) << root;
  return files;
}

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
