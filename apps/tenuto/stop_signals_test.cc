#include "stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace tenuto {
namespace {

// The tests themselves may run under nohup.
class StopSignalsTest : public testing::Test {
 protected:
  StopSignalsTest() {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    EXPECT_EQ(::sigaction(SIGHUP, &action, nullptr), 0);
  }
};
using StopSignalsDeathTest = StopSignalsTest;

TEST_F(StopSignalsTest, EachOfThemIsAnEventWhileServing) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto stop = StopSignals::Open();
    ASSERT_TRUE(stop.ok()) << stop.error().message();
    (*stop)->Serve();
    ::kill(::getpid(), signal);
    EXPECT_EQ((*stop)->Wait(), signal);
  }
}

TEST_F(StopSignalsTest, EndingWithoutASignalIsNoHang) {
  const auto stop = StopSignals::Open();
  ASSERT_TRUE(stop.ok());
}

// Whatever the main thread is at: it may be loading a model for minutes.
TEST_F(StopSignalsDeathTest, BeforeServingTheyEndTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EXIT(
        {
          const auto stop = StopSignals::Open();
          ::kill(::getpid(), signal);
          for (;;)
            ::pause();
        },
        testing::KilledBySignal(signal), "");
  }
}

TEST_F(StopSignalsTest, WhatNohupIgnoresStaysIgnored) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGHUP, &ignore, &before), 0);
  {
    const auto stop = StopSignals::Open();
    ASSERT_TRUE(stop.ok());
    (*stop)->Serve();
    ::kill(::getpid(), SIGHUP);
    ::kill(::getpid(), SIGTERM);
    EXPECT_EQ((*stop)->Wait(), SIGTERM);
  }
  ::sigaction(SIGHUP, &before, nullptr);
}

}  // namespace
}  // namespace tenuto
