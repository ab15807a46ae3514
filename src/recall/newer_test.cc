#include "recall/newer.h"

#include <gtest/gtest.h>

#include "recall/testing.h"

namespace tenuto {
namespace {

using Turns = std::vector<uint32_t>;

class NewerTest : public testing::Test {
 protected:
  // The newest first.
  Turns After(uint32_t turn, std::string_view text) {
    const LaterTurns later =
        LaterOnTheSame(archive_.analyser, archive_.index, {turn, {1715342400, 0}, text});
    Turns turns = later.newest;
    turns.insert(turns.end(), later.closest.begin(), later.closest.end());
    return turns;
  }
  TestArchive archive_;
};

TEST_F(NewerTest, TwoRareWordsAreTheSameMatter) {
  const std::string_view old = "My favourite tea is Assam with milk from the Malabar shop.";
  archive_.Fill(30);
  const uint32_t first = archive_.Say(old);
  archive_.Fill(20);
  EXPECT_EQ(After(first, old), Turns{});
  const uint32_t sencha =
      archive_.Say("The Malabar shop has no Assam any more, I drink Sencha with lemon now.");
  archive_.Say("What was it with the Malabar shop and Assam?");  // only asks
  archive_.Say("Malabar is far away.");                          // one word
  archive_.Fill(20);
  EXPECT_EQ(After(first, old), Turns{sencha});
  EXPECT_EQ(After(sencha, "The Malabar shop has no Assam any more, I drink Sencha now."), Turns{});
  const uint32_t last = archive_.Say("They sell Assam at the Malabar shop again.");
  EXPECT_EQ(After(first, old), Turns{last});
}

// "Not 471100": a correction in words that no list has, and many turns later name the same.
TEST_F(NewerTest, WhatRepeatsTheOldValueComesBesideTheNewest) {
  const std::string_view old = "Gudrun opens the garage with 471100.";
  archive_.Fill(30);
  const uint32_t first = archive_.Say(old);
  archive_.Fill(30);
  const uint32_t other = archive_.Say("The garage of Gudrun has 471200 instead of 471100.");
  const uint32_t behind = archive_.Say("Perhaps 471300.");
  archive_.Fill(30);
  const uint32_t newest = archive_.Say("I met Gudrun at the garage.");
  archive_.Fill(30);
  EXPECT_EQ(After(first, old), (Turns{newest, other, behind}));
}

TEST_F(NewerTest, AFewWordsRightBehindGoAlong) {
  archive_.Say("Gudrun opens the garage with 471100.");
  archive_.Say("Mea culpa, it is 471200.");
  archive_.Say("The weather near the river is calm, and it should stay like that today.");
  EXPECT_EQ(BriefBehind(archive_.index, 0), 1);
  EXPECT_EQ(CorrectedBy(archive_.index, 0), -1);
  EXPECT_EQ(BriefBehind(archive_.index, 1), -1);
  EXPECT_EQ(BriefBehind(archive_.index, 2), -1);  // nothing is behind
}

TEST_F(NewerTest, OneWordSaidTwiceIsOne) {
  const std::string_view old = "I drink Assam, and nothing but Assam.";
  archive_.Fill(10);
  const uint32_t first = archive_.Say(old);
  archive_.Fill(10);
  archive_.Say("Assam is far away.");
  EXPECT_EQ(After(first, old), Turns{});
}

TEST_F(NewerTest, CommonWordsAreNot) {
  archive_.Fill(10);
  const uint32_t first = archive_.Say("The weather in Oslo is calm and the river rises.");
  archive_.Fill(60);
  EXPECT_EQ(After(first, "The weather in Oslo is calm and the river rises."), Turns{});
}

TEST_F(NewerTest, WhatTheAssistantSaidIsNot) {
  archive_.Fill(10);
  const uint32_t first = archive_.Say("The Malabar shop sells Assam.");
  archive_.Say("Tell me more.", "The Malabar shop sells Assam, as you said.");
  EXPECT_EQ(After(first, "The Malabar shop sells Assam."), Turns{});
}

}  // namespace
}  // namespace tenuto
