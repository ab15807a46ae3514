// Any bytes as a segment file, read at locations that the input names and appended to: no crash, no
// byte from outside the file, and what lay there is not changed by the append.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "format/bytes.h"
#include "format/segment.h"
#include "io/fake.h"
#include "payload/segment/store.h"

namespace tenuto {
namespace {

constexpr PayloadFileId kFile{0xa3b4c5d6e7f80912};  // of the vectors
constexpr size_t kLocationBytes = 16;
constexpr size_t kReadBytesMax = 64 * kKiB;

void ReadAt(PayloadStore& store, std::span<const std::byte> contents, PayloadLocation location) {
  std::vector<std::byte> out(std::min<uint64_t>(location.bytes, kReadBytesMax));
  const Status status = store.Read(location, out);
  if (!status.ok()) return;
  TENUTO_CHECK(CheckSegmentHeader(contents, kFile).ok());
  TENUTO_CHECK(location.offset <= contents.size());
  TENUTO_CHECK(location.bytes <= contents.size() - location.offset);
  const auto begin = contents.begin() + static_cast<std::ptrdiff_t>(location.offset);
  TENUTO_CHECK(std::equal(out.begin(), out.end(), begin));
}

void TryFile(std::vector<std::byte> contents) {
  FakeDisk disk(1);
  SeededRandom random(2);
  const std::string path = SegmentFolderName(kFile) + "/" + SegmentFileName(kFile);
  disk.Overwrite(path, contents);
  const auto store = std::move(SegmentStore::Open(disk.Root(), random)).value();

  // The last bytes name a location; a few more are near the edges.
  if (contents.size() >= kLocationBytes) {
    const auto tail = std::span(contents).last(kLocationBytes);
    ReadAt(*store, contents, {kFile, GetLe<uint64_t>(tail, 0), GetLe<uint64_t>(tail, 8)});
    ReadAt(*store, contents, {kFile, kSegmentAlignBytes, GetLe<uint16_t>(tail, 8)});
  }
  ReadAt(*store, contents, {kFile, kSegmentAlignBytes, 1});
  ReadAt(*store, contents, {kFile, kSegmentAlignBytes, contents.size()});

  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  const PayloadRecord records[] = {{.header = bytes, .payload = {}}};
  const auto appended = store->Append(kFile, records);
  TENUTO_CHECK(appended.ok());
  const PayloadLocation location = appended->at(0);
  const bool usable = CheckSegmentHeader(contents, kFile).ok();
  TENUTO_CHECK(usable == (location.file == kFile));
  const auto after = disk.Contents(path).value();
  TENUTO_CHECK(after.size() >= contents.size());
  TENUTO_CHECK(std::equal(contents.begin(), contents.end(), after.begin()));
  TENUTO_CHECK(location.file != kFile || location.offset >= contents.size());
  std::array<std::byte, 3> out;
  TENUTO_CHECK(store->Read(location, out).ok() && out == bytes);
}

}  // namespace
}  // namespace tenuto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenuto::SetLogLevel(tenuto::LogLevel::kOff);
  const auto bytes = std::as_bytes(std::span(data, size));
  tenuto::TryFile({bytes.begin(), bytes.end()});
  // Once more behind a header that fits.
  std::vector<std::byte> repaired(tenuto::kSegmentAlignBytes);
  tenuto::EncodeSegmentHeader(tenuto::kFile, std::span<std::byte, tenuto::kSegmentHeaderBytes>(
                                                 repaired.data(), tenuto::kSegmentHeaderBytes));
  repaired.insert(repaired.end(), bytes.begin(), bytes.end());
  tenuto::TryFile(std::move(repaired));
  return 0;
}
