#include "recall/chance.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tenuto {
namespace {

TEST(ChanceTest, WaysToChoose) {
  EXPECT_DOUBLE_EQ(LogChoose(5, 0), 0.0);
  EXPECT_NEAR(LogChoose(5, 2), std::log(10.0), 0.01);
  EXPECT_NEAR(LogChoose(32, 16), std::log(601080390.0), 0.01);
  EXPECT_DOUBLE_EQ(LogChoose(7, 7), 0.0);
  EXPECT_DOUBLE_EQ(LogChoose(2, 3), 0.0);
}

TEST(ChanceTest, PoissonTails) {
  EXPECT_NEAR(LogPoissonTail(0.01, 1), std::log(0.01), 0.02);
  EXPECT_NEAR(LogPoissonTail(0.1, 3), std::log(0.000155), 0.1);
  EXPECT_DOUBLE_EQ(LogPoissonTail(4.0, 3), 0.0);
  EXPECT_LT(LogPoissonTail(0.5, 6), LogPoissonTail(0.5, 5));
}

}  // namespace
}  // namespace tenuto
