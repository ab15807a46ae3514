#include "recall/text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tenuto {
namespace {

class TextTest : public testing::Test {
 protected:
  Analysed Of(std::string_view text) {
    AnalyseOptions options;
    options.now = {1715342400, 0};  // 2024-05-10
    return analyser_.Analyse(text, options);
  }
  std::vector<std::string> Terms(std::string_view text) {
    std::vector<std::string> found;
    for (const Term& term : Of(text).terms)
      found.push_back(term.text);
    return found;
  }
  bool Has(std::string_view text, const std::string& term) {
    const auto terms = Terms(text);
    return std::find(terms.begin(), terms.end(), term) != terms.end();
  }
  // Terms that two texts share.
  size_t Shared(std::string_view one, std::string_view other) {
    std::vector<TermKey> keys;
    for (const Term& term : Of(one).terms)
      keys.push_back(term.key);
    size_t shared = 0;
    for (const Term& term : Of(other).terms) {
      shared += static_cast<size_t>(std::count(keys.begin(), keys.end(), term.key) > 0);
    }
    return shared;
  }
  Analyser analyser_;
};

using Texts = std::vector<std::string>;

TEST_F(TextTest, StemsAndStopWords) {
  EXPECT_EQ(Terms("The otters were swimming in the lakes."), (Texts{"otter", "swim", "lake"}));
  EXPECT_EQ(Terms("Die Katzen haben in dem Garten geschlafen"),
            (Texts{"katz", "gart", "geschlaf"}));
  EXPECT_TRUE(Terms("the of and, who? was!").empty());
  EXPECT_TRUE(Terms("?! ... --- ()").empty());
  EXPECT_TRUE(Terms("").empty());
}

TEST_F(TextTest, OneWordInManyDresses) {
  EXPECT_GE(Shared("the OTTER is here", "an o\u200btter was there"), 1U);
  EXPECT_GE(Shared("with J\u00fcrgen it is", "where is Jurgen now"), 1U);
  EXPECT_GE(Shared("Gudrun's dog is here", "the dog of Gudrun"), 2U);
}

TEST_F(TextTest, IdentifiersWholeAndSplit) {
  const Texts camel = Terms("parseLedgerCache");
  EXPECT_EQ(camel.front(), "parseledgercache");
  EXPECT_TRUE(Has("parseLedgerCache", "ledger"));
  EXPECT_EQ(Shared("parseLedgerCache", "parse_ledger_cache"), 4U);
  EXPECT_EQ(Shared("the parse of the ledger", "parseLedger is slow"), 2U);
  EXPECT_TRUE(Has("HTTPServer", "server"));
}

TEST_F(TextTest, NumbersHaveOneSpelling) {
  EXPECT_EQ(Shared("it cost 1,250 here", "a 1250 for that"), 1U);
  EXPECT_EQ(Shared("room 007", "room 7"), 2U);
  EXPECT_TRUE(Of("code 4711").has_number);
  EXPECT_FALSE(Of("on 2024-05-03").has_number);
}

TEST_F(TextTest, DaysAreTermsAndNothingElse) {
  EXPECT_EQ(Terms("2024-05-03"), (Texts{"05-03", "2024-05-03"}));
  EXPECT_EQ(Shared("We met on 3 May 2024", "the museum, May 3rd"), 2U);
  EXPECT_EQ(Shared("on 9 May 2024", "what was yesterday"), 2U);
  EXPECT_FALSE(Has("3 May 2024", "3"));
}

TEST_F(TextTest, ChineseIsPairs) {
  const Texts terms = Terms("\u738b\u82b3\u7684\u505c\u8f66\u68da");  // two runs around a stop word
  EXPECT_TRUE(std::count(terms.begin(), terms.end(), "\u738b\u82b3") == 1);
  EXPECT_TRUE(std::count(terms.begin(), terms.end(), "\u505c\u8f66") == 1);
  EXPECT_TRUE(std::count(terms.begin(), terms.end(), "\u8f66\u68da") == 1);
  EXPECT_TRUE(std::count(terms.begin(), terms.end(), "\u82b3\u505c") == 0);
  const Analysed analysed = Of("\u738b\u82b3\u7684\u505c\u8f66\u68da");
  EXPECT_EQ(analysed.terms.front().unit, 1U);
  EXPECT_EQ(analysed.terms.back().unit, 2U);
}

TEST_F(TextTest, ThaiIsWords) {
  // "the cat sleeps in the house": cat, sleep, house.
  EXPECT_TRUE(Has("\u0e41\u0e21\u0e27\u0e19\u0e2d\u0e19\u0e43\u0e19\u0e1a\u0e49\u0e32\u0e19",
                  "\u0e41\u0e21\u0e27"));
  EXPECT_TRUE(Has("\u0e41\u0e21\u0e27\u0e19\u0e2d\u0e19\u0e43\u0e19\u0e1a\u0e49\u0e32\u0e19",
                  "\u0e1a\u0e49\u0e32\u0e19"));
}

TEST_F(TextTest, ASpaceEndsWhatIsSaidInThai) {
  const Analysed text = analyser_.Analyse(
      "\u0e41\u0e21\u0e27\u0e19\u0e2d\u0e19 \u0e1a\u0e49\u0e32\u0e19", AnalyseOptions());
  ASSERT_FALSE(text.terms.empty());
  EXPECT_EQ(text.terms.front().sentence, 0U);
  EXPECT_EQ(text.terms.back().sentence, 1U);
}

TEST_F(TextTest, ParticlesCutAndHiraganaWordsStay) {
  // "the cat's name": a particle between Han characters; and a name in Hiragana.
  const Texts cut = Terms("\u732b\u306e\u540d\u524d");
  EXPECT_EQ(std::count(cut.begin(), cut.end(), "\u732b\u306e"), 0);
  EXPECT_EQ(std::count(cut.begin(), cut.end(), "\u540d\u524d"), 1);
  const Texts name = Terms("\u306f\u308b\u304b");
  EXPECT_EQ(std::count(name.begin(), name.end(), "\u306f\u308b"), 1);
  EXPECT_EQ(std::count(name.begin(), name.end(), "\u308b\u304b"), 1);
}

TEST_F(TextTest, WhatIsAsked) {
  const Analysed text = Of("I saw an otter. Where does the beaver live?");
  EXPECT_EQ(text.sentences, 2U);
  EXPECT_EQ(text.asking, 1U);
  for (const Term& term : text.terms) {
    EXPECT_EQ(term.asked, term.text == "beaver" || term.text == "live") << term.text;
  }
}

TEST_F(TextTest, HostileInputIsBounded) {
  const std::string word(100000, 'a');
  EXPECT_TRUE(Terms(word).empty());  // no word is that long
  std::string many;
  for (int i = 0; i < 20000; ++i)
    many += "w" + std::to_string(i) + " ";
  AnalyseOptions options;
  options.bytes_max = 1000;
  EXPECT_LT(analyser_.Analyse(many, options).terms.size(), 1000U);
  EXPECT_NO_FATAL_FAILURE(Of("NEAR(sid:x \"quote) * OR \xff\xfe"));
  std::string thai;
  for (int i = 0; i < 5000; ++i)
    thai += "\u0e01\u0e49";
  EXPECT_GT(Of(thai).tokens, 0U);
}

TEST_F(TextTest, ATagMakesNoQuestion) {
  EXPECT_EQ(Of("The mattress cost Gudrun 342 dollars, can you believe it?").asking, 0U);
  EXPECT_EQ(Of("Gudrun wohnt jetzt in Kiel, oder?").asking, 0U);
  EXPECT_EQ(
      Of("\u738b\u82b3\u628a\u94a5\u5319\u653e\u5728\u8f66\u91cc\uff0c\u5bf9\u5427\uff1f").asking,
      0U);
  // What asks before or behind the comma asks.
  EXPECT_EQ(Of("With what does Gudrun open the garage, do you know?").asking, 1U);
  EXPECT_EQ(Of("Gudrun opened the garage with it, but when?").asking, 1U);
  EXPECT_EQ(Of("Gudrun, can you open the garage?").asking, 1U);
  EXPECT_EQ(Of("La voiture de Gudrun est o\u00f9, tu sais ?").asking, 1U);
  EXPECT_EQ(Of("After the long meeting with Gudrun, did the garage stay open?").asking, 1U);
  EXPECT_EQ(
      Of("\u738b\u82b3\u628a\u94a5\u5319\u653e\u5728\u54ea\u91cc\uff0c\u5bf9\u5417\uff1f").asking,
      1U);
}

TEST_F(TextTest, TheSameTextGivesTheSameTerms) {
  Analyser other;
  AnalyseOptions options;
  const std::string text = "Gudrun opens the garage with 4711, \u738b\u82b3 too.";
  const Analysed one = analyser_.Analyse(text, options);
  const Analysed two = other.Analyse(text, options);
  ASSERT_EQ(one.terms.size(), two.terms.size());
  for (size_t i = 0; i < one.terms.size(); ++i)
    EXPECT_EQ(one.terms[i].key, two.terms[i].key);
}

TEST_F(TextTest, KeysStayWhatTheyAre) {
  // Stored in indexes: a change must raise kAnalyserVersion.
  EXPECT_EQ(KeyOf(TermSort::kWord, "ledger"), KeyOf(TermSort::kPart, "ledger"));
  EXPECT_NE(KeyOf(TermSort::kDate, "2024-05-03"), KeyOf(TermSort::kStamp, "2024-05-03"));
  EXPECT_LE(KeyOf(TermSort::kWord, "ledger"), kTermKeyMask);
  EXPECT_EQ(StampTerm({1715342400, 0}).text, "2024-05-10");
}

}  // namespace
}  // namespace tenuto
