// How much each passage can score at most, for all passages of a session at once: sums of small
// integers, one for each term that a passage has, kept a bit of the sum in each of eight words so
// that 64 passages are added up together. Tells which passages need no exact look.
//
// Scratch memory, reused; thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenuto {

class BoundSums {
 public:
  static constexpr uint32_t kMax = 255;  // of a sum
  static constexpr size_t kLanes = 4;    // words side by side, for the compiler to take together
  using Lanes = std::array<uint64_t, kLanes>;

  // For passages [0, 64 * words), all sums 0.
  void Reset(size_t words);
  // Adds to the passages whose bit is set. REQUIRES: no more words than Reset had; the amounts
  // together are at most kMax.
  void Add(std::span<const uint64_t> bits, uint32_t amount);
  // The greatest level that at least `count` of the allowed passages reach; 0 where fewer have any
  // sum. REQUIRES: `allowed` has as many words as Reset had; count > 0.
  uint32_t LevelOf(std::span<const uint64_t> allowed, size_t count);
  // Passages are in blocks of 64 * kLanes.
  size_t blocks() const { return blocks_.size(); }
  // The passages of a block with at least this sum. REQUIRES: level > 0.
  Lanes AtLeast(size_t block, uint32_t level) const;

 private:
  static constexpr size_t kPlanes = 8;
  using Block = std::array<Lanes, kPlanes>;  // bit by bit of the sums
  void AddTo(Block& block, const Lanes& mask, uint32_t amount) const;
  size_t CountWith(size_t plane) const;

  std::vector<Block> blocks_;
  size_t words_ = 0;
  uint32_t most_ = 0;         // that a sum can be
  size_t planes_ = 0;         // that can have a bit set
  std::vector<Lanes> equal_;  // of LevelOf, by block
};

}  // namespace tenuto
