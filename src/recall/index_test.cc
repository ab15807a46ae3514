#include "recall/index.h"

#include <gtest/gtest.h>

#include "recall/testing.h"

namespace tenuto {
namespace {

// Of a plain word that no stemmer changes.
const Postings* Find(const RecallIndex& index, std::string_view word) {
  return index.Find(KeyOf(TermSort::kWord, word));
}

TEST(IndexTest, CountsByPart) {
  TestArchive archive;
  archive.Say("The garnet is red. Is the garnet old?", "A garnet is a stone, a topaz too.");
  archive.Say("Nothing here.", "Only a topaz.");
  const Postings* garnet = Find(archive.index, "garnet");
  ASSERT_NE(garnet, nullptr);
  EXPECT_EQ(garnet->df, 1U);
  EXPECT_EQ(garnet->df_user, 1U);
  ForEachPosting(*garnet, [](uint32_t passage, TermCounts counts) {
    EXPECT_EQ(passage, 0U);
    EXPECT_EQ(counts, (TermCounts{1, 1, 1, 0, 3}));
  });
  const Postings* topaz = Find(archive.index, "topaz");
  ASSERT_NE(topaz, nullptr);
  EXPECT_EQ(topaz->df, 2U);
  EXPECT_EQ(topaz->df_user, 0U);
  EXPECT_EQ(Find(archive.index, "emerald"), nullptr);
}

TEST(IndexTest, ToolOutputIsOutsideOfTheStatistics) {
  TestArchive archive;
  archive.Say("Run it.", "Done.\n```\ngarnet garnet\n```\nAll topaz.");
  const Postings* garnet = Find(archive.index, "garnet");
  ASSERT_NE(garnet, nullptr);
  EXPECT_EQ(garnet->df, 0U);
  EXPECT_EQ(garnet->all, 1U);
  ForEachPosting(*garnet, [](uint32_t, TermCounts counts) { EXPECT_EQ(counts.tool, 2); });
  ASSERT_NE(Find(archive.index, "topaz"), nullptr);
  EXPECT_EQ(archive.index.passages()[0].answer_tokens, 3);  // done, all, topaz
}

TEST(IndexTest, LongTurnsArePassages) {
  TestArchive archive;
  std::string text;
  for (int i = 0; i < 450; ++i)
    text += "word" + std::to_string(i) + "q ";
  archive.Say(text, "The garnet.");
  ASSERT_EQ(archive.index.passages().size(), 3U);
  uint32_t tokens = 0;
  for (const PassageInfo& passage : archive.index.passages()) {
    EXPECT_LE(passage.user_tokens + passage.answer_tokens, int{kPassageTokensMax});
    tokens += passage.user_tokens;
  }
  EXPECT_EQ(tokens, 450U);
  ForEachPosting(*Find(archive.index, "garnet"),
                 [](uint32_t passage, TermCounts) { EXPECT_EQ(passage, 2U); });
}

TEST(IndexTest, AMegabyteIsTakenAndMoreIsCut) {
  TestArchive archive;
  const std::string text(3 * kTurnTextBytesMax, 'a');
  archive.Say(text, std::string(2000, ' '));
  archive.Say("", "");
  EXPECT_EQ(archive.index.turns().size(), 2U);
  EXPECT_EQ(archive.index.turns()[0].tokens, 1U);
}

TEST(IndexTest, FlagsOfATurn) {
  TestArchive archive;
  archive.Say("What is the code?");
  archive.Say("The code is 4711.");
  archive.Say("No wait, I meant the other.");
  const auto& turns = archive.index.turns();
  EXPECT_TRUE(turns[0].Is(TurnInfo::kBareQuestion));
  EXPECT_FALSE(turns[1].Is(TurnInfo::kBareQuestion));
  EXPECT_TRUE(turns[1].Is(TurnInfo::kHasNumber));
  EXPECT_TRUE(turns[2].Is(TurnInfo::kCorrects));
  EXPECT_TRUE(turns[2].Is(TurnInfo::kShort));
}

TEST(IndexTest, TheNameOfAMessageIsATerm) {
  RecallIndex index;
  Analyser analyser;
  ArchivedTurn turn;
  turn.turn = 1;
  turn.user = "hello";
  turn.name = "Gudrun";
  index.Add(analyser, turn);
  EXPECT_NE(Find(index, "gudrun"), nullptr);
}

TEST(IndexTest, RemoveLeavesNothingBehind) {
  TestArchive with;
  TestArchive without;
  for (TestArchive* archive : {&with, &without})
    archive->Say("The river is calm today.");
  const uint32_t gone = with.Say("The canary garnet is in the river.", "A garnet.", {1});
  with.Say("Rivers rise in spring.");
  ++without.turns;
  without.Say("Rivers rise in spring.");

  EXPECT_FALSE(with.index.Remove(99));
  ASSERT_TRUE(with.index.Remove(gone));
  EXPECT_FALSE(with.index.Remove(gone));
  EXPECT_EQ(Find(with.index, "garnet"), nullptr);
  EXPECT_EQ(Find(with.index, "canari"), nullptr);
  EXPECT_EQ(with.index.TurnAt(gone), -1);
  EXPECT_TRUE(with.index.RecalledBy(1).empty());
  EXPECT_EQ(with.index.turns_live(), 2U);
  EXPECT_EQ(with.index.passages_live(), without.index.passages_live());
  EXPECT_DOUBLE_EQ(with.index.AverageTokens(0.1), without.index.AverageTokens(0.1));
  EXPECT_EQ(with.index.MedianUserTokens(), without.index.MedianUserTokens());
  for (const char* word : {"river", "calm", "spring"}) {
    ASSERT_NE(Find(with.index, word), nullptr) << word;
    EXPECT_EQ(Find(with.index, word)->df, Find(without.index, word)->df) << word;
  }
  EXPECT_EQ(TurnsOf(with.Rank("the garnet river")), TurnsOf(without.Rank("the garnet river")));
}

TEST(IndexTest, OneSessionNeverMovesAnothers) {
  TestArchive one;
  one.Say("The garnet is in the river.");
  one.Say("A quiet day at the lake.");
  const double before = one.Rank("where is the garnet?").hits.at(0).score;
  TestArchive other;
  for (int i = 0; i < 50; ++i)
    other.Say("The garnet again and again.");
  EXPECT_EQ(one.Rank("where is the garnet?").hits.at(0).score, before);
}

TEST(IndexTest, AnEmptyIndex) {
  RecallIndex index;
  EXPECT_EQ(index.OptionsAt({}).fallback, Language::kUnknown);
  EXPECT_EQ(index.MedianUserTokens(), 0U);
  EXPECT_EQ(index.TurnAt(1), -1);
  EXPECT_DOUBLE_EQ(index.AverageTokens(0.1), 1.0);
}

}  // namespace
}  // namespace tenuto
