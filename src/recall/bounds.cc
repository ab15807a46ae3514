#include "recall/bounds.h"

#include <algorithm>

#include "base/check.h"

namespace tenuto {
namespace {

// Inline, for there is no instruction for it on every processor that we run on.
size_t CountOf(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  return static_cast<size_t>(bits * 0x0101010101010101u >> 56);
}

}  // namespace

void BoundSums::Reset(size_t words) {
  words_ = words;
  blocks_.assign((words + kLanes - 1) / kLanes, Block{});
}

void BoundSums::Add(std::span<const uint64_t> bits, uint32_t amount) {
  TENUTO_CHECK(bits.size() <= words_ && amount <= kMax);
  for (size_t first = 0; first < bits.size(); first += kLanes) {
    std::array<uint64_t, kLanes> mask = {};
    std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(first),
                std::min(kLanes, bits.size() - first), mask.begin());
    auto& planes = blocks_[first / kLanes].planes;
    std::array<uint64_t, kLanes> carry = {};
    for (size_t plane = 0; plane < kPlanes; ++plane) {
      const uint64_t wanted = (amount >> plane & 1u) != 0 ? ~uint64_t{0} : 0;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const uint64_t sum = planes[plane][lane];
        const uint64_t added = mask[lane] & wanted;
        planes[plane][lane] = sum ^ added ^ carry[lane];
        carry[lane] = (sum & added) | (carry[lane] & (sum ^ added));
      }
    }
  }
}

// Bit by bit from above: are there enough passages that have what was decided so far, and the next
// bit as well?
uint32_t BoundSums::LevelOf(std::span<const uint64_t> allowed, size_t count) {
  TENUTO_CHECK(allowed.size() == words_ && count > 0);
  equal_.assign(allowed.begin(), allowed.end());  // same bits as the level so far
  size_t greater = 0;
  uint32_t level = 0;
  for (size_t plane = kPlanes; plane-- > 0;) {
    size_t with = 0;
    for (size_t word = 0; word < words_; ++word)
      with += CountOf(equal_[word] & Plane(word, plane));
    const bool enough = greater + with >= count;
    if (enough) level |= 1u << plane;
    if (!enough) greater += with;
    const uint64_t flip = enough ? 0 : ~uint64_t{0};
    for (size_t word = 0; word < words_; ++word)
      equal_[word] &= Plane(word, plane) ^ flip;
  }
  return level;
}

uint64_t BoundSums::AtLeast(size_t word, uint32_t level) const {
  uint64_t greater = 0;
  uint64_t equal = ~uint64_t{0};
  for (size_t plane = kPlanes; plane-- > 0;) {
    const uint64_t sum = Plane(word, plane);
    if ((level >> plane & 1u) != 0) {
      equal &= sum;
    } else {
      greater |= equal & sum;
      equal &= ~sum;
    }
  }
  return greater | equal;
}

}  // namespace tenuto
