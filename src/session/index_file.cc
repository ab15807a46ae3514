#include "session/index_file.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "format/bytes.h"
#include "format/checksum.h"

namespace tenuto {
namespace {

constexpr std::string_view kMagic = "TNTINDEX";
constexpr std::string_view kSuffix = ".idx";

Error Damaged(std::string_view what) {
  return {Code::kCorrupt, "index file: " + std::string(what)};
}

}  // namespace

std::string IndexFileName(int64_t session_id) {
  return std::to_string(session_id).append(kSuffix);
}

std::optional<int64_t> SessionOfIndexFile(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  int64_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return id > 0 && name.front() != '0' ? std::optional(id) : std::nullopt;
}

void EncodeIndexFileHeader(const IndexFileHeader& header, std::span<std::byte> out) {
  TENUTO_CHECK(out.size() == kIndexFileHeaderBytes);
  TENUTO_CHECK(header.last_turn_bytes <= kIndexFileTurnBytesMax);
  std::fill(out.begin(), out.end(), std::byte{0});
  PutBytes(out, 0, std::as_bytes(std::span(kMagic)));
  PutLe<uint16_t>(out, 8, kIndexFileVersion);
  PutLe<uint16_t>(out, 10, static_cast<uint16_t>(header.last_turn_bytes));
  PutLe<int64_t>(out, 16, header.session_id);
  PutBytes(out, 24, header.owner.bytes);
  PutLe<uint64_t>(out, 56, header.lines);
  PutLe<uint64_t>(out, 64, header.index_bytes);
}

Result<IndexFileHeader> DecodeIndexFileHeader(std::span<const std::byte> in, uint64_t file_bytes) {
  if (file_bytes > kIndexFileBytesMax) return Damaged("larger than an index can be");
  if (in.size() < kIndexFileHeaderBytes) return Damaged("cut short");
  if (!StartsWith(in, kMagic)) return Damaged("not an index");
  if (const auto version = GetLe<uint16_t>(in, 8); version != kIndexFileVersion) {
    return Error(Code::kInvalid, "index file: version " + std::to_string(version) +
                                     ", this build has " + std::to_string(kIndexFileVersion));
  }
  IndexFileHeader header;
  header.last_turn_bytes = GetLe<uint16_t>(in, 10);
  header.session_id = GetLe<int64_t>(in, 16);
  std::copy_n(in.begin() + 24, header.owner.bytes.size(), header.owner.bytes.begin());
  header.lines = GetLe<uint64_t>(in, 56);
  const auto index_bytes = GetLe<uint64_t>(in, 64);
  if (header.last_turn_bytes > kIndexFileTurnBytesMax || index_bytes > kIndexFileBytesMax ||
      index_bytes < kChecksumBytes) {
    return Damaged("lengths");
  }
  header.index_bytes = static_cast<size_t>(index_bytes);
  if (header.FileBytes() != file_bytes) return Damaged("length");
  if (!AllZero(in.subspan(12, 4)) || !AllZero(in.subspan(72, 8))) return Damaged("reserved");
  return header;
}

Digest256 IndexFileSeal(std::span<const std::byte> header, std::span<const std::byte> last_turn,
                        std::span<const std::byte> index) {
  Sha256 hash;
  hash.Update(header);
  hash.Update(last_turn);
  hash.Update(index.last(kChecksumBytes));
  return hash.Finish();
}

}  // namespace tenuto
