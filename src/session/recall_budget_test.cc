// What of an archived turn is quoted where the room is small: a part of it rather than nothing.
#include "session/recall_testing.h"

namespace tenuto {
namespace {

constexpr const char* kDentist = "My dentist in Uppsala is Dr. Quistgaard.";
constexpr const char* kDentistQuestion = "Who is my dentist in Uppsala?";
constexpr size_t kFrameBytes = 127;

std::string Walk(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i)
    text += "The gardener walked along the quiet river and thought of mill " + std::to_string(i) +
            " again. ";
  return text;
}

class RecallBudget : public RecallTest {
 protected:
  // Of the fake model a token is a byte.
  void Room(int32_t bytes) {
    options.session.recall.tokens_max = static_cast<int32_t>(kFrameBytes) + bytes;
    options.session.recall.share_max = 0.25;
  }
  // A session whose first turn said `user` and got `answer`, long ago.
  void Tell(const std::string& user, const std::string& answer) {
    if (!stack) Start();
    stack->OnCore([&] {
      stack->manager.Import(ParseSessionKey("a").value(),
                            {{{"user", user, ""}, 0, ""}, {{"assistant", answer, ""}, 0, ""}},
                            [](const Result<ImportOutcome>& done) { ASSERT_TRUE(done.ok()); });
    });
    const SessionRow row = disk->log.FindSession(ParseSessionKey("a").value()).value();
    told = row.head;
    FillPastFact();
  }
  const RecallCandidate* CandidateOf(const TurnOutcome& asked, const TurnId& turn) {
    for (const RecallCandidate& candidate : asked.recall.candidates)
      if (candidate.turn == turn) return &candidate;
    return nullptr;
  }
  // Asks, and gives what the prompt quotes.
  std::string Quoted(const std::string& question, RecallMode mode = RecallMode::kAuto) {
    TurnRequest request = TestStack::Chat("a", question);
    request.recall = mode;
    const TurnOutcome asked = Ask(std::move(request));
    const RecallCandidate* candidate = CandidateOf(asked, told);
    EXPECT_NE(candidate, nullptr);
    if (candidate == nullptr) return "";
    EXPECT_EQ(candidate->injected, asked.recall.tokens > 0) << candidate->why;
    EXPECT_LE(asked.recall.tokens, options.session.recall.tokens_max);
    why = candidate->why;
    const std::string prompt = PromptText(asked.turn);
    const size_t begin = prompt.rfind("[memory ");
    if (asked.recall.tokens == 0) return "";
    return prompt.substr(begin, static_cast<size_t>(asked.recall.tokens));
  }

  TurnId told;
  std::string why;
};

TEST_F(RecallBudget, OfALongTurnThePartThatMatchesIsQuoted) {
  Room(250);
  Tell(Walk(4) + kDentist + " " + Walk(4), "Fine. " + Walk(3));
  const std::string quoted = Quoted(kDentistQuestion);
  EXPECT_NE(quoted.find(kDentist), std::string::npos) << why << quoted;
  EXPECT_EQ(why, "matches");
}

TEST_F(RecallBudget, TheAnswerIsShortenedBeforeTheMessage) {
  Room(160);
  Tell(std::string(kDentist) + " Her place is beside the old town hall.", Walk(3));
  const std::string quoted = Quoted(kDentistQuestion);
  EXPECT_NE(quoted.find("Quistgaard. Her place is beside the old town hall.\n"), std::string::npos)
      << why << quoted;
}

// The answer alone has it: the message goes first.
TEST_F(RecallBudget, WhatMatchesIsShortenedLast) {
  Room(120);
  Tell("Go on with what was said on that, if it can be had at all, and do take care to name names.",
       "Ask the dentist in Uppsala, whose name is Quistgaard, about it.");
  const std::string quoted = Quoted("Who is the dentist in Uppsala?", RecallMode::kForced);
  EXPECT_NE(quoted.find("Quistgaard"), std::string::npos) << why << quoted;
}

TEST_F(RecallBudget, ASentenceWithoutSpacesIsShortenedToo) {
  Room(110);
  Tell(
      "\u6211\u59b9\u59b9\u7684\u72d7\u53eb\u997c\u5e72\uff0c\u5979\u4f4f\u5728\u4e0a\u6d77\u6d66"
      "\u4e1c\u65b0\u533a\u4e16\u7eaa\u5927\u9053\u7684\u4e00\u680b\u9ad8\u697c\u91cc\uff0c\u6bcf"
      "\u5929\u65e9\u4e0a\u90fd\u5e26\u72d7\u53bb\u516c\u56ed\u6563\u6b65\u3002",
      "\u597d\u53ef\u7231\uff0c\u6211\u4f1a\u8bb0\u4f4f\u7684\u3002");
  const std::string quoted =
      Quoted("\u6211\u59b9\u59b9\u7684\u72d7\u53eb\u4ec0\u4e48\u540d\u5b57\uff1f");
  EXPECT_NE(quoted.find("\u72d7\u53eb\u997c\u5e72"), std::string::npos) << why << quoted;
}

TEST_F(RecallBudget, WhereNotEvenAShortPartFitsItIsOverTheBudget) {
  Room(20);
  Tell(Walk(4) + kDentist + " " + Walk(4), "Fine.");
  EXPECT_EQ(Quoted(kDentistQuestion), "");
  EXPECT_EQ(why, "over_budget");
  EXPECT_EQ(outcomes.back().recall.decision, "gated");
}

// A pair that can't be quoted whole in any size: neither is, and neither is called a correction.
TEST_F(RecallBudget, WhatWouldHaveComeAlongIsOverTheBudgetToo) {
  Room(90);
  Tell(kDentist, "Fine.");
  const TurnId newer = Ask("Correction, by now it is " + Walk(2)).turn;
  for (int i = 0; i < 40; ++i)
    Ask(Filler(i + 100));
  TurnChange change;
  change.superseded_by = newer;
  stack->OnCore([&] {
    stack->manager.ChangeTurn(ParseSessionKey("a").value(), told, change,
                              [](const Result<TurnState>& state) { EXPECT_TRUE(state.ok()); });
  });
  EXPECT_EQ(Quoted(kDentistQuestion), "");
  EXPECT_EQ(why, "over_budget");
  const RecallCandidate* other = CandidateOf(outcomes.back(), newer);
  ASSERT_NE(other, nullptr);
  EXPECT_FALSE(other->injected);
  EXPECT_EQ(other->why, "over_budget");
}

// The same log gives the same prompt, whatever was shortened how (INV-8).
TEST_F(RecallBudget, ShortenedQuotesComeBackFromTheLog) {
  Room(200);
  Tell(Walk(4) + kDentist + " " + Walk(4), "Fine. " + Walk(3));
  ASSERT_NE(Quoted(kDentistQuestion), "");
  const TurnOutcome asked = outcomes.back();
  Start();
  EXPECT_EQ(Ask("tell me more").restored, asked.window_tokens - 1);
}

}  // namespace
}  // namespace tenuto
