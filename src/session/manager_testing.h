// What the tests of SessionManager share: a stack over fakes that can be restarted.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "session/testing.h"

namespace tenuto {

// Of the outcome's recomputed tokens those with this reason.
inline int32_t Tokens(const TurnOutcome& outcome, const std::string& reason) {
  int32_t sum = 0;
  for (const KvReason& r : outcome.reasons)
    if (r.code == reason) sum += r.tokens;
  return sum;
}

class ManagerTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { EXPECT_TRUE(stack->manager.CheckIdle()); }

  // What a server that never lost anything answers to the same texts.
  static std::vector<std::string> Reference(const std::vector<std::string>& texts) {
    TestDisk own;
    TestStack stack(own);
    std::vector<std::string> answers;
    for (const std::string& text : texts)
      answers.push_back((**stack.Ask("ref", text)).text);
    return answers;
  }
  void Restart(TestStackOptions options = {}) {
    stack = std::make_unique<TestStack>(disk, std::move(options));
  }

  TestDisk disk;
  std::unique_ptr<TestStack> stack = std::make_unique<TestStack>(disk);
};

}  // namespace tenuto
