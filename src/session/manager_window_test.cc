// Sessions longer than their window.
#include <gtest/gtest.h>

#include "session/testing.h"

namespace tenuto {
namespace {

constexpr int kTurns = 60;  // several windows of 500 tokens

TestStackOptions WithRoom() {
  TestStackOptions options;
  options.model.cells = 1500;
  return options;
}

std::string Question(int i) {
  return "question number " + std::to_string(i);
}

int32_t Tokens(const TurnOutcome& outcome, const std::string& code) {
  int32_t sum = 0;
  for (const KvReason& reason : outcome.reasons)
    if (reason.code == code) sum += reason.tokens;
  return sum;
}

struct Story {
  std::vector<TurnOutcome> turns;
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const TurnOutcome& turn : turns)
      texts.push_back(turn.text);
    return texts;
  }
  std::vector<int32_t> Prompts() const {
    std::vector<int32_t> prompts;
    for (const TurnOutcome& turn : turns)
      prompts.push_back(turn.prompt_tokens);
    return prompts;
  }
};

struct HowBusy {
  bool idle_time = true;
  int restart_every = 0;
  bool evict = false;
};

Story Tell(const HowBusy& how) {
  TestDisk disk;
  auto stack = std::make_unique<TestStack>(disk, WithRoom());
  Story story;
  for (int i = 0; i < kTurns; ++i) {
    stack->idle_time = how.idle_time;
    if (how.evict) stack->EvictAll();
    TurnRequest request = TestStack::Chat("a", Question(i));
    if (i == 0) request.messages.insert(request.messages.begin(), {"system", "be brief", ""});
    const auto answer = stack->Ask(std::move(request));
    EXPECT_TRUE(answer->ok()) << i << ": " << answer->result->error().message();
    if (!answer->ok()) break;
    story.turns.push_back(**answer);
    EXPECT_TRUE(stack->manager.CheckIdle()) << i;
    if (how.restart_every > 0 && i % how.restart_every == 0)
      stack = std::make_unique<TestStack>(disk, WithRoom());
  }
  return story;
}

TEST(ManagerWindow, ASessionHasNoEnd) {
  const Story story = Tell({});
  ASSERT_EQ(story.turns.size(), static_cast<size_t>(kTurns));
  int cuts = 0;
  int32_t archived = 0;
  for (int i = 0; i < kTurns; ++i) {
    const TurnOutcome& turn = story.turns[static_cast<size_t>(i)];
    EXPECT_LE(turn.window_tokens, turn.window_limit);
    EXPECT_EQ(turn.window_turns + turn.archived_turns, i + 1);
    EXPECT_EQ(turn.archived_turns, archived + turn.trimmed_turns);
    EXPECT_EQ(turn.reused + turn.restored + turn.recomputed, turn.prompt_tokens);
    archived = turn.archived_turns;
    cuts += turn.trimmed_turns > 0 ? 1 : 0;
  }
  EXPECT_GT(cuts, 3);
}

// INV-8: the same log, with no idle time and with endless idle time, live, evicted and restarted.
// The fake model's answer depends on every token of its prompt.
TEST(ManagerWindow, WhereACutFallsDoesNotDependOnLoad) {
  const Story idle = Tell({});
  for (const HowBusy& how : {HowBusy{.idle_time = false}, HowBusy{.restart_every = 1},
                             HowBusy{.idle_time = false, .restart_every = 1},
                             HowBusy{.idle_time = true, .restart_every = 7, .evict = true}}) {
    const Story other = Tell(how);
    EXPECT_EQ(other.Texts(), idle.Texts());
    EXPECT_EQ(other.Prompts(), idle.Prompts());
  }
}

