#include "schedule/pace.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(AdmissionPace, SaysASecondWhereItKnowsNothing) {
  const AdmissionPace pace;
  EXPECT_EQ(pace.SecondsFor(100, kSecondNs), 1);
}

TEST(AdmissionPace, TellsFromTheGapsOfTurnsThatWaited) {
  AdmissionPace pace;
  int64_t now = 0;
  pace.Waiting(true, now);
  for (int i = 0; i < 50; ++i) {
    now += 3 * kSecondNs;
    pace.Admitted(now);
  }
  EXPECT_EQ(pace.SecondsFor(1, now), 3);
  EXPECT_EQ(pace.SecondsFor(7, now), 21);
  EXPECT_EQ(pace.SecondsFor(1'000'000, now), 600);
}

TEST(AdmissionPace, TheTimeInWhichNobodyWaitedDoesNotCount) {
  AdmissionPace pace;
  pace.Waiting(true, 0);
  pace.Admitted(2 * kSecondNs);
  pace.Waiting(false, 2 * kSecondNs);
  pace.Admitted(1000 * kSecondNs);
  pace.Waiting(true, 2000 * kSecondNs);
  EXPECT_EQ(pace.SecondsFor(1, 2000 * kSecondNs), 2);
}

TEST(AdmissionPace, AStandstillIsNotHidden) {
  AdmissionPace pace;
  pace.Waiting(true, 0);
  pace.Admitted(kSecondNs);
  EXPECT_EQ(pace.SecondsFor(1, 41 * kSecondNs), 40);
}

}  // namespace
}  // namespace tenuto
