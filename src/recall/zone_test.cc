#include "recall/zone.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

constexpr int64_t kMay2024 = 1'715'300'000;
constexpr int64_t kJanuary2024 = 1'705'300'000;
constexpr int32_t kHour = 3600;

TEST(ZoneOffset, NamesFollowTheirSummerTime) {
  EXPECT_EQ(ZoneOffset("Asia/Tokyo", kMay2024), 9 * kHour);
  EXPECT_EQ(ZoneOffset("Europe/Berlin", kMay2024), 2 * kHour);
  EXPECT_EQ(ZoneOffset("Europe/Berlin", kJanuary2024), 1 * kHour);
  EXPECT_EQ(ZoneOffset("America/Los_Angeles", kJanuary2024), -8 * kHour);
  EXPECT_EQ(ZoneOffset("Asia/Kathmandu", kMay2024), 5 * kHour + 45 * 60);
  EXPECT_EQ(ZoneOffset("UTC", kMay2024), 0);
}

TEST(ZoneOffset, OffsetsAreTakenAsTheyAre) {
  EXPECT_EQ(ZoneOffset("+09:00", kMay2024), 9 * kHour);
  EXPECT_EQ(ZoneOffset("-0330", kMay2024), -(3 * kHour + 30 * 60));
  EXPECT_EQ(ZoneOffset("Z", kMay2024), 0);
  EXPECT_EQ(OffsetText(9 * kHour), "+09:00");
  EXPECT_EQ(OffsetText(-(3 * kHour + 30 * 60)), "-03:30");
  EXPECT_EQ(OffsetText(0), "Z");
}

TEST(ZoneOffset, AnythingElseIsNone) {
  for (const char* zone : {"", "Atlantis/Poseidonis", "+9", "+24:00", "+09:60", "Etc/Unknown",
                           "Europe/Berlin\n", "+-9:00", "09:00", "\xE6\x9D\xB1"})
    EXPECT_EQ(ZoneOffset(zone, kMay2024), std::nullopt) << zone;
  EXPECT_EQ(ZoneOffset(std::string(500, 'A'), kMay2024), std::nullopt);
}

}  // namespace
}  // namespace tenuto
