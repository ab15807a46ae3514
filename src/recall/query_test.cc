#include "recall/query.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "recall/testing.h"

namespace tenuto {
namespace {

class QueryTest : public testing::Test {
 protected:
  QueryTest() {
    archive_.Say("Gudrun opens the garage with 4711.", "Saved.");
    archive_.Fill(60);
  }
  Query Of(std::string_view text, std::string_view last_user = {},
           std::string_view last_answer = {}) {
    return BuildQuery(archive_.analyser, archive_.index,
                      {text, {1715429000, 0}, last_user, last_answer});
  }
  static const QueryTerm* Term(const Query& query, std::string_view text) {
    const auto found = std::find_if(query.terms.begin(), query.terms.end(),
                                    [&](const QueryTerm& term) { return term.text == text; });
    return found == query.terms.end() ? nullptr : &*found;
  }
  TestArchive archive_;
};

TEST_F(QueryTest, RareWordsSayMore) {
  const Query query = Of("the garage at the river");
  ASSERT_NE(Term(query, "garag"), nullptr);
  ASSERT_NE(Term(query, "river"), nullptr);
  EXPECT_GT(Term(query, "garag")->idf, Term(query, "river")->idf);
  EXPECT_GT(Term(query, "garag")->info_user, Term(query, "river")->info_user);
  EXPECT_EQ(query.own_units, 2U);
  EXPECT_EQ(query.own_known, 1U);
}

TEST_F(QueryTest, UnknownWordsCountButAreNoTerms) {
  const Query query = Of("the emerald garage");
  EXPECT_EQ(query.own_units, 2U);
  EXPECT_EQ(query.terms.size(), 1U);
}

TEST_F(QueryTest, LastTurnIsInheritedWhenTheMessageNamesNothing) {
  const Query query = Of("And who told me?", "What opens the garage?", "Gudrun uses 4711.");
  ASSERT_NE(Term(query, "garag"), nullptr);
  EXPECT_TRUE(Term(query, "garag")->inherited);
  ASSERT_NE(Term(query, "4711"), nullptr);
  EXPECT_LT(Term(query, "4711")->weight, Term(query, "garag")->weight);
  EXPECT_EQ(query.own_known, 0U);
  EXPECT_GE(query.inherited_units, 2U);
}

TEST_F(QueryTest, AMessageThatNamesEnoughInheritsNothing) {
  const Query query = Of("What opens Gudrun's garage?", "the plume1x and quark2y", "drift3z");
  EXPECT_EQ(query.inherited_units, 0U);
  EXPECT_TRUE(std::none_of(query.terms.begin(), query.terms.end(),
                           [](const QueryTerm& term) { return term.inherited; }));
}

TEST_F(QueryTest, WordsThatAlwaysStandTogetherAreOne) {
  for (int i = 0; i < 4; ++i)
    archive_.Say("The sports cabinet, number " + std::to_string(i));
  const Query query = Of("the sports cabinet of Gudrun");
  ASSERT_NE(Term(query, "sport"), nullptr);
  ASSERT_NE(Term(query, "cabinet"), nullptr);
  EXPECT_EQ(Term(query, "sport")->unit, Term(query, "cabinet")->unit);
  EXPECT_NE(Term(query, "gudrun")->unit, Term(query, "cabinet")->unit);
  EXPECT_EQ(query.own_units, 2U);
}

TEST_F(QueryTest, NamesAreSeenWhereOnlyNamesAreCapitalised) {
  ASSERT_NE(Term(Of("what about Gudrun and the garage?"), "gudrun"), nullptr);
  EXPECT_TRUE(Term(Of("what about Gudrun and the garage?"), "gudrun")->proper);
  EXPECT_FALSE(Term(Of("what about Gudrun and the garage?"), "garag")->proper);
  EXPECT_FALSE(Term(Of("was ist mit der Gudrun und dem Haus?"), "gudrun")->proper);
  EXPECT_FALSE(Term(Of("Gudrun is here"), "gudrun")->named);  // first of its sentence
}

// A composed word of four characters is in one turn only: its second half adds nothing to its
// first.
TEST_F(QueryTest, PiecesOfOneWordAreNoEvidenceForEachOther) {
  archive_.Say("\u677e\u7eb9\u94dc\u7b3c\u3002");
  const Query query = Of("\u677e\u7eb9\u94dc\u7b3c\uff1f");
  const QueryTerm* second = Term(query, "\u94dc\u7b3c");
  ASSERT_NE(second, nullptr);
  EXPECT_GT(second->info_user, 2.0);
  EXPECT_LT(second->info_after[1], 0.1);
  const Ranking ranking = archive_.Rank("\u677e\u7eb9\u94dc\u7b3c\uff1f");
  ASSERT_FALSE(ranking.hits.empty());
  EXPECT_GT(ranking.hits[0].log_expected, -2.0);
}

// A word is looked for as each language of the session has it.
TEST_F(QueryTest, AWordIsFoundInTurnsOfOtherLanguages) {
  TestArchive archive;
  const uint32_t first = archive.Say("I purchased a telescope.");  // of no language that is clear
  archive.Fill(20);
  const uint32_t german = archive.Say("Mein Nachbar Thorsten ist der Zahnarzt und wohnt nebenan.");
  archive.Fill(20);
  EXPECT_EQ(TurnsOf(archive.Rank("Who was it that purchased the telescopes?")),
            std::vector<uint32_t>{first});
  EXPECT_EQ(TurnsOf(archive.Rank("Where does Thorsten live?")), std::vector<uint32_t>{german});
  EXPECT_EQ(TurnsOf(archive.Rank("Zahnarzt")), std::vector<uint32_t>{german});
  const Query query = BuildQuery(archive.analyser, archive.index, {"Thorsten", {}, {}, {}});
  ASSERT_EQ(query.terms.size(), 1U);
  EXPECT_EQ(query.own_units, 1U);
}

// ... and is one word, however many forms the session has.
TEST_F(QueryTest, FormsOfAWordAreCountedTogether) {
  TestArchive archive;
  archive.Fill(20);
  archive.Say("The house is the house of the Thorsten family and they like it.");
  archive.Say("Der Thorsten ist ein guter Nachbar und wohnt nicht weit von hier.");
  const Query query = BuildQuery(archive.analyser, archive.index, {"the Thorsten", {}, {}, {}});
  ASSERT_EQ(query.terms.size(), 2U);
  EXPECT_FALSE(query.terms[0].form);
  EXPECT_TRUE(query.terms[1].form);
  EXPECT_EQ(query.terms[0].unit, query.terms[1].unit);
  EXPECT_EQ(query.terms[0].passages, 2U);
  EXPECT_EQ(query.terms[0].idf, query.terms[1].idf);
}

TEST_F(QueryTest, SmallTalkInheritsNothing) {
  EXPECT_TRUE(Of("thanks!", "What opens the garage?", "Gudrun uses 4711.").terms.empty());
}

TEST_F(QueryTest, WordsThatATurnWritesAsOneAreFound) {
  archive_.Say("I oiled the lawnmower.");
  const uint32_t traced = archive_.Say("split_kernel_state was to blame.");
  archive_.Say("The kernel of the other state, and then the split.");
  const Query query = Of("who has the lawn mower?");
  ASSERT_NE(Term(query, "lawnmow"), nullptr);
  EXPECT_EQ(Of("who has the mower of the lawn?").terms.size(), 0U);
  EXPECT_EQ(archive_.Rank("what about the split kernel state?").hits.at(0).turn, traced);
  EXPECT_EQ(Of("what about the split kernel state?").own_units, 3U);
}

TEST_F(QueryTest, BoundsAndNonsense) {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += "plume" + std::to_string(i) + "x quark" + std::to_string(i) + "y ";
  EXPECT_EQ(Of(text).terms.size(), kQueryTermsMax);
  EXPECT_LE(Of(std::string(204800, 'x') + text).terms.size(), kQueryTermsMax);
  std::string long_run;
  for (int i = 0; i < 20000; ++i) {
    const int c = 0x4e00 + i;  // a run of 20,000 different Han characters
    long_run += static_cast<char>(0xE0 | (c >> 12));
    long_run += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    long_run += static_cast<char>(0x80 | (c & 0x3F));
  }
  archive_.Say(long_run);
  EXPECT_EQ(Of(long_run).terms.size(), kQueryTermsMax);
  for (const char* nonsense : {"", "???", "the of and", "\u200b\u202e", "OVER( \"* sid:x"}) {
    const Query query = Of(nonsense);
    EXPECT_TRUE(query.terms.empty()) << nonsense;
  }
}

TEST_F(QueryTest, AnEmptyIndexGivesNoTerms) {
  RecallIndex empty;
  const Query query = BuildQuery(archive_.analyser, empty, {"the garage", {}, {}, {}});
  EXPECT_TRUE(query.terms.empty());
  EXPECT_EQ(query.own_known, 0U);
}

}  // namespace
}  // namespace tenuto
