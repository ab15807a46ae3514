#include "session/buffer_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace tenuto {
namespace {

TEST(BufferPoolTest, GivesTheSameMemoryAgain) {
  const auto pool = std::make_shared<BufferPool>(2, 0);
  std::byte* const first = pool->Get(100)->First(1).data();
  EXPECT_EQ(pool->Get(50)->First(1).data(), first);
}

// A small piece must not put a buffer into the pool that the next large one can't use.
TEST(BufferPoolTest, BuffersAreOfTheUsualSizeWhateverIsAskedFor) {
  const auto pool = std::make_shared<BufferPool>(1, 1000);
  std::byte* const first = pool->Get(10)->First(1).data();
  EXPECT_EQ(pool->Get(1000)->First(1000).data(), first);
  EXPECT_EQ(pool->Get(5000)->size(), 5000U);
}

TEST(BufferPoolTest, MakesItsBuffersAtTheStartAndMoreWhenTheyAreInUse) {
  const auto pool = std::make_shared<BufferPool>(2, 1000);
  std::set<std::byte*> seen;
  std::vector<std::shared_ptr<ReadBuffer>> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(pool->Get(1));
    seen.insert(held.back()->First(1).data());
  }
  EXPECT_EQ(seen.size(), 3U);
}

TEST(BufferPoolTest, ABufferMayOutliveThePool) {
  auto pool = std::make_shared<BufferPool>(1, 0);
  const auto buffer = pool->Get(10);
  pool.reset();
  buffer->First(10)[9] = std::byte{1};
  EXPECT_EQ(buffer->First(10)[9], std::byte{1});
}

}  // namespace
}  // namespace tenuto
