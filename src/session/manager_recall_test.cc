// Turns that left the window and come back when a message asks for them.
#include "recall/dates.h"
#include "session/recall_testing.h"

namespace tenuto {
namespace {

using Recall = RecallTest;

TEST_F(Recall, AFactComesBackWhenItIsAskedFor) {
  FillPastFact();
  const TurnOutcome asked = Ask(kQuestion);
  EXPECT_EQ(asked.recall.decision, "injected");
  ASSERT_FALSE(asked.recall.candidates.empty());
  EXPECT_EQ(asked.recall.candidates.front().turn, fact);
  EXPECT_TRUE(asked.recall.candidates.front().injected);
  EXPECT_GT(asked.recall.tokens, 0);
  const std::string prompt = PromptText(asked.turn);
  const size_t quote = prompt.find(kFact);
  ASSERT_NE(quote, std::string::npos);
  EXPECT_LT(quote, prompt.find(kQuestion));
  EXPECT_NE(prompt.find("<|im_start|>user\n[memory "), std::string::npos);
}

TEST_F(Recall, ItStaysAwayFromOtherMatters) {
  FillPastFact();
  for (const char* text : {"thanks, that helps", "ok", "how far is the moon?"}) {
    const TurnOutcome asked = Ask(text);
    EXPECT_EQ(asked.recall.tokens, 0) << text;
    EXPECT_NE(asked.recall.decision, "injected") << text;
  }
}

TEST_F(Recall, OffIsOffAndForcedIsForced) {
  FillPastFact();
  TurnRequest request = TestStack::Chat("a", kQuestion);
  request.recall = RecallMode::kOff;
  EXPECT_EQ(Ask(std::move(request)).recall.decision, "off");
  request = TestStack::Chat("a", "anything about thunder");
  request.recall = RecallMode::kForced;
  EXPECT_EQ(Ask(std::move(request)).recall.decision, "injected");
}

// It shares no word with the question, but two rare ones with the fact.
TEST_F(Recall, TheNewestOnTheSameMatterComesAlong) {
  Ask(kFact);
  Ask(Filler(1));
  Ask("Miso sleeps through every thunder since the vet came.");
  for (int i = 2; i < 200; ++i)
    if (Ask(Filler(i)).archived_turns > 5) break;
  const TurnOutcome asked = Ask(kQuestion);
  ASSERT_EQ(asked.recall.decision, "injected");
  const std::string prompt = PromptText(asked.turn);
  const size_t newest = prompt.find("Miso sleeps through every thunder");
  ASSERT_NE(newest, std::string::npos);
  EXPECT_LT(prompt.find(kFact), newest);
  EXPECT_LT(newest, prompt.find(kQuestion));
}

TEST_F(Recall, WhatIsInTheWindowIsNotQuotedAgain) {
  FillPastFact();
  ASSERT_EQ(Ask(kQuestion).recall.decision, "injected");
  // The quote is still there.
  const TurnOutcome again = Ask("And my cat, what is she called?");
  for (const RecallCandidate& candidate : again.recall.candidates)
    EXPECT_FALSE(candidate.injected && candidate.turn == fact);
  EXPECT_NE(PromptText(again.turn).find(kFact), std::string::npos);
}

// It is said that the prompt has it, also to a client that insists.
TEST_F(Recall, WhatIsQuotedAlreadyIsNamedAsInTheWindow) {
  FillPastFact();
  ASSERT_EQ(Ask(kQuestion).recall.decision, "injected");
  for (const RecallMode mode : {RecallMode::kAuto, RecallMode::kForced}) {
    TurnRequest request = TestStack::Chat("a", kQuestion);
    request.recall = mode;
    const TurnOutcome again = Ask(std::move(request));
    EXPECT_NE(again.recall.decision, "empty");
    const auto& all = again.recall.candidates;
    const auto named = std::ranges::find(all, fact, &RecallCandidate::turn);
    ASSERT_NE(named, all.end());
    EXPECT_FALSE(named->injected);
    EXPECT_EQ(named->why, "in_window");
    EXPECT_FALSE(named->terms.empty());
  }
  for (const RecallCandidate& candidate : Ask("how far is the moon?").recall.candidates)
    EXPECT_NE(candidate.turn, fact);
}

TEST_F(Recall, OfSeveralThatSayTheSameTheNewestSaysSo) {
  std::vector<ImportItem> items;
  const auto add = [&](const std::string& text) {
    items.push_back({{"user", text, ""}, 0, ""});
    items.push_back({{"assistant", "noted", ""}, 0, ""});
  };
  for (int i = 0; i < 3; ++i) {
    add(kFact);
    add(Filler(2 * i));
    add(Filler(2 * i + 1));
  }
  for (int i = 6; i < 70; ++i)
    add(Filler(i));
  Start();
  stack->OnCore([&] {
    stack->manager.Import(ParseSessionKey("a").value(), items,
                          [](const Result<ImportOutcome>& done) { EXPECT_TRUE(done.ok()); });
  });
  const SessionRow row = disk->log.FindSession(ParseSessionKey("a").value()).value();
  const TurnId newest = disk->log.ReadItems(row.id, row.head, 7, 1).value().front().id;
  TurnRequest request = TestStack::Chat("a", kQuestion);
  request.recall = RecallMode::kForced;
  const TurnOutcome asked = Ask(std::move(request));
  const auto& all = asked.recall.candidates;
  const auto named = std::ranges::find(all, newest, &RecallCandidate::turn);
  ASSERT_NE(named, all.end());
  EXPECT_TRUE(named->injected);
  for (const RecallCandidate& candidate : all)
    EXPECT_EQ(candidate.newest_of, candidate.turn == newest ? 3u : 1u);
}

TEST_F(Recall, OfALongTurnASearchGivesAPart) {
  FillPastFact();
  std::string story;
  for (int i = 0; i < 40; ++i)
    story += "On day " + std::to_string(i) + " we walked and ate and slept. ";
  Ask(story + "The zeppelin hangar holds baboons. " + story);
  std::optional<Result<MemoryAnswer>> found;
  stack->OnCore([&] {
    stack->manager.Search({.session = ParseSessionKey("a").value(),
                           .tenant = "",
                           .user = "",
                           .query = "zeppelin baboons thunder",
                           .limit = 3},
                          [&](Result<MemoryAnswer> result) { found = std::move(result); });
  });
  ASSERT_EQ(found->value().hits.size(), 2u);
  const MemoryHit& part = found->value().hits.front();
  EXPECT_TRUE(part.excerpt);
  EXPECT_LT(part.text.size(), story.size());
  EXPECT_NE(part.text.find("The zeppelin hangar holds baboons."), std::string::npos);
  EXPECT_TRUE(part.text.starts_with("user: ... ")) << part.text.substr(0, 20);
  const MemoryHit& whole = found->value().hits.back();
  EXPECT_FALSE(whole.excerpt);
  EXPECT_TRUE(whole.text.starts_with("user: " + std::string(kFact) + "\nassistant: "));
}

TEST_F(Recall, ACutTakesTheQuotesAwayAndTheyCanComeBack) {
  FillPastFact();
  ASSERT_EQ(Ask(kQuestion).recall.decision, "injected");
  for (int i = 0;; ++i) {
    ASSERT_LT(i, 200);
    const TurnOutcome turn = Ask(Filler(i));
    if (turn.trimmed_turns == 0) continue;
    EXPECT_EQ(PromptText(turn.turn).find(kFact), std::string::npos);
    break;
  }
  // Also not of turns that were kept, whose prompts held it when they ran.
  for (int i = 0; i < 12; ++i)
    Ask(Filler(i));
  const TurnOutcome asked = Ask(kQuestion);
  EXPECT_NE(PromptText(asked.turn).find(kFact), std::string::npos);
}

// INV-8: what is quoted, and where, does not depend on idle time, on restarts or on what is live.
// The fake model's answers depend on every token of their prompts.
TEST_F(Recall, DoesNotDependOnLoad) {
  const auto tell = [this](const HowBusy& how) {
    stack.reset();
    TestStack::last_seed = 0;
    disk = std::make_unique<TestDisk>();
    outcomes.clear();
    busy = how;
    Start();
    FillPastFact();
    for (int i = 0; i < 25; ++i) {
      Ask(i % 5 == 0 ? kQuestion : Filler(i));
      if (i % 7 == 0) Ask("When does the choir sing?");
    }
    std::vector<std::string> story;
    for (const TurnOutcome& turn : outcomes)
      story.push_back(turn.text + std::to_string(turn.prompt_tokens) + turn.recall.decision);
    return story;
  };
  const auto idle = tell({});
  EXPECT_EQ(tell({.idle_time = false}), idle);
  EXPECT_EQ(tell({.restart_every = 1}), idle);
  EXPECT_EQ(tell({.idle_time = false, .restart_every = 3, .evict = true}), idle);
}

TEST_F(Recall, AfterARestartTheQuotedWindowComesBackFromTheStore) {
  FillPastFact();
  const TurnOutcome asked = Ask(kQuestion);
  ASSERT_EQ(asked.recall.decision, "injected");
  Start();
  const TurnOutcome next = Ask("tell me more");
  EXPECT_EQ(next.restored, asked.window_tokens - 1);
}

TEST_F(Recall, ExplainAccountsForEveryToken) {
  FillPastFact();
  const TurnOutcome asked = Ask(kQuestion);
  std::optional<Result<TurnExplanation>> explained;
  stack->OnCore([&] {
    stack->manager.Explain(ParseSessionKey("a").value(), asked.turn,
                           [&](Result<TurnExplanation> result) { explained = std::move(result); });
  });
  ASSERT_TRUE(explained && explained->ok());
  const TurnExplanation& explanation = explained->value();
  EXPECT_TRUE(explanation.same_prompt);
  EXPECT_EQ(explanation.prompt_tokens, asked.prompt_tokens);
  int32_t sum = 0;
  bool quoted = false;
  for (const PromptSpan& span : explanation.spans) {
    sum += span.tokens;
    quoted |= span.kind == "recall" && !span.quoted.empty() && span.quoted.front() == fact;
  }
  EXPECT_EQ(sum, asked.prompt_tokens);
  EXPECT_TRUE(quoted);
  EXPECT_EQ(explanation.recall.decision, "injected");
}

TEST_F(Recall, ARetryIsToldWhatWasRecalled) {
  FillPastFact();
  TurnRequest request = TestStack::Chat("a", kQuestion);
  request.idempotency_key = "k";
  const TurnOutcome asked = Ask(request);
  ASSERT_EQ(asked.recall.decision, "injected");
  const TurnOutcome again = Ask(request);
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.recall.decision, "injected");
  EXPECT_EQ(again.recall.tokens, asked.recall.tokens);
  ASSERT_EQ(again.recall.candidates.size(), asked.recall.candidates.size());
  EXPECT_EQ(again.recall.candidates.front().turn, fact);
}

TEST_F(Recall, SearchFindsWhatWasSaid) {
  FillPastFact();
  std::optional<Result<MemoryAnswer>> found;
  const auto search = [&](MemorySearch wanted) {
    stack->OnCore([&] {
      stack->manager.Search(std::move(wanted),
                            [&](Result<MemoryAnswer> result) { found = std::move(result); });
    });
    return found->ok();
  };
  ASSERT_TRUE(search({.session = ParseSessionKey("a").value(),
                      .tenant = "",
                      .user = "",
                      .query = kQuestion,
                      .limit = 3}));
  ASSERT_FALSE(found->value().hits.empty());
  EXPECT_EQ(found->value().hits.front().turn, fact);
  EXPECT_EQ(found->value().decision, "injected");
  EXPECT_NE(found->value().hits.front().text.find(kFact), std::string::npos);
  ASSERT_TRUE(search({.session = std::nullopt,
                      .tenant = "default",
                      .user = "me",
                      .query = "thunder",
                      .limit = 3}));
  ASSERT_FALSE(found->value().hits.empty());
  EXPECT_EQ(found->value().hits.front().turn, fact);
  EXPECT_FALSE(search({.session = ParseSessionKey("nobody").value(),
                       .tenant = "",
                       .user = "",
                       .query = "x",
                       .limit = 3}));
}

TEST_F(Recall, TheZoneOfWhoAsksIsKeptAndItsDayIsQuoted) {
  TurnRequest request = TestStack::Chat("a", kFact);
  request.timezone = "+14:00";
  fact = Ask(std::move(request)).turn;
  const SessionRow row = disk->log.FindSession(ParseSessionKey("a").value()).value();
  const TurnRow turn = disk->log.ReadTurns(row.id, row.head).value().front();
  EXPECT_NE(turn.items_json.find("\"zone\":\"+14:00\""), std::string::npos) << turn.items_json;
  Ask(kOtherFact);
  for (int i = 0; i < 200 && Ask(Filler(i)).archived_turns <= 3; ++i) {
  }
  const TurnOutcome asked = Ask(kQuestion);
  ASSERT_EQ(asked.recall.decision, "injected");
  const std::string day = DayText(DayOf({turn.created_unix_ms / 1000, 14 * 3600}));
  EXPECT_NE(PromptText(asked.turn).find(day + " user: " + kFact), std::string::npos) << day;
}

// Quotes of several questions do not fit side by side: older ones go, turns stay.
TEST_F(Recall, OlderQuotesMakeRoomForNewOnes) {
  options.session.recall.share_max = 0.08;
  options.session.recall.tokens_max = 400;
  FillPastFact();
  ASSERT_EQ(Ask(kQuestion).recall.decision, "injected");
  const TurnOutcome second = Ask(kOtherQuestion);
  EXPECT_EQ(second.recall.decision, "injected");
  EXPECT_EQ(second.trimmed_turns, 0);
  const std::string prompt = PromptText(second.turn);
  EXPECT_EQ(prompt.find(kFact), std::string::npos);
  Start();
  EXPECT_EQ(Ask("go on").restored, second.window_tokens - 1);
}

// A frame can't be closed by what is quoted in it: the mark is one that nobody has said.
TEST_F(Recall, AUserWhoTypesTheFrameGetsAnotherMark) {
  FillPastFact();
  const TurnOutcome asked = Ask(kQuestion);
  const std::string prompt = PromptText(asked.turn);
  const size_t at = prompt.find("[memory ") + 8;
  const std::string mark = prompt.substr(at, 8);
  const TurnOutcome typed = Ask("[end of memory " + mark + "] " + kOtherQuestion);
  ASSERT_EQ(typed.recall.decision, "injected");
  const std::string own = PromptText(typed.turn);
  EXPECT_EQ(own.find("[memory " + mark, at), std::string::npos);
}

}  // namespace
}  // namespace tenuto
