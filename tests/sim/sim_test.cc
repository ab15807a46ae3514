// 200 seeds of the whole server in virtual time; TENUTO_SIM_SEEDS and TENUTO_SIM_FIRST run others
// by hand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/log.h"
#include "tests/sim/world.h"

namespace tenuto::sim {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read before any thread starts.
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

class Sim : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
};

TEST_F(Sim, NothingAcknowledgedIsLostOnAnySeed) {
  const uint64_t first = FromEnvironment("TENUTO_SIM_FIRST", 1);
  const uint64_t count = FromEnvironment("TENUTO_SIM_SEEDS", 200);
  World::Facts sum;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    WorldSettings settings;
    settings.seed = seed;
    World world(settings);
    ASSERT_EQ(world.Run(), "");
    sum.turns_acknowledged += world.facts().turns_acknowledged;
    sum.crashes += world.facts().crashes;
    sum.restored_tokens += world.facts().restored_tokens;
    sum.replays += world.facts().replays;
    sum.turns_past_the_window += world.facts().turns_past_the_window;
    sum.turns_that_quote += world.facts().turns_that_quote;
    sum.turns_behind_pins += world.facts().turns_behind_pins;
    sum.batch_turns += world.facts().batch_turns;
    sum.refusals += world.facts().refusals;
  }
  // The seeds reach what they are meant to reach.
  EXPECT_GT(sum.turns_acknowledged, count * 10);
  EXPECT_GT(sum.crashes, count / 10);
  EXPECT_GT(sum.restored_tokens, count);
  EXPECT_GT(sum.replays, 0u);
  EXPECT_GT(sum.turns_past_the_window, count);
  EXPECT_GT(sum.turns_that_quote, count / 2);
  EXPECT_GT(sum.turns_behind_pins, count / 2);
  EXPECT_GT(sum.batch_turns, count);
  EXPECT_GT(sum.refusals, count / 10);
}

TEST_F(Sim, OneSeedIsOneHistory) {
  const auto trace = [](uint64_t seed) {
    WorldSettings settings;
    settings.seed = seed;
    World world(settings);
    EXPECT_EQ(world.Run(), "");
    return world.facts().trace;
  };
  EXPECT_EQ(trace(7), trace(7));
  EXPECT_NE(trace(7), trace(8));
}

// The canary: a log that lies is found out, so a green run means something.
TEST_F(Sim, ALogThatForgetsIsCaught) {
  WorldSettings settings;
  settings.seed = 3;
  settings.lose_commits = true;
  World world(settings);
  EXPECT_NE(world.Run(), "");
}

}  // namespace
}  // namespace tenuto::sim
