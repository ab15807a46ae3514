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

  // For passages [0, 64 * words), all sums 0.
  void Reset(size_t words);
  // Adds to the passages whose bit is set. REQUIRES: no more words than Reset had; no sum passes
  // kMax.
  void Add(std::span<const uint64_t> bits, uint32_t amount);
  // The greatest level that at least `count` of the allowed passages reach; 0 where fewer have any
  // sum. REQUIRES: `allowed` has as many words as Reset had; count > 0.
  uint32_t LevelOf(std::span<const uint64_t> allowed, size_t count);
  // The passages with at least this sum, 64 of them. REQUIRES: level > 0.
  uint64_t AtLeast(size_t word, uint32_t level) const;

 private:
  static constexpr size_t kPlanes = 8;
  static constexpr size_t kLanes = 4;  // words side by side, for the compiler to take together
  struct Block {
    std::array<std::array<uint64_t, kLanes>, kPlanes> planes;
  };
  uint64_t Plane(size_t word, size_t plane) const {
    return blocks_[word / kLanes].planes[plane][word % kLanes];
  }

  std::vector<Block> blocks_;
  size_t words_ = 0;
  std::vector<uint64_t> equal_;
};

}  // namespace tenuto
