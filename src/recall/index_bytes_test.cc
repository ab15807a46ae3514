#include <gtest/gtest.h>

#include <algorithm>

#include "format/bytes.h"
#include "format/checksum.h"
#include "recall/testing.h"

namespace tenuto {
namespace {

constexpr size_t kHeaderBytes = 32;

TestArchive Sample() {
  TestArchive archive;
  archive.Say("Gudrun opens the garage with 4711.", "Saved.");
  archive.Fill(40);
  archive.Say("What opens the garage?", "With 4711.\n```\nlog garage\n```", {1});
  archive.index.Remove(5);
  return archive;
}

// Makes the checksum fit again after a change.
void Reseal(std::vector<std::byte>& bytes) {
  const std::span<std::byte> all(bytes);
  PutLe<uint64_t>(all, 16, bytes.size() - kHeaderBytes - kChecksumBytes);
  PutLe(all, bytes.size() - kChecksumBytes, ChecksumOf(all.first(all.size() - kChecksumBytes)));
}

TEST(IndexBytesTest, AnEmptyIndexIsAsDocumented) {
  const auto bytes = RecallIndex().Encode();
  EXPECT_EQ(bytes.size(), 54U);
  EXPECT_TRUE(AllZero(std::span(bytes).subspan(kHeaderBytes, 14)));
  EXPECT_TRUE(RecallIndex::Decode(bytes).ok());
}

TEST(IndexBytesTest, WhatIsReadIsWhatWasWritten) {
  TestArchive archive = Sample();
  const auto bytes = archive.index.Encode();
  auto read = RecallIndex::Decode(bytes);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->Encode(), bytes);
  EXPECT_EQ(read->turns_live(), archive.index.turns_live());
  EXPECT_EQ(read->passages_live(), archive.index.passages_live());
  EXPECT_EQ(read->MedianUserTokens(), archive.index.MedianUserTokens());
  EXPECT_EQ(read->RecalledBy(41).size(), 1U);
  const Ranking before = archive.Rank("what opens the garage of Gudrun?");
  archive.index = std::move(*read);
  const Ranking after = archive.Rank("what opens the garage of Gudrun?");
  ASSERT_EQ(TurnsOf(before), TurnsOf(after));
  for (size_t i = 0; i < before.hits.size(); ++i) {
    EXPECT_EQ(before.hits[i].score, after.hits[i].score);
  }
}

TEST(IndexBytesTest, AReadIndexGoesOnGrowing) {
  TestArchive archive = Sample();
  auto read = RecallIndex::Decode(archive.index.Encode());
  ASSERT_TRUE(read.ok());
  TestArchive copy;
  copy.index = std::move(*read);
  copy.turns = archive.turns;
  archive.Say("A garnet in the garage.");
  copy.Say("A garnet in the garage.");
  EXPECT_EQ(archive.index.Encode(), copy.index.Encode());
}

TEST(IndexBytesTest, EveryFlippedByteIsNoticed) {
  const auto bytes = Sample().index.Encode();
  for (size_t at = 0; at < bytes.size(); at += at < 64 ? 1 : 37) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    EXPECT_FALSE(RecallIndex::Decode(damaged).ok()) << at;
  }
}

TEST(IndexBytesTest, EveryCutIsNoticed) {
  const auto bytes = Sample().index.Encode();
  for (size_t size = 0; size < bytes.size(); size += 11) {
    EXPECT_FALSE(RecallIndex::Decode(std::span(bytes).first(size)).ok()) << size;
  }
}

TEST(IndexBytesTest, AnotherVersionIsRefusedAsOne) {
  for (const int other : {kRecallIndexVersion - 1, kRecallIndexVersion + 1}) {
    auto bytes = Sample().index.Encode();
    PutLe<uint16_t>(std::span(bytes), 8, static_cast<uint16_t>(other));
    Reseal(bytes);
    const auto read = RecallIndex::Decode(bytes);
    ASSERT_FALSE(read.ok()) << other;
    EXPECT_EQ(read.error().code(), Code::kInvalid) << other;
  }
}

