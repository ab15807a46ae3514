#include "recall/bounds.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "recall/bits.h"

namespace tenuto {
namespace {

// As many blocks have at most 255 bits at the place of a byte.
constexpr size_t kBlocksCounted = 31;

// Words [first, first + kLanes) of `bits`, 0 where it ends before.
BoundSums::Lanes LanesAt(std::span<const uint64_t> bits, size_t first) {
  BoundSums::Lanes lanes = {};
  if (bits.size() - first >= lanes.size()) {
    std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(first), lanes.size(), lanes.begin());
    return lanes;
  }
  std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(first),
              std::min(BoundSums::kLanes, bits.size() - first), lanes.begin());
  return lanes;
}

uint64_t SumOfBytes(uint64_t bytes) {
  constexpr uint64_t kEven = 0x00FF00FF00FF00FFu;
  return ((bytes & kEven) + (bytes >> 8 & kEven)) * 0x0001000100010001u >> 48;
}

}  // namespace

void BoundSums::Reset(size_t words) {
  words_ = words;
  most_ = 0;
  planes_ = 0;
  blocks_.assign((words + kLanes - 1) / kLanes, Block{});
}

void BoundSums::Add(std::span<const uint64_t> bits, uint32_t amount) {
  TENUTO_CHECK(bits.size() <= words_ && amount <= kMax - most_);
  if (amount == 0) return;
  most_ += amount;
  planes_ = static_cast<size_t>(std::bit_width(most_));
  for (size_t first = 0; first < bits.size(); first += kLanes)
    AddTo(blocks_[first / kLanes], LanesAt(bits, first), amount);
}

// No bit changes below the lowest of the amount, nor above what a sum can be.
void BoundSums::AddTo(Block& block, const Lanes& mask, uint32_t amount) const {
  Lanes carry = {};
  for (auto plane = static_cast<size_t>(std::countr_zero(amount)); plane < planes_; ++plane) {
    Lanes& sum = block[plane];
    if ((amount >> plane & 1u) != 0) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const uint64_t before = sum[lane];
        const uint64_t half = before ^ mask[lane];
        sum[lane] = half ^ carry[lane];
        carry[lane] = (before & mask[lane]) | (carry[lane] & half);
      }
    } else {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const uint64_t before = sum[lane];
        sum[lane] = before ^ carry[lane];
        carry[lane] &= before;
      }
    }
  }
}

// Of the passages in `equal_`, how many have this bit in their sum.
size_t BoundSums::CountWith(size_t plane) const {
  size_t count = 0;
  for (size_t first = 0; first < blocks_.size(); first += kBlocksCounted) {
    Lanes bytes = {};
    for (size_t at = first; at < std::min(blocks_.size(), first + kBlocksCounted); ++at) {
      const Lanes& sum = blocks_[at][plane];
      for (size_t lane = 0; lane < kLanes; ++lane)
        bytes[lane] += CountInBytes(equal_[at][lane] & sum[lane]);
    }
    for (const uint64_t lane : bytes)
      count += SumOfBytes(lane);
  }
  return count;
}

// Bit by bit from above: are there enough passages that have what was decided so far, and the next
// bit as well?
uint32_t BoundSums::LevelOf(std::span<const uint64_t> allowed, size_t count) {
  TENUTO_CHECK(allowed.size() == words_ && count > 0);
  equal_.clear();  // of allowed passages, those with the same bits as the level so far
  for (size_t first = 0; first < words_; first += kLanes)
    equal_.push_back(LanesAt(allowed, first));
  size_t greater = 0;
  uint32_t level = 0;
  for (size_t plane = planes_; plane-- > 0;) {
    const size_t with = CountWith(plane);
    const bool enough = greater + with >= count;
    if (enough) level |= 1u << plane;
    if (!enough) greater += with;
    const uint64_t flip = enough ? 0 : ~uint64_t{0};
    for (size_t at = 0; at < blocks_.size(); ++at) {
      const Lanes& sum = blocks_[at][plane];
      for (size_t lane = 0; lane < kLanes; ++lane)
        equal_[at][lane] &= sum[lane] ^ flip;
    }
  }
  return level;
}

BoundSums::Lanes BoundSums::AtLeast(size_t block, uint32_t level) const {
  Lanes found = {};
  if (level > most_) return found;
  Lanes equal;
  equal.fill(~uint64_t{0});
  for (size_t plane = planes_; plane-- > 0;) {
    const Lanes& sum = blocks_[block][plane];
    const uint64_t wanted = (level >> plane & 1u) != 0 ? ~uint64_t{0} : 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      found[lane] |= equal[lane] & sum[lane] & ~wanted;
      equal[lane] &= ~(sum[lane] ^ wanted);
    }
  }
  for (size_t lane = 0; lane < kLanes; ++lane)
    found[lane] |= equal[lane];
  return found;
}

}  // namespace tenuto