// A message for which all turns go stands right behind the head: nothing is there to be closed, in
// the prompt as in the window.
TEST(ManagerWindow, AMessageThatDrivesAllTurnsOutClosesNothing) {
  for (const size_t bytes : {350u, 440u}) {
    TestDisk disk;
    auto stack = std::make_unique<TestStack>(disk);
    ASSERT_TRUE(stack->Ask("a", "begin")->ok());
    const auto answer = stack->Ask("a", std::string(bytes, 'x'));
    ASSERT_TRUE(answer->ok());
    EXPECT_EQ((**answer).window_turns, 1) << bytes;
    EXPECT_TRUE(stack->manager.CheckIdle()) << bytes;
    const int32_t tokens = (**answer).window_tokens;
    EXPECT_EQ(answer->turn->session->window.size(), tokens);
    stack = std::make_unique<TestStack>(disk);
    const auto next = stack->Ask("a", "on");
    ASSERT_TRUE(next->ok());
    EXPECT_TRUE((**next).trimmed_turns > 0 || (**next).restored == tokens - 1) << bytes;
  }
}

TEST(ManagerWindow, WithIdleTimeACutCostsNothing) {
  for (const TurnOutcome& turn : Tell({}).turns) {
    if (turn.trimmed_turns == 0) continue;
    EXPECT_EQ(Tokens(turn, "window"), 0);
    EXPECT_EQ(turn.recomputed, Tokens(turn, "new") + Tokens(turn, "tail"));
  }
}

TEST(ManagerWindow, WithoutIdleTimeACutIsDoneInTheTurnAndSaid) {
  int cuts = 0;
  for (const TurnOutcome& turn : Tell({.idle_time = false}).turns) {
    if (turn.trimmed_turns == 0) continue;
    ++cuts;
    EXPECT_GT(Tokens(turn, "window"), 0);
  }
  EXPECT_GT(cuts, 3);
}

TEST(ManagerWindow, ACutWindowComesBackFromTheStore) {
  int after_cut = 0;
  const Story story = Tell({.restart_every = 1});
  for (size_t i = 1; i < story.turns.size(); ++i) {
    const TurnOutcome& before = story.turns[i - 1];
    const TurnOutcome& turn = story.turns[i];
    if (before.trimmed_turns == 0 || turn.trimmed_turns > 0) continue;
    ++after_cut;
    EXPECT_EQ(turn.restored, before.window_tokens - 1);
  }
  EXPECT_GT(after_cut, 3);
}

class CutThatFails : public ::testing::Test {
 protected:
  // Asks until the next turn would be cut.
  int Fill() {
    for (int i = 0;; ++i) {
      const auto& window = stack.Ask("a", Question(i))->turn->session->window;
      const WindowLimits limits = stack.manager.context().settings.Limits(std::nullopt);
      if (window.PlanCut(20, 1, limits).value()) return i + 1;
    }
  }
  static TestStackOptions Discarding() {
    TestStackOptions options = WithRoom();
    options.session.commit_on_disconnect = false;
    return options;
  }
  TestDisk disk;
  TestStack stack{disk, Discarding()};
};

TEST_F(CutThatFails, LeavesTheWindowAsItWas) {
  const int turns = Fill();
  const auto answer = stack.Submit(TestStack::Chat("a", "lost"));
  // Until it is about to run, with its cut planned; then the client goes.
  while (answer->turn->phase < TurnPhase::kRestoring && stack.world.Step()) {
  }
  ASSERT_TRUE(answer->turn->cut.has_value());
  stack.OnCore([&] { stack.manager.Cancel(answer->turn, false); });
  ASSERT_FALSE(answer->ok());
  EXPECT_TRUE(stack.manager.CheckIdle());
  const auto next = stack.Ask("a", Question(turns));
  ASSERT_TRUE(next->ok());

  TestDisk steady_disk;
  TestStack steady(steady_disk, WithRoom());
  for (int i = 0; i < turns; ++i)
    steady.Ask("a", Question(i));
  EXPECT_EQ((**next).text, (**steady.Ask("a", Question(turns))).text);
  EXPECT_EQ((**next).window_turns + (**next).archived_turns, turns + 1);
}

TEST_F(CutThatFails, DeleteWhileAWindowIsComputedAhead) {
  Fill();
  stack.Submit(TestStack::Chat("a", Question(1000)));
  bool deleted = false;
  // At every step of what follows, a delete either is told to come back or ends cleanly.
  while (!deleted && stack.world.Step()) {
    if (!stack.running.empty()) continue;
    stack.core.Post([&] {
      stack.manager.Delete(ParseSessionKey("a").value(),
                           [&](Status status) { deleted = deleted || status.ok(); });
    });
  }
  stack.Settle();
  ASSERT_TRUE(deleted);
  EXPECT_TRUE(stack.manager.CheckIdle());
  EXPECT_EQ((**stack.Ask("a", "anew")).window_turns, 1);
}

