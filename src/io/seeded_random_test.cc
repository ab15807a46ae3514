#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "io/fake.h"

namespace tenuto {
namespace {

TEST(SeededRandom, IsTheSameOnEveryMachine) {
  // xoshiro256** over the splitmix64 state of seed 0.
  SeededRandom random(0);
  EXPECT_EQ(random.Next(), 0x99EC5F36CB75F2B4u);
  EXPECT_EQ(random.Next(), 0xBF6E1F784956452Au);
  EXPECT_EQ(random.Next(), 0x1A5F849D4933E6E0u);
}

TEST(SeededRandom, SeedsDiffer) {
  EXPECT_NE(SeededRandom(1).Next(), SeededRandom(2).Next());
  EXPECT_EQ(SeededRandom(7).Next(), SeededRandom(7).Next());
}

TEST(SeededRandom, FillIsNextInLittleEndianAndCutsTheLastWord) {
  std::array<std::byte, 11> bytes{};
  SeededRandom(0).Fill(bytes);
  EXPECT_EQ(bytes[0], std::byte{0xB4});
  EXPECT_EQ(bytes[7], std::byte{0x99});
  EXPECT_EQ(bytes[8], std::byte{0x2A});
  EXPECT_EQ(bytes[10], std::byte{0x56});
}

TEST(SeededRandom, BelowReachesAllAndNoMore) {
  SeededRandom random(3);
  std::array<int, 5> seen{};
  for (int i = 0; i < 5000; ++i)
    ++seen.at(random.Below(5));
  for (const int count : seen)
    EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.Below(1), 0u);
}

TEST(SeededRandom, ChanceIsAProbability) {
  SeededRandom random(4);
  int yes = 0;
  for (int i = 0; i < 10'000; ++i)
    yes += random.Chance(0.3) ? 1 : 0;
  EXPECT_NEAR(yes, 3000, 200);
  EXPECT_FALSE(random.Chance(0));
  EXPECT_TRUE(random.Chance(1));
}

TEST(FakeClock, ShowsWhatItIsTold) {
  FakeClock clock;
  EXPECT_EQ(clock.MonotonicNs(), 0);
  clock.now_ns = 5'000'000;
  EXPECT_EQ(clock.MonotonicNs(), 5'000'000);
  EXPECT_EQ(clock.UnixMs(), clock.unix_ms_base + 5);
}

}  // namespace
}  // namespace tenuto
