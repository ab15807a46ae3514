#include "recall/gate.h"

#include <gtest/gtest.h>

#include <set>

#include "recall/testing.h"

namespace tenuto {
namespace {

using Turns = std::vector<uint32_t>;

TEST(GateTest, OpensForWhatChanceDoesNotExplain) {
  Ranking ranking;
  ranking.hits = {Hit(9, -6.0), Hit(2, -5.0), Hit(4, 0.5)};
  const GateResult result = ApplyGate(ranking, {});
  EXPECT_EQ(result.decision, RecallDecision::kInjected);
  EXPECT_EQ(result.injected, (Turns{2, 9}));  // in the order of time
  EXPECT_EQ(result.verdicts[2].why, RecallWhy::kChance);
  EXPECT_EQ(result.tokens, 200U);
}

TEST(GateTest, EmptyAndGatedDiffer) {
  EXPECT_EQ(ApplyGate({}, {}).decision, RecallDecision::kEmpty);
  Ranking ranking;
  ranking.hits = {Hit(1, 3.0)};
  EXPECT_EQ(ApplyGate(ranking, {}).decision, RecallDecision::kGated);
}

TEST(GateTest, SmallTalkOpensNothing) {
  Ranking ranking;
  ranking.hits = {Hit(1, -20.0)};
  ranking.cues.chat = true;
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[0].why, RecallWhy::kSmallTalk);
}

TEST(GateTest, InheritedWordsNeedAQuestion) {
  Ranking ranking;
  ranking.hits = {Hit(1, -20.0)};
  ranking.hits[0].units = 0;
  ranking.hits[0].inherited = 3;
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[0].why, RecallWhy::kInheritedOnly);
  ranking.cues.question = true;
  ranking.own_units = 2;
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[0].why, RecallWhy::kSmallTalk);
  ranking.cues.anaphoric = true;
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
  // "Since when?" can only be about what was said last, "Who made you?" is not.
  ranking.cues.anaphoric = false;
  ranking.own_units = 1;
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
  ranking.cues.addresses = true;
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[0].why, RecallWhy::kSmallTalk);
}

TEST(GateTest, AQuestionOfOneWordLeansOnTheLastTurnInWordsThatNoListHas) {
  TestArchive archive;
  archive.Fill(60);
  const uint32_t fact = archive.Say("Gudrun rents the garage in Kiel for 90 euros.");
  archive.Fill(60);
  const Question question = {
      "Mikort\u00f3l?", {1715429000, 0}, "Where does Gudrun rent the garage?", "In Kiel."};
  EXPECT_EQ(ApplyGate(archive.Rank(question), {}).injected, Turns{fact});
}

TEST(GateTest, TheWindowCompetes) {
  Ranking ranking;
  ranking.hits = {Hit(1, -20.0)};
  ranking.window_info = 10.5;
  ranking.window_own_info = 9.5;
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[0].why, RecallWhy::kMatches);
  ranking.hits[0].inherited = 1;  // then words of the last turn count on both sides
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[0].why, RecallWhy::kInWindow);
  ranking.hits[0].inherited = 0;
  ranking.window_own_info = 10.5;
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[0].why, RecallWhy::kInWindow);
}

TEST(GateTest, WhatSpeaksForTheArchiveOpensItWider) {
  Ranking ranking;
  ranking.hits = {Hit(1, -1.2)};
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
  ranking.hits[0].proper = true;
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
  ranking.hits[0].proper = false;
  ranking.cues.personal = true;
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
  ranking.cues.task = true;
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
  ranking.asked_before = true;
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
  ranking.hits[0].log_expected = 2.0;
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
  ranking.hits[0].dated = true;
  ranking.own_units = 3;
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
}

TEST(GateTest, LimitsAndBudget) {
  Ranking ranking;
  for (uint32_t i = 1; i <= 8; ++i)
    ranking.hits.push_back(Hit(i, -20.0));
  GateSettings settings;
  settings.hits_max = 3;
  GateResult result = ApplyGate(ranking, settings);
  EXPECT_EQ(result.injected, (Turns{1, 2, 3}));
  EXPECT_EQ(result.verdicts[3].why, RecallWhy::kOverLimit);
  for (RecallHit& hit : ranking.hits)
    hit.again = true;  // an earlier asking had them all
  EXPECT_EQ(ApplyGate(ranking, settings).injected, (Turns{1, 2, 3, 4, 5, 6}));
  settings.tokens_max = 250;
  result = ApplyGate(ranking, settings);
  EXPECT_EQ(result.injected, (Turns{1, 2}));
  EXPECT_EQ(result.verdicts[2].why, RecallWhy::kOverBudget);
  EXPECT_LE(result.tokens, 250U);
}

