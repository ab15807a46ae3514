// What clients do to single turns: pins, marks, deletion.
#include <set>

#include "session/recall_testing.h"

namespace tenuto {
namespace {

class Marks : public RecallTest {
 protected:
  Result<TurnState> Change(const TurnId& turn, TurnChange change) {
    std::optional<Result<TurnState>> result;
    stack->OnCore([&] {
      stack->manager.ChangeTurn(ParseSessionKey("a").value(), turn, std::move(change),
                                [&](Result<TurnState> state) { result = std::move(state); });
    });
    return *result;
  }
  Result<TurnDeletion> Delete(const TurnId& turn) {
    std::optional<Result<TurnDeletion>> result;
    stack->OnCore([&] {
      stack->manager.DeleteTurn(ParseSessionKey("a").value(), turn,
                                [&](Result<TurnDeletion> gone) { result = std::move(gone); });
    });
    EXPECT_TRUE(stack->manager.CheckIdle());
    return *result;
  }
  static TurnChange Pinned(bool pinned) {
    TurnChange change;
    change.pinned = pinned;
    return change;
  }
  TurnId FirstOf(const std::string& session) {
    const SessionRow row = disk->log.FindSession(ParseSessionKey(session).value()).value();
    return disk->log.ReadItems(row.id, row.head, 1, 1).value().front().id;
  }
  void FillUntilCut() {
    for (int i = 0; i < 200; ++i)
      if (Ask(Filler(i)).trimmed_turns > 0) return;
    FAIL() << "never cut";
  }
};

TEST_F(Marks, ATurnThatIsNotToBeRecalledStaysAway) {
  FillPastFact();
  TurnChange change;
  change.recall = false;
  ASSERT_TRUE(Change(fact, change).ok());
  EXPECT_NE(PromptText(Ask(kQuestion).turn).find(kQuestion), std::string::npos);
  EXPECT_EQ(PromptText(outcomes.back().turn).find(kFact), std::string::npos);
  change.recall = true;
  ASSERT_TRUE(Change(fact, change).ok());
  EXPECT_EQ(Ask(kQuestion).recall.decision, "injected");
}

TEST_F(Marks, APinnedTurnStaysThroughCutsAndRestarts) {
  fact = Ask(kFact).turn;
  const TurnId second = Ask("The spare key is under the blue pot.").turn;
  ASSERT_TRUE(Change(second, Pinned(true)).ok());
  ASSERT_TRUE(Change(fact, Pinned(true)).ok());
  FillUntilCut();
  for (int round = 0; round < 3; ++round) {
    const TurnOutcome turn = Ask("ok");
    const std::string prompt = PromptText(turn.turn);
    EXPECT_LT(prompt.find(kFact), prompt.find("under the blue pot")) << prompt;
    EXPECT_NE(prompt.find("under the blue pot"), std::string::npos);
    Start();
    const TurnOutcome next = Ask("thanks");
    EXPECT_EQ(next.restored, turn.window_tokens - 1);
    FillUntilCut();
  }
  ASSERT_TRUE(Change(fact, Pinned(false)).ok());
  FillUntilCut();
  EXPECT_EQ(PromptText(outcomes.back().turn).find(kFact), std::string::npos);
  EXPECT_NE(PromptText(outcomes.back().turn).find("under the blue pot"), std::string::npos);
}

TEST_F(Marks, PinsLeaveRoomForAConversation) {
  std::vector<TurnId> turns;
  Status refused = Ok();
  for (int i = 0; i < 30 && refused; ++i) {
    turns.push_back(Ask(std::string(200, 'a') + Filler(i)).turn);
    if (const auto state = Change(turns.back(), Pinned(true)); !state.ok())
      refused = Status(state.error());
  }
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_EQ(refused.error().field(), "pinned");
  EXPECT_NE(refused.error().message().find("at most 1600"), std::string::npos)
      << refused.error().message();
}

TEST_F(Marks, ASupersededTurnBringsTheNewerOne) {
  FillPastFact();
  const TurnId newer = Ask("Correction: she goes by Pancake these days.").turn;
  for (int i = 0; i < 30; ++i)
    Ask(Filler(i + 100));
  TurnChange change;
  change.superseded_by = newer;
  ASSERT_TRUE(Change(fact, change).ok());
  const std::string prompt = PromptText(Ask(kQuestion).turn);
  EXPECT_NE(prompt.find(kFact), std::string::npos);
  EXPECT_NE(prompt.find("Pancake"), std::string::npos);
}

// What holds instead comes along only where the prompt lacks it.
class Superseded : public Marks {
 protected:
  void Supersede(const TurnId& older, const TurnId& newer) {
    TurnChange change;
    change.superseded_by = newer;
    ASSERT_TRUE(Change(older, change).ok());
  }
  void TalkOn(int turns) {
    for (int i = 0; i < turns; ++i)
      Ask(Filler(i + 100));
  }
  // What the prompt of an answer to the question quotes.
  std::set<std::string> Quoted() {
    const TurnOutcome asked = Ask(kQuestion);
    std::set<std::string> quoted;
    for (const RecallCandidate& candidate : asked.recall.candidates)
      if (candidate.injected) quoted.insert(candidate.turn.value);
    prompt = PromptText(asked.turn);
    return quoted;
  }
  using Ids = std::set<std::string>;
  size_t Count(const std::string& text) const {
    size_t count = 0;
    for (size_t at = prompt.find(text); at != std::string::npos; at = prompt.find(text, at + 1))
      ++count;
    return count;
  }
  std::string prompt;
};

TEST_F(Superseded, ATurnOfTheWindowIsNotQuotedBesideItself) {
  FillPastFact();
  Supersede(fact, Ask("By now she goes by Pancake.").turn);
  EXPECT_EQ(Quoted(), Ids{fact.value});
  EXPECT_EQ(Count("Pancake"), 1u);
}

TEST_F(Superseded, NorIsAPinnedOne) {
  fact = Ask(kFact).turn;
  const TurnId newer = Ask("By now the name is Pancake.").turn;
  ASSERT_TRUE(Change(newer, Pinned(true)).ok());
  Supersede(fact, newer);
  FillUntilCut();
  EXPECT_EQ(Quoted(), Ids{fact.value});
  EXPECT_EQ(Count("Pancake"), 1u);
}

TEST_F(Superseded, ATurnThatIsNeverRecalledIsNotBroughtAlong) {
  FillPastFact();
  const TurnId newer = Ask("By now it goes by Pancake.").turn;
  TurnChange change;
  change.recall = false;
  ASSERT_TRUE(Change(newer, change).ok());
  Supersede(fact, newer);
  TalkOn(40);
  EXPECT_EQ(Quoted(), Ids{fact.value});
  EXPECT_EQ(Count("Pancake"), 0u);
}

TEST_F(Superseded, OfAChainTheNewestComesAlong) {
  FillPastFact();
  const TurnId second = Ask("By now it goes by Pancake.").turn;
  const TurnId third = Ask("Later on that became Waffle.").turn;
  Supersede(fact, second);
  Supersede(second, third);
  TalkOn(40);
  EXPECT_EQ(Quoted(), (Ids{fact.value, third.value}));
  // Unless it is never to be recalled: then the newest that may be.
  TurnChange change;
  change.recall = false;
  ASSERT_TRUE(Change(third, change).ok());
  FillUntilCut();
  EXPECT_EQ(Quoted(), (Ids{fact.value, second.value}));
}

TEST_F(Superseded, OnlyALaterTurnHoldsInstead) {
  fact = Ask(kFact).turn;
  const TurnId later = Ask("By now it goes by Pancake.").turn;
  TurnChange change;
  change.superseded_by = fact;
  const auto refused = Change(later, change);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_EQ(refused.error().field(), "superseded_by");
  EXPECT_NE(refused.error().message().find("later"), std::string::npos);
  Supersede(fact, later);
  EXPECT_FALSE(Change(later, change).ok());  // which would be a loop
}

TEST_F(Marks, UnknownTurnsAreNotFound) {
  Ask(kFact);
  EXPECT_EQ(Change({"nothing"}, Pinned(true)).error().code(), Code::kNotFound);
  TurnChange change;
  change.superseded_by = TurnId{"nothing"};
  EXPECT_EQ(Change(outcomes.back().turn, change).error().field(), "superseded_by");
  change.superseded_by = outcomes.back().turn;
  EXPECT_EQ(Change(outcomes.back().turn, change).error().code(), Code::kInvalid);
  EXPECT_EQ(Delete({"nothing"}).error().code(), Code::kNotFound);
}

TEST_F(Marks, ADeletedTurnIsInNoPromptAnyMore) {
  FillPastFact();
  const TurnOutcome asked = Ask(kQuestion);
  ASSERT_EQ(asked.recall.decision, "injected");
  const auto deleted = Delete(fact);
  ASSERT_TRUE(deleted.ok()) << deleted.error().message();
  // Who had it whole before the window was cut, and who quoted it: stored_prompt_test.cc.
  ASSERT_GT(deleted->used_by.size(), 1u);
  EXPECT_EQ(deleted->used_by.front(), outcomes[1].turn);
  EXPECT_EQ(deleted->used_by.back(), asked.turn);
  EXPECT_EQ(Ask("tell me more").restored, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(PromptText(outcomes.back().turn).find("Miso and she"), std::string::npos);
    Ask(kQuestion);
  }
  EXPECT_EQ(Delete(fact).error().code(), Code::kNotFound);
}

TEST_F(Marks, AnExplanationKnowsThatATurnIsGone) {
  Ask("first matter");
  const TurnId second = Ask("second matter").turn;
  const TurnId third = Ask("third matter").turn;
  const auto same_prompt = [&](const TurnId& turn) {
    std::optional<Result<TurnExplanation>> explained;
    stack->OnCore([&] {
      stack->manager.Explain(ParseSessionKey("a").value(), turn,
                             [&](Result<TurnExplanation> told) { explained = std::move(told); });
    });
    return explained->value().same_prompt;
  };
  EXPECT_TRUE(same_prompt(third));
  ASSERT_TRUE(Delete(second).ok());
  EXPECT_FALSE(same_prompt(third));
  const TurnId fourth = Ask("fourth matter").turn;
  EXPECT_TRUE(same_prompt(fourth));
  ASSERT_TRUE(Delete(third).ok());
  EXPECT_FALSE(same_prompt(fourth));
}

TEST_F(Marks, ChangesOfOneTurnDoNotUndoEachOther) {
  Ask(kFact);
  TurnChange no_recall;
  no_recall.recall = false;
  int answers = 0;
  stack->OnCore([&] {
    const auto count = [&](const Result<TurnState>& state) { answers += state.ok() ? 1 : 0; };
    const auto key = ParseSessionKey("a").value();
    stack->manager.ChangeTurn(key, outcomes.back().turn, Pinned(true), count);
    stack->manager.ChangeTurn(key, outcomes.back().turn, no_recall, count);
  });
  EXPECT_EQ(answers, 2);
  const SessionRow row = disk->log.FindSession(ParseSessionKey("a").value()).value();
  const auto marks = disk->log.ReadTurnMarks(row.id).value();
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_TRUE(marks[0].pinned && marks[0].recall_off);
}

TEST_F(Marks, AnImportKeepsPinnedTurns) {
  ASSERT_TRUE(Change(Ask(kFact).turn, Pinned(true)).ok());
  std::vector<ImportItem> items;
  for (int i = 0; i < 120; ++i) {
    items.push_back({{"user", Filler(i), ""}, 0, ""});
    items.push_back({{"assistant", "noted", ""}, 0, ""});
  }
  stack->OnCore([&] {
    stack->manager.Import(ParseSessionKey("a").value(), items,
                          [](const Result<ImportOutcome>& done) { EXPECT_TRUE(done.ok()); });
  });
  EXPECT_NE(PromptText(Ask("go on").turn).find(kFact), std::string::npos);
}

// In the window, at its front, at its end: the conversation goes on.
TEST_F(Marks, AnyTurnOfTheWindowCanBeDeleted) {
  Ask("be brief from now on");
  Ask("first matter");
  Ask("second matter");
  const TurnId last = Ask("third matter").turn;
  for (const TurnId& turn : {outcomes[0].turn, outcomes[2].turn, last}) {
    ASSERT_TRUE(Delete(turn).ok());
    const TurnOutcome next = Ask("go on");
    const std::string prompt = PromptText(next.turn);
    // Whole messages, closed once: four control tokens a turn, of the last one three.
    EXPECT_EQ(std::count(prompt.begin(), prompt.end(), '<') % 4, 3) << prompt;
    EXPECT_TRUE(prompt.starts_with("<|im_start|>")) << prompt;
    EXPECT_EQ(prompt.find("<|im_end|>\n<|im_end|>"), std::string::npos) << prompt;
    Start();
    EXPECT_EQ(Ask("and on").restored, next.window_tokens - 1);
  }
}

}  // namespace
}  // namespace tenuto