// Asks, adds to and takes from an index that need not be in order.
void UseAll(RecallIndex index) {
  TestArchive archive;
  archive.index = std::move(index);
  archive.turns = 1'000'000;  // the next to add, behind all of Sample()
  (void)archive.Rank("How calm is the weather near the river in spring?");
  const auto& turns = archive.index.turns();
  if (turns.empty() || turns.back().turn <= archive.turns) archive.Say("Rivers near weather.");
  (void)archive.Rank("How calm is the weather near the river in spring?");
  archive.index.Remove(9);
  EXPECT_TRUE(RecallIndex::Decode(archive.index.Encode()).ok());
}

// Bytes that fit their checksum and are wrong all the same: a reader must not trust them, nor those
// of the terms that most passages have, which are looked at late.
TEST(IndexBytesTest, ResealedDamageNeverCrashes) {
  const auto bytes = Sample().index.Encode();
  size_t refused = 0;
  for (size_t at = kHeaderBytes; at + kChecksumBytes < bytes.size(); ++at) {
    for (const unsigned flip : {0x80u, 0x01u, 0xFFu}) {
      auto damaged = bytes;
      damaged[at] ^= static_cast<std::byte>(flip);
      Reseal(damaged);
      auto read = RecallIndex::Decode(damaged);
      if (read.ok()) {
        EXPECT_LE(read->turns_live(), 42U);
        UseAll(std::move(*read));
      } else {
        ++refused;
        EXPECT_EQ(read.error().code(), Code::kCorrupt);
      }
    }
  }
  EXPECT_GT(refused, bytes.size() / 10);
}

// A term that many passages have: what is stored of it is bounded, its entries are not looked at.
TEST(IndexBytesTest, TheEntriesOfACommonTermAreReadUpToItsLast) {
  TestArchive archive;
  archive.Fill(100);
  const TermKey key = KeyOf(TermSort::kWord, "calm");
  const Postings& written = *archive.index.Find(key);
  ASSERT_EQ(written.all, 100U);
  auto bytes = archive.index.Encode();
  const auto entries = std::as_bytes(std::span(written.bytes));
  const auto found = std::search(bytes.begin(), bytes.end(), entries.begin(), entries.end());
  ASSERT_NE(found, bytes.end());
  ASSERT_EQ(*(found + 50), std::byte{1 * 16 + 2});
  *(found + 50) = std::byte{7 * 16 + 2};  // all that follow lie six further, the last ones nowhere
  Reseal(bytes);
  const auto read = RecallIndex::Decode(bytes);
  ASSERT_TRUE(read.ok());
  const Postings& postings = *read->Find(key);
  EXPECT_EQ(postings.df, written.df);
  EXPECT_EQ(postings.df_user, written.df_user);
  EXPECT_EQ(postings.last_passage, 99U);
  uint32_t entries_read = 0;
  ForEachPosting(postings, [&](uint32_t passage, TermCounts) {
    EXPECT_LE(passage, 99U);
    ++entries_read;
  });
  EXPECT_EQ(entries_read, 94U);
  const DenseTerm* dense = read->Dense(key, postings);
  ASSERT_NE(dense, nullptr);
  EXPECT_EQ(dense->At(49)->user, 1);
  EXPECT_EQ(dense->At(51), nullptr);
}

// Talk of words that come back, and now and then a new one.
TEST(IndexBytesTest, HalfTheTextAtMost) {
  TestArchive archive;
  uint64_t state = 7;
  const auto word = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t draw = state >> 40;
    const uint64_t rank = draw % 50 == 0 ? draw % 100000 : draw % 700;
    std::string text = "w";
    for (uint64_t left = rank + 30; left > 0; left /= 11) {
      text += static_cast<char>('a' + left % 11);
      text += "eiou"[left % 4];
    }
    return text;
  };
  for (int turn = 0; turn < 1000; ++turn) {
    std::string user = "I think that the";
    std::string answer = "You could also have a";
    for (int i = 0; i < 12; ++i)
      user += " " + word() + " in";
    for (int i = 0; i < 25; ++i)
      answer += " " + word() + " of the";
    archive.Say(user, answer);
  }
  const double share =
      static_cast<double>(archive.index.Encode().size()) / static_cast<double>(archive.text_bytes);
  EXPECT_LT(share, 0.5);
  EXPECT_GT(share, 0.05);
}

}  // namespace
}  // namespace tenuto
