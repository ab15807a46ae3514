// For tests of recall: a session with facts that have left the window.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "session/prepare.h"
#include "session/stored_prompt.h"
#include "session/testing.h"

namespace tenuto {

// Of the fake model a token is a byte.
inline TestStackOptions LongWindow() {
  TestStackOptions options;
  options.model.window = 4000;
  options.model.cells = 12000;
  options.session.window_tokens = 4000;
  options.session.recall.share_max = 0.3;
  options.session.recall.tokens_max = 900;
  return options;
}

inline const std::vector<std::string>& Topics() {
  static const std::vector<std::string> topics = {
      "the tram to the harbour was late again", "tomatoes on the balcony need more water",
      "a museum ticket costs twelve crowns",    "the printer in the office has no paper",
      "rain is expected over the hills",        "this novel has three hundred pages",
      "the choir sings on thursday evenings",   "my bicycle tyre is flat once more"};
  return topics;
}

inline std::string Filler(int i) {
  return Topics()[static_cast<size_t>(i) % Topics().size()] + ", note " + std::to_string(i);
}

struct HowBusy {
  bool idle_time = true;
  int restart_every = 0;
  bool evict = false;
};

inline constexpr const char* kFact = "My cat is called Miso and she is afraid of thunder.";
inline constexpr const char* kOtherFact = "The spare key to the boathouse hangs behind the clock.";
inline constexpr const char* kOtherQuestion = "Where does the spare key to the boathouse hang?";
inline constexpr const char* kQuestion = "What is my cat called?";

class RecallTest : public ::testing::Test {
 protected:
  void Start() { stack = std::make_unique<TestStack>(*disk, options); }
  const TurnOutcome& Ask(TurnRequest request) {
    if (!stack) Start();
    if (busy.evict) stack->EvictAll();
    stack->idle_time = busy.idle_time;
    const auto answer = stack->Ask(std::move(request));
    EXPECT_TRUE(answer->ok()) << answer->result->error().message();
    EXPECT_TRUE(stack->manager.CheckIdle());
    outcomes.push_back(**answer);
    if (busy.restart_every > 0 && outcomes.size() % static_cast<size_t>(busy.restart_every) == 0)
      Start();
    return outcomes.back();
  }
  const TurnOutcome& Ask(const std::string& text) { return Ask(TestStack::Chat("a", text)); }

  // The fact, then small matters until it has left the window.
  void FillPastFact() {
    fact = Ask(kFact).turn;
    Ask(kOtherFact);
    for (int i = 0; i < 200; ++i)
      if (Ask(Filler(i)).archived_turns > 3) return;
    FAIL() << "the window is never full";
  }
  std::string PromptText(const TurnId& turn) {
    const SessionRow row = disk->log.FindSession(ParseSessionKey("a").value()).value();
    const auto stored =
        ReadStoredPrompt(disk->log, TokenizerOf(stack->engine), row, turn, {}).value();
    EXPECT_TRUE(stored.same);
    std::string text;
    for (const TokenId token : stored.tokens())
      text += stack->engine.TokenText(token, true);
    return text;
  }

  std::unique_ptr<TestDisk> disk = std::make_unique<TestDisk>();
  TestStackOptions options = LongWindow();
  std::unique_ptr<TestStack> stack;
  HowBusy busy;
  std::vector<TurnOutcome> outcomes;
  TurnId fact;
};

}  // namespace tenuto