TEST(GateTest, FarBelowTheBestIsLeftOut) {
  Ranking ranking;
  ranking.hits = {Hit(1, -20.0, 10.0), Hit(2, -20.0, 1.0)};
  EXPECT_EQ(ApplyGate(ranking, {}).verdicts[1].why, RecallWhy::kFarBelowBest);
}

TEST(GateTest, WhatRanksAboveAMatchComesToo) {
  Ranking ranking;
  ranking.hits = {Hit(1, 3.0, 9.0), Hit(2, -20.0, 8.0), Hit(3, 3.0, 7.0)};
  ranking.hits[0].info = 1.0;
  GateResult result = ApplyGate(ranking, {});
  EXPECT_EQ(result.injected, (Turns{1, 2}));
  EXPECT_EQ(result.verdicts[0].why, RecallWhy::kRanksAbove);
  EXPECT_EQ(result.verdicts[1].why, RecallWhy::kMatches);
  EXPECT_EQ(result.verdicts[2].why, RecallWhy::kChance);
  // Alone it stays out, and so it does where what would open the gate is too faint.
  ranking.hits.resize(1);
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
  ranking.hits.push_back(Hit(2, -20.0, 0.1));
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
}

TEST(GateTest, TheNewestComesWithTheOld) {
  Ranking ranking;
  ranking.hits = {Hit(5, -20.0), Hit(7, 3.0)};
  ranking.hits[0].with = {7, 9};
  GateSettings settings;
  settings.hits_max = 1;
  const GateResult result = ApplyGate(ranking, settings);
  EXPECT_EQ(result.injected, (Turns{5, 7, 9}));
  EXPECT_EQ(result.verdicts[1].why, RecallWhy::kCorrection);
  EXPECT_EQ(result.verdicts[2].hit.turn, 9U);
}

TEST(GateTest, WhatCorrectsACorrectionComesToo) {
  Ranking ranking;
  ranking.hits = {Hit(5, -20.0), Hit(7, 3.0), Hit(8, 3.0)};
  ranking.hits[0].with = {7};
  ranking.hits[1].with = {8};
  ranking.hits[2].with = {5};  // a circle ends
  GateSettings settings;
  settings.hits_max = 1;
  EXPECT_EQ(ApplyGate(ranking, settings).injected, (Turns{5, 7, 8}));
}

TEST(GateTest, WordsOfOtherSentencesCountLess) {
  Ranking ranking;
  ranking.hits = {Hit(1, -3.0)};
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
  ranking.hits[0].apart = 4.0;
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
}

TEST(GateTest, TheDayAQuestionNamesIsEnough) {
  Ranking ranking;
  ranking.hits = {Hit(1, 2.0)};
  ranking.hits[0].units = 1;
  ranking.own_units = 4;
  ranking.hits[0].dated = true;
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
  ranking.cues.question = true;
  EXPECT_EQ(ApplyGate(ranking, {}).injected, Turns{1});
  ranking.hits[0].log_expected = 4.0;  // a day on which much was said
  EXPECT_TRUE(ApplyGate(ranking, {}).injected.empty());
}

TEST(GateTest, Forced) {
  Ranking ranking;
  ranking.hits = {Hit(1, 9.0), Hit(2, 9.0)};
  ranking.cues.chat = true;
  GateSettings settings;
  settings.force = true;
  settings.hits_max = 1;
  EXPECT_EQ(ApplyGate(ranking, settings).injected, Turns{1});
}

TEST(GateTest, EveryReasonHasAName) {
  std::set<std::string_view> names;
  for (int why = 0; why <= static_cast<int>(RecallWhy::kOverBudget); ++why) {
    names.insert(RecallWhyName(static_cast<RecallWhy>(why)));
  }
  EXPECT_EQ(names.size(), 11U);
}

TEST(GateTest, OneWordIsEnoughForAQuestionThatHasNoOther) {
  TestArchive archive;
  archive.Fill(60);
  const uint32_t dentist = archive.Say("My dentist is Dr. Krause.");
  archive.Fill(1);
  const uint32_t wife = archive.Say("My wife's name is Ulrike.");
  archive.Fill(1);
  const uint32_t rent = archive.Say("The rent is 640 euros a month.");
  archive.Fill(1);
  archive.Say("The piano is out of tune.");
  archive.Fill(1);
  archive.Say("Which fish?", "Penguins live near Galapagos and eat herring.");
  archive.Fill(60);
  const auto injected = [&](const char* text) {
    return ApplyGate(archive.Rank(text), {}).injected;
  };
  EXPECT_EQ(injected("Who is my dentist?"), Turns{dentist});
  EXPECT_EQ(injected("What's my wife called?"), Turns{wife});
  EXPECT_EQ(injected("What did you say about Galapagos?").size(), 1U);
  EXPECT_EQ(injected("How much is the rent?"), Turns{rent});
  EXPECT_TRUE(injected("How much is a piano?").empty());
  EXPECT_TRUE(injected("Is a dentist worth it?").empty());
  EXPECT_TRUE(injected("My dentist plays the trombone in a quartet.").empty());
}

