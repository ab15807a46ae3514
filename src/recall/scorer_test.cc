#include "recall/scorer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "recall/newer.h"
#include "recall/testing.h"

namespace tenuto {
namespace {

using Turns = std::vector<uint32_t>;

TEST(ScorerTest, TheTurnThatSaysItIsFirst) {
  TestArchive archive;
  archive.Fill(30);
  const uint32_t fact = archive.Say("Gudrun opens the garage with 4711.", "Saved.");
  archive.Fill(30);
  archive.Say("Gudrun came by again.", "Nice.");
  archive.Fill(30);
  const Ranking ranking = archive.Rank("With what does Gudrun open the garage?");
  ASSERT_FALSE(ranking.hits.empty());
  EXPECT_EQ(ranking.hits[0].turn, fact);
  EXPECT_EQ(ranking.hits[0].units, 3U);
  EXPECT_LT(ranking.hits[0].log_expected, -2.0);
}

TEST(ScorerTest, LanguagesFindTheirWords) {
  TestArchive archive;
  archive.Fill(20);
  const uint32_t german = archive.Say("Horst z\u00e4hlt die Katzen im G\u00e4rtchen.", "Gut.");
  const uint32_t chinese = archive.Say(
      "\u738b\u82b3\u628a\u94a5\u5319\u653e\u5728\u505c\u8f66\u68da\u91cc\u3002", "\u597d\u3002");
  const uint32_t thai = archive.Say(
      "\u0e2a\u0e21\u0e0a\u0e32\u0e22\u0e40\u0e25\u0e35\u0e49\u0e22\u0e07\u0e41\u0e21\u0e27\u0e44"
      "\u0e27"
      "\u0e49\u0e17\u0e35\u0e48\u0e1a\u0e49\u0e32\u0e19",
      "\u0e14\u0e35");
  EXPECT_EQ(archive.Rank("Wo war die Katze von Horst?").hits.at(0).turn, german);
  EXPECT_EQ(archive.Rank("\u738b\u82b3\u7684\u94a5\u5319\u5728\u54ea\u91cc\uff1f").hits.at(0).turn,
            chinese);
  EXPECT_EQ(archive
                .Rank("\u0e2a\u0e21\u0e0a\u0e32\u0e22\u0e21\u0e35\u0e41\u0e21\u0e27\u0e44\u0e2b"
                      "\u0e21")
                .hits.at(0)
                .turn,
            thai);
}

TEST(ScorerTest, OnlyCandidatesAreHits) {
  TestArchive archive;
  const uint32_t early = archive.Say("The garnet is in the river.");
  archive.Fill(5);
  const uint32_t late = archive.Say("The garnet is on the shelf.");
  archive.window_from = late;
  const Ranking ranking = archive.Rank("Where is the garnet?");
  EXPECT_EQ(TurnsOf(ranking), Turns{early});
  EXPECT_GT(ranking.window_info, 0.0);
  // A question of a moment ago says nothing.
  archive.window_from = archive.Say("Where is the garnet?");
  EXPECT_EQ(archive.Rank("Where is the garnet?").window_info, 0.0);
  // A sibling branch is not in the ranges.
  const Query query = BuildQuery(archive.analyser, archive.index,
                                 {"Where is the garnet?", {1715429000, 0}, {}, {}});
  EXPECT_TRUE(archive.scorer.Rank(archive.index, query, {{{2, 5}}, {}}, 5).hits.empty());
}

TEST(ScorerTest, QuestionsAreNoEvidence) {
  TestArchive archive;
  archive.Fill(20);
  const uint32_t fact = archive.Say("Gudrun has the garnet, it stands in the hall by the stairs.");
  archive.Say("Where is Gudrun's garnet?", "I am not sure.");
  archive.Say("Does Gudrun have a garnet?", "Perhaps.");
  EXPECT_EQ(archive.Rank("Where is Gudrun's garnet?").hits.at(0).turn, fact);
}

TEST(ScorerTest, WhatTheAssistantSaidCountsWhenItIsAskedFor) {
  TestArchive archive;
  archive.Fill(20);
  const uint32_t advice =
      archive.Say("Can you suggest something?", "For Gudrun I would take a garnet lamp.");
  archive.Say("Gudrun bought a garnet lamp, and a garnet ring, she says.", "Nice.");
  archive.Fill(20);
  EXPECT_EQ(archive.Rank("Which lamp did you suggest for Gudrun?").hits.at(0).turn, advice);
}

TEST(ScorerTest, AnAnswerFromRecallPointsToItsSource) {
  TestArchive archive;
  const uint32_t fact = archive.Say("The garnet of Gudrun lies in the boathouse at the lake.");
  archive.Fill(20);
  archive.Say("Where is Gudrun's garnet?", "Gudrun's garnet is in the boathouse.", {fact});
  const Ranking ranking = archive.Rank("Where is the garnet that Gudrun has?");
  ASSERT_FALSE(ranking.hits.empty());
  EXPECT_EQ(ranking.hits[0].turn, fact);
}

TEST(ScorerTest, ASourceThatSharesNoWordIsFound) {
  TestArchive archive;
  const uint32_t fact = archive.Say("She keeps it in the boathouse.");
  archive.Fill(20);
  archive.Say("Where is Gudrun's garnet?", "In the boathouse.", {fact});
  const Ranking ranking = archive.Rank("Where is Gudrun's garnet?");
  ASSERT_FALSE(ranking.hits.empty());
  EXPECT_EQ(ranking.hits[0].turn, fact);
  EXPECT_TRUE(ranking.hits[0].source);
  EXPECT_TRUE(ranking.hits[0].again);
}

// Somebody else's garnet was asked for, and much was quoted then.
TEST(ScorerTest, SourcesOfAnotherQuestionDoNotOutrankWhatMatches) {
  TestArchive archive;
  const uint32_t fact = archive.Say("The little stone of Gudrun is in the boathouse.");
  for (int i = 0; i < 3; ++i) {
    archive.Say("Gudrun was at the river, plume" + std::to_string(i) + "a.");
    archive.Say("A little rain fell today, plume" + std::to_string(i) + "b.");
  }
  Turns quoted;
  for (const char* const there : {"in the shed", "in the attic", "in the cellar", "at the bank"})
    quoted.push_back(archive.Say(std::string("She said that it should be ") + there + "."));
  archive.Say("Which box was picked for the new little garnet of Irmela?", "A red one.", quoted);
  archive.Fill(20);
  const Turns turns =
      TurnsOf(archive.Rank("Which box was picked for the new little garnet of Gudrun?", 12));
  ASSERT_FALSE(turns.empty());
  EXPECT_EQ(turns[0], fact);
  EXPECT_TRUE(std::ranges::count(turns, quoted[0]) > 0);  // found all the same
}

TEST(ScorerTest, ACorrectionRightBehindComesAlong) {
  TestArchive archive;
  archive.Fill(20);
  const uint32_t old = archive.Say("Gudrun named the dog Bruno.");
  const uint32_t fix = archive.Say("No wait, sorry, it's Castor.", "Okay.");
  archive.Fill(20);
  const Ranking ranking = archive.Rank("What did Gudrun name the dog?");
  ASSERT_GE(ranking.hits.size(), 2U);
  EXPECT_EQ(ranking.hits[0].turn, old);
  EXPECT_EQ(ranking.hits[0].with, Turns{fix});
  EXPECT_EQ(ranking.hits[1].turn, fix);
}

// It came along in its time, and is a source like the old one; what was said since is not.
TEST(ScorerTest, ASourceBringsAlongWhatWasSaidSince) {
  TestArchive archive;
  archive.Fill(20);
  const uint32_t fact = archive.Say("She keeps it in the boathouse.");
  const uint32_t fix = archive.Say("Oho, the shed.");
  archive.Fill(20);
  archive.Say("Where is Gudrun's garnet?", "In the shed.", {fact, fix});
  archive.Fill(20);
  const Ranking ranking = archive.Rank("Where is Gudrun's garnet?");
  const auto found = std::ranges::find(ranking.hits, fact, &RecallHit::turn);
  ASSERT_NE(found, ranking.hits.end());
  EXPECT_EQ(found->since, fix);
  RecallHit hit = *found;
  hit.with.clear();
  const uint32_t later = archive.Say("By now she keeps it in the attic, no more in the boathouse.");
  const OlderTurn older = {fact, {1715342400, 0}, "She keeps it in the boathouse."};
  AddLater(archive.analyser, archive.index, std::vector<TurnRange>{{1, later + 1}}, older, hit);
  EXPECT_EQ(hit.with, Turns{later});
  hit.since = later;
  hit.with.clear();
  AddLater(archive.analyser, archive.index, std::vector<TurnRange>{{1, later + 1}}, older, hit);
  EXPECT_EQ(hit.with, Turns{});
}

TEST(ScorerTest, ANewerFactComesAlong) {
  TestArchive archive;
  const uint32_t old = archive.Say("Gudrun pays 40 dollars for the garage, every month.");
  archive.Fill(40);
  const uint32_t fix = archive.Say(
      "Correction, since spring it is different: for the garage Gudrun pays 55 dollars.");
  archive.Fill(20);
  const Ranking ranking = archive.Rank("How much does Gudrun pay for the garage?");
  for (const RecallHit& hit : ranking.hits) {
    if (hit.turn == old) {
      EXPECT_EQ(hit.with, Turns{fix});
    }
  }
  const Turns turns = TurnsOf(ranking);
  EXPECT_TRUE(std::count(turns.begin(), turns.end(), fix) == 1);
}

TEST(ScorerTest, NearDuplicatesComeOnceAndNewest) {
  TestArchive archive;
  archive.Say("The garnet is in the river.");
  archive.Fill(3);
  const uint32_t newest = archive.Say("the garnet IS in the river!");
  const Ranking ranking = archive.Rank("Where is the garnet?");
  EXPECT_EQ(TurnsOf(ranking), Turns{newest});
}

TEST(ScorerTest, DaysInAnySpelling) {
  TestArchive archive;
  Turns days;
  for (int day = 1; day <= 28; ++day) {
    days.push_back(archive.Say("Weather report for Lyme, 2024-02-" +
                               std::string(day < 10 ? "0" : "") + std::to_string(day) +
                               ": high 12, low 3."));
  }
  EXPECT_EQ(archive.Rank("How was the weather in Lyme on 17 February?").hits.at(0).turn, days[16]);
  EXPECT_EQ(archive.Rank("weather in Lyme, February 3rd, 2024").hits.at(0).turn, days[2]);
}

TEST(ScorerTest, TiesGoToTheNewerAndRunsAreEqual) {
  TestArchive archive;
  archive.Say("A garnet over here, plume.");
  archive.Say("A garnet over there, quark.");
  const Ranking one = archive.Rank("garnet");
  const Ranking two = archive.Rank("garnet");
  EXPECT_EQ(TurnsOf(one), (Turns{2, 1}));
  EXPECT_EQ(TurnsOf(one), TurnsOf(two));
  EXPECT_EQ(one.hits[0].score, two.hits[0].score);
}

TEST(ScorerTest, ChanceGrowsWithTheArchive) {
  // The same two words in one turn are less of a surprise among more turns that have either.
  double before = -1e9;
  for (const uint32_t others : {5u, 50u, 500u}) {
    TestArchive archive;
    archive.Say("The garnet and the topaz.");
    for (uint32_t i = 0; i < others; ++i) {
      archive.Say("One garnet, plume" + std::to_string(i) + "x.");
      archive.Say("One topaz, quark" + std::to_string(i) + "y.");
    }
    const Ranking ranking = archive.Rank("the garnet and topaz mystery");
    ASSERT_FALSE(ranking.hits.empty());
    EXPECT_GT(ranking.hits[0].log_expected, before);
    before = ranking.hits[0].log_expected;
  }
}

TEST(ScorerTest, SomebodyElsesFactIsFurtherDown) {
  TestArchive archive;
  archive.Fill(20);
  const uint32_t hers = archive.Say("Every week there is a rehearsal in Arvid, with Gudrun.");
  archive.Say("We meet for the hearing that Periphine holds in Northwold.");
  const Ranking ranking = archive.Rank("Where do we meet for the hearing with Gudrun?");
  ASSERT_FALSE(ranking.hits.empty());
  EXPECT_EQ(ranking.hits[0].turn, hers);
  EXPECT_TRUE(ranking.hits[0].proper);
}

TEST(ScorerTest, TheSameWordsAgainMakeRoomForOthers) {
  TestArchive archive;
  archive.Fill(30);
  for (int i = 0; i < 8; ++i) {
    archive.Say("The garnet near the topaz, plume" + std::to_string(i) + "x.");
  }
  const uint32_t other = archive.Say("The emerald is somewhere else altogether, in a far valley.");
  const Turns turns = TurnsOf(archive.Rank("garnet topaz emerald", 5));
  EXPECT_EQ(turns.size(), 5U);
  EXPECT_EQ(std::count(turns.begin(), turns.end(), other), 1);
}

TEST(ScorerTest, TheSameQuestionAskedBeforeIsSaid) {
  TestArchive archive;
  const uint32_t fact = archive.Say("The garnet of Gudrun lies in the boathouse.");
  archive.Fill(5);
  EXPECT_FALSE(archive.Rank("Where is Gudrun's garnet?").asked_before);
  archive.Say("Where is Gudrun's garnet?", "I don't know.");
  const Ranking ranking = archive.Rank("where is Gudrun's garnet?");
  EXPECT_TRUE(ranking.asked_before);
  EXPECT_EQ(ranking.hits.at(0).turn, fact);
}

TEST(ScorerTest, WordsOfOneSentenceBelongTogether) {
  TestArchive archive;
  archive.Fill(60);
  const uint32_t one = archive.Say("We ate bread. The garnet is in the boathouse. It rained.");
  const uint32_t two = archive.Say("A topaz was found. Then it rained. Is the cellar dry?");
  const Ranking together = archive.Rank("garnet boathouse");
  ASSERT_EQ(together.hits.at(0).turn, one);
  EXPECT_EQ(together.hits[0].apart, 0.0);
  const Ranking apart = archive.Rank("topaz cellar");
  ASSERT_EQ(apart.hits.at(0).turn, two);
  EXPECT_GT(apart.hits[0].apart, 3.0);  // about one word's worth
  const double next = archive.Rank("topaz rained").hits.at(0).apart;
  EXPECT_GT(next, 0.0);
  EXPECT_LT(next, apart.hits[0].apart);
}

TEST(ScorerTest, AFewWordsRightBehindGoWithTheHit) {
  TestArchive archive;
  archive.Fill(30);
  const uint32_t fact = archive.Say("The garnet of Gudrun lies in the boathouse.");
  const uint32_t brief = archive.Say("Oho, the shed.");
  archive.Fill(30);
  const Ranking ranking = archive.Rank("Where is Gudrun's garnet?");
  ASSERT_EQ(ranking.hits.at(0).turn, fact);
  EXPECT_EQ(ranking.hits[0].with, Turns{brief});
}

TEST(ScorerTest, NothingToFind) {
  TestArchive archive;
  EXPECT_TRUE(archive.Rank("anything").hits.empty());
  archive.Fill(3);
  EXPECT_TRUE(archive.Rank("emerald").hits.empty());
  EXPECT_TRUE(archive.Rank("???").hits.empty());
  EXPECT_TRUE(archive.Rank("river", 0).hits.empty());
}

}  // namespace
}  // namespace tenuto
