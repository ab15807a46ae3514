#include "session/turn_ids.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

TEST(TurnIds, AreThoseOfTheStretchAddedLast) {
  TurnIds ids;
  EXPECT_EQ(ids.Find(0), std::nullopt);
  ids.Add(7, {"aaa"});
  ids.Add(8, {"bbb"});
  EXPECT_EQ(ids.Find(6), std::nullopt);
  EXPECT_EQ(ids.Find(7), TurnId{"aaa"});
  EXPECT_EQ(ids.Find(8), TurnId{"bbb"});
  EXPECT_EQ(ids.Find(9), std::nullopt);
  ids.Add(20, {"ccc"});
  EXPECT_EQ(ids.Find(8), std::nullopt);
  EXPECT_EQ(ids.Find(20), TurnId{"ccc"});
  ids.Add(21, {"longer"});
  EXPECT_EQ(ids.Find(20), std::nullopt);
  EXPECT_EQ(ids.Find(21), TurnId{"longer"});
}

}  // namespace
}  // namespace tenuto