TEST(GateTest, ADayIsEnoughForAQuestionAboutIt) {
  TestArchive archive;
  archive.day = -20;
  archive.Fill(100);
  archive.day = 0;
  const uint32_t sold = archive.Say("I sold the canoe.");
  archive.day = 1;
  const uint32_t bought = archive.Say("I purchased a telescope.");
  archive.Fill(1);
  archive.window_from = bought + 1;
  const auto injected = [&](const char* text) {
    const Moment now = {1715342400 + 2 * 86400 + 12000, 0};
    return ApplyGate(archive.Rank({text, now, {}, {}}), {}).injected;
  };
  EXPECT_EQ(injected("What happened yesterday?"), Turns{bought});
  EXPECT_EQ(injected("What did I purchase yesterday?"), Turns{bought});
  const Turns two_days_ago = injected("What did I sell two days ago?");
  ASSERT_FALSE(two_days_ago.empty());
  EXPECT_EQ(two_days_ago.front(), sold);
  EXPECT_TRUE(injected("What happened three days ago?").empty());
  EXPECT_TRUE(injected("Write a poem about three trains that left yesterday at noon.").empty());
}

TEST(GateTest, ThaiWordsAreWords) {
  TestArchive archive;
  archive.Fill(60);
  const uint32_t cat = archive.Say(
      "\u0e41\u0e21\u0e27\u0e02\u0e2d\u0e07\u0e19\u0e49\u0e2d\u0e07\u0e2a\u0e32\u0e27"
      "\u0e0a\u0e37\u0e48\u0e2d\u0e21\u0e30\u0e25\u0e34");  // my little sister's cat is called Mali
  archive.Fill(60);
  const char* question =  // what is my little sister's cat called
      "\u0e41\u0e21\u0e27\u0e02\u0e2d\u0e07\u0e19\u0e49\u0e2d\u0e07\u0e2a\u0e32\u0e27"
      "\u0e0a\u0e37\u0e48\u0e2d\u0e2d\u0e30\u0e44\u0e23";
  EXPECT_EQ(ApplyGate(archive.Rank(question), {}).injected, Turns{cat});
}

// What is told of many is asked of one who is seldom named: her name is enough.
TEST(GateTest, ANameIsEnoughWhereTheRestIsSaidOfOthers) {
  TestArchive archive;
  for (int i = 0; i < 12; ++i) {
    archive.Fill(20);
    archive.Say("Horst" + std::to_string(i) + " likes honey in the salad.");
  }
  const uint32_t fact = archive.Say("For Gudrun the greens must come with syrup.");
  archive.Fill(20);
  GateSettings settings;
  settings.log_named_matter = 6.0;  // the default asks for longer archives, or more of a name
  const auto quoted = [&](std::string_view text) {
    return ApplyGate(archive.Rank(text), settings).injected;
  };
  EXPECT_EQ(quoted("How does Gudrun like the salad?"), Turns{fact});
  // Nobody tells such things here.
  EXPECT_TRUE(quoted("Which trams and ferries does Gudrun like?").empty());
  EXPECT_TRUE(quoted("Gudrun likes the salad.").empty());
}

TEST(GateTest, OnlyWhatNamesTheSameCompetes) {
  TestArchive archive;
  archive.Fill(60);
  const uint32_t fact = archive.Say("I traced the wrong digest of Marlene back to the parser.");
  archive.Fill(60);
  archive.window_from = archive.Say("The checksum error of the nightly build came from the cache.");
  const char* question =
      "Was it the checksum error or the wrong digest in the nightly build of Marlene?";
  EXPECT_EQ(ApplyGate(archive.Rank(question), {}).injected, Turns{fact});
  archive.Say("Marlene had the same checksum error in the nightly build.");
  EXPECT_EQ(ApplyGate(archive.Rank(question), {}).verdicts[0].why, RecallWhy::kInWindow);
}

TEST(GateTest, EndToEnd) {
  TestArchive archive;
  archive.Fill(100);
  const uint32_t fact = archive.Say("Gudrun opens the garage with 4711.", "Saved.");
  archive.Fill(100);
  EXPECT_EQ(
      ApplyGate(archive.Rank("What is the code with which Gudrun opens the garage?"), {}).injected,
      Turns{fact});
  // Words of two turns that have nothing to do with each other.
  EXPECT_TRUE(
      ApplyGate(archive.Rank("Which spring weather goes with garage music?"), {}).injected.empty());
  EXPECT_TRUE(ApplyGate(archive.Rank("thanks!"), {}).injected.empty());
}

}  // namespace
}  // namespace tenuto