// An import evicts what is live: not under the feet of a run.
TEST(ManagerWindow, AnImportWhileAWindowIsComputedAhead) {
  TestDisk disk;
  TestStackOptions options = WithRoom();
  options.engine_task_ns = 1'000'000'000;  // anything can happen during a step
  TestStack stack(disk, options);
  int turns = 0;
  for (bool ahead = false; !ahead; ++turns) {
    ASSERT_LT(turns, kTurns);
    const auto answer = stack.Submit(TestStack::Chat("a", Question(turns)));
    do {
      const SessionPtr& session = answer->turn->session;
      ahead = session != nullptr && session->spare.pins > 0 && session->spare.live_end > 0;
    } while (!ahead && stack.world.Step());
  }
  const auto import_and_go_on = [&](TestStack& told) {
    std::optional<bool> imported;
    told.core.Post([&] {
      told.manager.Import(ParseSessionKey("a").value(),
                          {{{"user", "old", ""}, 0, ""}, {{"assistant", "older", ""}, 0, ""}},
                          [&](const Result<ImportOutcome>& outcome) { imported = outcome.ok(); });
    });
    told.Settle();
    EXPECT_EQ(imported, true);
    EXPECT_TRUE(told.manager.CheckIdle());
    std::vector<std::string> texts;
    for (int i = 0; i < 12; ++i)
      texts.push_back((**told.Ask("a", Question(turns + i))).text);
    return texts;
  };
  const auto texts = import_and_go_on(stack);

  TestDisk steady_disk;
  TestStack steady(steady_disk, WithRoom());
  steady.idle_time = false;
  for (int i = 0; i < turns; ++i)
    steady.Ask("a", Question(i));
  EXPECT_EQ(texts, import_and_go_on(steady));
}

TEST(ManagerWindow, AHeadLargerThanItsShareIsRefusedWithTheNumbers) {
  TestDisk disk;
  TestStack stack(disk, WithRoom());
  TurnRequest request = TestStack::Chat("a", "hello");
  request.messages.insert(request.messages.begin(), {"system", std::string(250, 'x'), ""});
  const auto answer = stack.Ask(std::move(request));
  ASSERT_FALSE(answer->ok());
  EXPECT_EQ(answer->code(), Code::kInvalid);
  EXPECT_NE(answer->result->error().message().find("200"), std::string::npos)
      << answer->result->error().message();
}

TEST(ManagerWindow, AHeadLargerThanTheWindowIsRefusedWithTheSameNumbers) {
  TestDisk disk;
  TestStack stack(disk);
  TurnRequest request = TestStack::Chat("a", "hi");
  request.messages.insert(request.messages.begin(), {"system", std::string(700, 's'), ""});
  const auto refused = stack.Ask(std::move(request));
  ASSERT_FALSE(refused->ok());
  const std::string& message = refused->result->error().message();
  EXPECT_EQ(refused->result->error().field(), "messages");
  EXPECT_NE(message.find("the system prompt has 7"), std::string::npos) << message;
  EXPECT_NE(message.find("at most 200, 40 % of the window of 500"), std::string::npos) << message;
}

TEST(ManagerWindow, AMessageLargerThanTheWindowIsRefusedWithTheNumbers) {
  TestDisk disk;
  TestStack stack(disk, WithRoom());
  stack.Ask("a", "hello");
  const auto answer = stack.Ask("a", std::string(600, 'x'));
  ASSERT_FALSE(answer->ok());
  EXPECT_EQ(answer->code(), Code::kInvalid);
  EXPECT_NE(answer->result->error().message().find("500"), std::string::npos);
  EXPECT_EQ((**stack.Ask("a", "still there")).window_turns, 2);
}

}  // namespace
}  // namespace tenuto
