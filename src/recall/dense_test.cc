#include "recall/dense.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "recall/testing.h"

namespace tenuto {
namespace {

TermKey Word(std::string_view word) {
  return KeyOf(TermSort::kWord, word);
}

// All that the postings say, and no more.
void ExpectSame(const RecallIndex& index, TermKey key) {
  const Postings* postings = index.Find(key);
  ASSERT_NE(postings, nullptr);
  const DenseTerm* dense = index.Dense(key, *postings);
  ASSERT_NE(dense, nullptr);
  std::vector<TermCounts> expected(index.passages().size());
  ForEachPosting(*postings,
                 [&](uint32_t passage, TermCounts counts) { expected[passage] = counts; });
  for (uint32_t passage = 0; passage < index.passages().size(); ++passage) {
    const TermCounts* counts = dense->At(passage);
    ASSERT_EQ(counts == nullptr, expected[passage] == TermCounts()) << passage;
    EXPECT_EQ(counts == nullptr ? TermCounts() : *counts, expected[passage]) << passage;
    const size_t word = passage / kWordBits;
    const auto has = [&](std::span<const uint64_t> bits) {
      return word < bits.size() && (bits[word] >> passage % 64 & 1u) != 0;
    };
    EXPECT_EQ(has(dense->user_bits()), expected[passage].user + expected[passage].asked > 0);
    EXPECT_EQ(has(dense->stated_bits()), expected[passage].user > 0);
    if (counts == nullptr) continue;
    const PassageInfo& info = index.passages()[passage];
    EXPECT_TRUE(std::ranges::any_of(dense->kinds(), [&](const DenseTerm::Kind& kind) {
      TermCounts of_kind = *counts;
      of_kind.sentences = 0;
      return kind.counts == of_kind && kind.user_tokens_min <= info.user_tokens &&
             kind.answer_tokens_min <= info.answer_tokens;
    }));
  }
  EXPECT_EQ(dense->At(static_cast<uint32_t>(index.passages().size()) + 1000), nullptr);
}

void SayMore(TestArchive& archive, int turns) {
  for (int i = 0; i < turns; ++i) {
    if (i % 3 == 0) archive.Say("The garnet is red. Is the garnet old?", "Yes.");
    if (i % 3 == 1) archive.Say("Nothing here.", "A garnet, and a garnet.");
    if (i % 7 == 2) archive.Say("Other things.");
  }
}

TEST(DenseTerm, IsWhatThePostingsAreAlsoAsTheyGrow) {
  TestArchive archive;
  for (int round = 0; round < 4; ++round) {
    SayMore(archive, 150);
    ExpectSame(archive.index, Word("garnet"));
  }
}

TEST(DenseTerm, OfALoadedIndexThatIsAddedTo) {
  TestArchive archive;
  SayMore(archive, 300);
  archive.index = RecallIndex::Decode(archive.index.Encode()).value();
  ExpectSame(archive.index, Word("garnet"));
  SayMore(archive, 100);
  ExpectSame(archive.index, Word("garnet"));
}

TEST(DenseTerm, ARemovedTurnIsGone) {
  TestArchive archive;
  SayMore(archive, 300);
  ExpectSame(archive.index, Word("garnet"));
  for (const uint32_t turn : {1u, 2u, 100u, archive.turns})
    ASSERT_TRUE(archive.index.Remove(turn));
  ExpectSame(archive.index, Word("garnet"));
}

TEST(DenseTerm, ARareTermIsNotUnpacked) {
  TestArchive archive;
  archive.Say("A garnet.");
  archive.Fill(100);
  EXPECT_EQ(archive.index.Dense(Word("garnet"), *archive.index.Find(Word("garnet"))), nullptr);
  EXPECT_EQ(archive.index.DenseBytes(), 0U);
}

TEST(DenseTerms, TheLongestUnusedAreGivenBack) {
  TestArchive archive;
  for (int i = 0; i < 90; ++i) {
    std::string text;
    for (int word = 0; word < 400; ++word)
      text += "word" + std::to_string(word) + "q ";
    archive.Say(text);
  }
  const auto dense = [&](int word) {
    const TermKey key = Word("word" + std::to_string(word) + "q");
    return archive.index.Dense(key, *archive.index.Find(key));
  };
  ASSERT_NE(dense(0), nullptr);
  const size_t one = archive.index.DenseBytes();
  EXPECT_GT(one, 0U);
  for (int word = 0; word < 400; ++word)
    ASSERT_NE(dense(word), nullptr);
  const size_t all = archive.index.DenseBytes();
  archive.index.TrimDense();
  EXPECT_LT(archive.index.DenseBytes(), all);
  EXPECT_LE(archive.index.DenseBytes(), 256 * 1024 + 48 * archive.index.passages().size());
  const size_t kept = archive.index.DenseBytes();
  dense(399);  // the last one is still there
  EXPECT_EQ(archive.index.DenseBytes(), kept);
  dense(0);
  EXPECT_GT(archive.index.DenseBytes(), kept);
}

}  // namespace
}  // namespace tenuto
