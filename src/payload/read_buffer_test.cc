#include "payload/read_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tenuto {
namespace {

TEST(ReadBufferTest, IsAlignedForEverySizeAndStaysPut) {
  for (const size_t bytes : {size_t{1}, size_t{4095}, size_t{4097}, size_t{8} << 20}) {
    ReadBuffer buffer(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    const std::span<std::byte> all = buffer.First(bytes);
    ASSERT_EQ(all.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.data()) % ReadBuffer::kAlignBytes, 0U);
    all.front() = std::byte{1};
    all.back() = std::byte{2};
    EXPECT_EQ(buffer.First(1).data(), all.data());
  }
}

TEST(ReadBufferDeathTest, GivesNoMoreThanItHas) {
  ReadBuffer buffer(10);
  EXPECT_DEATH(buffer.First(11), "internal error");
  EXPECT_DEATH(ReadBuffer(0), "internal error");
}

}  // namespace
}  // namespace tenuto
