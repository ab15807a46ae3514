#include "recall/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tenuto {
namespace {

// The sums one by one.
struct Plain {
  std::vector<uint32_t> sums;
  std::vector<uint64_t> allowed;

  bool Allowed(size_t at) const { return (allowed[at / 64] >> at % 64 & 1u) != 0; }
  uint32_t LevelOf(size_t count) const {
    std::vector<uint32_t> some;
    for (size_t at = 0; at < sums.size(); ++at) {
      if (Allowed(at)) some.push_back(sums[at]);
    }
    if (some.size() < count) return 0;
    std::sort(some.rbegin(), some.rend());
    return some[count - 1];
  }
};

TEST(BoundSums, AreThoseOfAPlainSum) {
  std::mt19937_64 random(11);
  BoundSums bounds;
  for (int round = 0; round < 200; ++round) {
    const size_t words = 1 + random() % 40;
    Plain plain;
    plain.sums.resize(words * 64);
    plain.allowed.resize(words);
    for (uint64_t& word : plain.allowed)
      word = random() % 4 == 0 ? 0 : random() | random();
    bounds.Reset(words);
    uint32_t left = BoundSums::kMax;
    for (size_t term = random() % 9; term > 0; --term) {
      std::vector<uint64_t> bits(random() % (words + 1));
      const auto amount = static_cast<uint32_t>(random() % (left + 1));
      left -= amount;
      for (size_t word = 0; word < bits.size(); ++word) {
        bits[word] = random() & random();
        for (size_t bit = 0; bit < 64; ++bit)
          plain.sums[word * 64 + bit] += (bits[word] >> bit & 1u) != 0 ? amount : 0;
      }
      bounds.Add(bits, amount);
    }
    for (const size_t count : {size_t{1}, size_t{7}, size_t{200}, words * 64})
      EXPECT_EQ(bounds.LevelOf(plain.allowed, count), plain.LevelOf(count));
    for (const uint32_t level : {1u, 2u, 100u, 254u, 255u}) {
      for (size_t at = 0; at < plain.sums.size(); ++at) {
        const auto block = bounds.AtLeast(at / 64 / BoundSums::kLanes, level);
        const bool reaches = (block[at / 64 % BoundSums::kLanes] >> at % 64 & 1u) != 0;
        ASSERT_EQ(reaches, plain.sums[at] >= level);
      }
    }
  }
}

// More passages than a byte can count at once.
TEST(BoundSums, LevelOfManyPassages) {
  constexpr size_t kWords = 1000;
  const std::vector<uint64_t> all(kWords, ~uint64_t{0});
  BoundSums bounds;
  bounds.Reset(kWords);
  bounds.Add(all, 5);
  bounds.Add(std::span(all).first(10), 3);
  EXPECT_EQ(bounds.LevelOf(all, 640), 8U);
  EXPECT_EQ(bounds.LevelOf(all, 641), 5U);
  EXPECT_EQ(bounds.LevelOf(all, 64 * kWords), 5U);
  EXPECT_EQ(bounds.LevelOf(all, 64 * kWords + 1), 0U);
}

TEST(BoundSums, OfNothing) {
  BoundSums bounds;
  bounds.Reset(0);
  EXPECT_EQ(bounds.LevelOf({}, 1), 0U);
}

}  // namespace
}  // namespace tenuto
