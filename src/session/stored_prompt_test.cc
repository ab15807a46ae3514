// What explain, replay and a deletion say of one turn agrees: whose prompts held it.
#include "session/stored_prompt.h"

#include <algorithm>

#include "session/recall_testing.h"

namespace tenuto {
namespace {

class HeldTurns : public RecallTest {
 protected:
  static SessionKey Key() { return ParseSessionKey("a").value(); }
  SessionRow Row() { return disk->log.FindSession(Key()).value(); }
  TurnExplanation Explained(const TurnId& turn) {
    std::optional<Result<TurnExplanation>> explained;
    stack->OnCore([&] {
      stack->manager.Explain(Key(), turn,
                             [&](Result<TurnExplanation> told) { explained = std::move(told); });
    });
    EXPECT_TRUE(explained->ok());
    return std::move(*explained).value();
  }
  Result<TurnPrompt> Prompt(const TurnId& turn, const TurnId& without = {}) {
    std::optional<Result<TurnPrompt>> prompt;
    stack->OnCore([&] {
      stack->manager.ReadPrompt(Key(), turn, without,
                                [&](Result<TurnPrompt> read) { prompt = std::move(read); });
    });
    return *prompt;
  }
  std::string TextWithout(const TurnId& turn, const TurnId& without) {
    const auto prompt = Prompt(turn, without);
    EXPECT_TRUE(prompt.ok()) << prompt.error().message();
    std::string text;
    if (prompt.ok())
      for (const TokenId token : prompt->tokens)
        text += stack->engine.TokenText(token, true);
    return text;
  }
  Result<TurnDeletion> Delete(const TurnId& turn) {
    std::optional<Result<TurnDeletion>> result;
    stack->OnCore([&] {
      stack->manager.DeleteTurn(Key(), turn,
                                [&](Result<TurnDeletion> gone) { result = std::move(gone); });
    });
    return *result;
  }
  void Pin(const TurnId& turn) {
    TurnChange change;
    change.pinned = true;
    stack->OnCore([&] {
      stack->manager.ChangeTurn(Key(), turn, change,
                                [](const Result<TurnState>& state) { EXPECT_TRUE(state.ok()); });
    });
  }
  // Turns in whose explanation it stands.
  std::vector<TurnId> Explaining(const TurnId& turn) {
    std::vector<TurnId> holders;
    for (const TurnOutcome& outcome : outcomes) {
      if (outcome.turn == turn) continue;
      const TurnExplanation explained = Explained(outcome.turn);
      if (std::ranges::any_of(explained.spans, [&](const PromptSpan& span) {
            return span.turn == turn || std::ranges::find(span.quoted, turn) != span.quoted.end();
          }))
        holders.push_back(outcome.turn);
    }
    return holders;
  }
  static bool Has(const std::vector<TurnId>& turns, const TurnId& turn) {
    return std::ranges::find(turns, turn) != turns.end();
  }
};

TEST_F(HeldTurns, ADeletionNamesEveryPromptThatExplainShows) {
  FillPastFact();
  const TurnId asked = Ask(kQuestion).turn;
  ASSERT_EQ(outcomes.back().recall.decision, "injected");
  const TurnId followed = Ask("and is it safe?").turn;  // the quotation is still there
  for (int i = 0; i < 60; ++i)
    Ask(Filler(i + 100));
  ASSERT_EQ(PromptText(outcomes.back().turn).find(kFact), std::string::npos);
  for (const TurnId& turn :
       {fact, outcomes[1].turn, outcomes[20].turn, asked, outcomes.back().turn})
    EXPECT_EQ(ReadUsers(disk->log, Row(), turn).value(), Explaining(turn)) << turn.value;
  const std::vector<TurnId> shown = Explaining(fact);
  const auto deleted = Delete(fact);
  ASSERT_TRUE(deleted.ok());
  EXPECT_EQ(deleted->used_by, shown);
  EXPECT_TRUE(Has(shown, outcomes[1].turn));  // which had it whole
  EXPECT_TRUE(Has(shown, asked));
  EXPECT_TRUE(Has(shown, followed));
  EXPECT_FALSE(Has(shown, outcomes.back().turn));
}

TEST_F(HeldTurns, APinnedTurnWasInEveryPrompt) {
  fact = Ask(kFact).turn;
  Ask(kOtherFact);
  Pin(fact);
  for (int i = 0; i < 200 && outcomes.back().archived_turns < 4; ++i)
    Ask(Filler(i));
  const auto users = ReadUsers(disk->log, Row(), fact).value();
  EXPECT_EQ(users.size(), outcomes.size() - 1);
  EXPECT_EQ(users, Explaining(fact));
  EXPECT_NE(PromptText(outcomes.back().turn).find(kFact), std::string::npos);
  EXPECT_EQ(TextWithout(outcomes.back().turn, fact).find(kFact), std::string::npos);
}

TEST_F(HeldTurns, WhatWasImportedUsedNothing) {
  Ask(kFact);
  stack->OnCore([&] {
    stack->manager.Import(Key(), {{{"user", "tea?", ""}, 0, ""}, {{"assistant", "yes", ""}, 0, ""}},
                          [](const Result<ImportOutcome>& done) { EXPECT_TRUE(done.ok()); });
  });
  const TurnId last = Ask("go on").turn;
  EXPECT_EQ(ReadUsers(disk->log, Row(), outcomes.front().turn).value(), std::vector<TurnId>{last});
}

TEST_F(HeldTurns, AReplayCanDoWithoutAnyTurnOfThePrompt) {
  FillPastFact();
  const TurnId asked = Ask(kQuestion).turn;
  const TurnId followed = Ask("and is it safe?").turn;
  for (const TurnId& turn : {asked, followed}) {
    EXPECT_NE(PromptText(turn).find(kFact), std::string::npos);
    EXPECT_EQ(TextWithout(turn, fact).find(kFact), std::string::npos);
  }
  // Whole in the window: left out as a deletion would.
  const std::string without = TextWithout(followed, asked);
  EXPECT_EQ(without.find(kQuestion), std::string::npos);
  EXPECT_NE(without.find("and is it safe?"), std::string::npos);
  ASSERT_TRUE(Delete(asked).ok());
  EXPECT_EQ(TextWithout(followed, {}), without);
  const auto refused = Prompt(followed, outcomes[1].turn);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field(), "without");
}

TEST_F(HeldTurns, AnotherPromptSaysWhy) {
  FillPastFact();
  const TurnId asked = Ask(kQuestion).turn;
  const TurnId followed = Ask("and is it safe?").turn;
  EXPECT_EQ(Prompt(followed)->differs, "");
  EXPECT_EQ(Prompt(followed, fact)->differs, "without");
  ASSERT_TRUE(Delete(fact).ok());
  EXPECT_EQ(Prompt(asked)->differs, "deleted");
  EXPECT_EQ(Prompt(followed)->differs, "deleted");
  EXPECT_EQ(Prompt(followed, asked)->differs, "deleted");
  EXPECT_FALSE(Explained(asked).same_prompt);
  const TurnId next = Ask("tell me more").turn;
  EXPECT_EQ(Prompt(next)->differs, "");
}

}  // namespace
}  // namespace tenuto
