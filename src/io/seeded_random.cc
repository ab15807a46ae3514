#include <bit>
#include <cstring>

#include "base/check.h"
#include "io/fake.h"

namespace tenuto {
namespace {

// splitmix64: spreads any seed, 0 too, over the four words of state.
uint64_t NextSplitMix(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

SeededRandom::SeededRandom(uint64_t seed) {
  for (uint64_t& word : state_)
    word = NextSplitMix(seed);
}

uint64_t SeededRandom::Next() {
  // xoshiro256**
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t SeededRandom::Below(uint64_t n) {
  TENUTO_CHECK(n > 0);
  // The lowest 2^64 mod n values are drawn again: without that, small results would be likelier.
  const uint64_t unfair = (0 - n) % n;
  while (true) {
    const uint64_t drawn = Next();
    if (drawn >= unfair) return drawn % n;
  }
}

bool SeededRandom::Chance(double probability) {
  // 53 bits are what a double holds exactly.
  return static_cast<double>(Next() >> 11) * 0x1p-53 < probability;
}

void SeededRandom::Fill(std::span<std::byte> out) {
  for (size_t at = 0; at < out.size(); at += 8) {
    const uint64_t word = Next();
    // Byte by byte, so that the bytes don't depend on the machine's byte order.
    for (size_t i = 0; i < 8 && at + i < out.size(); ++i)
      out[at + i] = static_cast<std::byte>(word >> (8 * i));
  }
}

}  // namespace tenuto
