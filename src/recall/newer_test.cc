#include "recall/newer.h"

#include <gtest/gtest.h>

#include "recall/testing.h"

namespace tenuto {
namespace {

class NewerTest : public testing::Test {
 protected:
  uint32_t After(uint32_t turn, std::string_view text) {
    return NewestOnTheSame(archive_.analyser, archive_.index, {turn, {1715342400, 0}, text});
  }
  TestArchive archive_;
};

TEST_F(NewerTest, TwoRareWordsAreTheSameMatter) {
  const std::string_view old = "My favourite tea is Assam with milk from the Malabar shop.";
  archive_.Fill(30);
  const uint32_t first = archive_.Say(old);
  archive_.Fill(20);
  EXPECT_EQ(After(first, old), 0U);
  const uint32_t sencha =
      archive_.Say("The Malabar shop has no Assam any more, I drink Sencha with lemon now.");
  archive_.Say("What was it with the Malabar shop and Assam?");  // only asks
  archive_.Say("Malabar is far away.");                          // one word
  archive_.Fill(20);
  EXPECT_EQ(After(first, old), sencha);
  EXPECT_EQ(After(sencha, "The Malabar shop has no Assam any more, I drink Sencha now."), 0U);
  const uint32_t last = archive_.Say("They sell Assam at the Malabar shop again.");
  EXPECT_EQ(After(first, old), last);
}

TEST_F(NewerTest, CommonWordsAreNot) {
  archive_.Fill(10);
  const uint32_t first = archive_.Say("The weather in Oslo is calm and the river rises.");
  archive_.Fill(60);
  EXPECT_EQ(After(first, "The weather in Oslo is calm and the river rises."), 0U);
}

TEST_F(NewerTest, WhatTheAssistantSaidIsNot) {
  archive_.Fill(10);
  const uint32_t first = archive_.Say("The Malabar shop sells Assam.");
  archive_.Say("Tell me more.", "The Malabar shop sells Assam, as you said.");
  EXPECT_EQ(After(first, "The Malabar shop sells Assam."), 0U);
}

}  // namespace
}  // namespace tenuto
