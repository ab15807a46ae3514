// The worked example of docs/formats/llama_state.md, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/embedded/llama/state_check.h"

namespace tenuto {
namespace {

TEST(StateCheck, TheExampleOfTheFormatPageIsValid) {
  const uint8_t example[] = {
      0xd8, 0x3c, 0x14, 0xaf, 0,    0,    0,    0,    1, 0, 0, 0, 2,    0,    0,    0,  // header
      7,    0,    0,    0,    1,    0,    0,    0,    0, 0, 0, 0,  // position 7
      8,    0,    0,    0,    1,    0,    0,    0,    0, 0, 0, 0,  // position 8
      1,    0,    0,    0,    1,    0,    0,    0,                 // V transposed, one layer
      1,    0,    0,    0,    2,    0,    0,    0,    0, 0, 0, 0, 0x00, 0x3c, 0x00, 0x40,  // K
      1,    0,    0,    0,    2,    0,    0,    0,    2, 0, 0, 0,                          // V
      0x00, 0x42, 0x00, 0x45, 0x00, 0x44, 0x00, 0x46,
  };
  std::vector<std::byte> bytes(sizeof example);
  std::transform(std::begin(example), std::end(example), bytes.begin(),
                 [](uint8_t b) { return std::byte{b}; });
  StateLayout layout;
  layout.values_transposed = true;
  layout.keys = {{1, 2}};
  layout.values = {{1, 2, 2}};
  EXPECT_EQ(bytes.size(), layout.BytesFor(2));
  EXPECT_TRUE(CheckState(layout, {7, 9}, bytes).ok());

  // The same cells the other way round, as libllama may write them.
  std::vector<std::byte> swapped = bytes;
  swapped[4] = swapped[24] = swapped[36] = std::byte{3};  // sequence 3
  std::swap(swapped[16], swapped[28]);
  std::swap_ranges(swapped.begin() + 60, swapped.begin() + 62, swapped.begin() + 62);
  std::swap_ranges(swapped.begin() + 76, swapped.begin() + 78, swapped.begin() + 78);
  std::swap_ranges(swapped.begin() + 80, swapped.begin() + 82, swapped.begin() + 82);
  EXPECT_FALSE(CheckState(layout, {7, 9}, swapped).ok());
  ASSERT_TRUE(CanonicalizeState(layout, {7, 9}, swapped).ok());
  EXPECT_EQ(swapped, bytes);
}

}  // namespace
}  // namespace tenuto
