// Any bytes as a stored recall index, with and without the checksum put right: refused, or an index
// that can be asked, is the same once written and read again, and can be added to.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "format/bytes.h"
#include "format/checksum.h"
#include "recall/scorer.h"

namespace tenuto {
namespace {

void Try(std::span<const std::byte> bytes) {
  auto index = RecallIndex::Decode(bytes);
  if (!index.ok()) {
    TENUTO_CHECK(index.error().code() == Code::kCorrupt || index.error().code() == Code::kInvalid);
    return;
  }
  const auto written = index->Encode();
  const auto again = RecallIndex::Decode(written);
  TENUTO_CHECK(again.ok() && again->Encode() == written);
  static Analyser analyser;
  const Query query = BuildQuery(analyser, *index, {.text = "what is my cat called?"});
  RecallScorer scorer;
  const Ranking ranking = scorer.Rank(*index, query, {{{1, 1000}}, {}}, 5);
  TENUTO_CHECK(ranking.hits.size() <= 5);
  const uint32_t last = index->turns().empty() ? 0 : index->turns().back().turn;
  if (last == UINT32_MAX) return;
  index->Add(analyser, {.turn = last + 1, .user = "My cat is called Pickles."});
  index->Remove(index->turns().front().turn);
  TENUTO_CHECK(RecallIndex::Decode(index->Encode()).ok());
}

}  // namespace
}  // namespace tenuto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  std::transform(data, data + size, bytes.begin(), [](uint8_t byte) { return std::byte{byte}; });
  tenuto::Try(bytes);
  if (size < tenuto::kChecksumBytes) return 0;
  const size_t end = size - tenuto::kChecksumBytes;
  tenuto::PutLe(std::span(bytes), end, tenuto::ChecksumOf(std::span(bytes).first(end)));
  tenuto::Try(bytes);
  return 0;
}
