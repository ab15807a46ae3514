#include "recall/language.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

Language Detect(std::string_view text, Language fallback = Language::kUnknown) {
  return DetectLanguage(LexText(CleanText(text, 10000)), fallback);
}

Cues CuesIn(std::string_view text) {
  return CuesOf(FoldCase(CleanText(text, 10000)));
}

TEST(LanguageTest, StopWordsTellTheLanguage) {
  EXPECT_EQ(Detect("What is the code of the garage?"), Language::kEn);
  EXPECT_EQ(Detect("Wie ist der Code von der Garage?"), Language::kDe);
  EXPECT_EQ(Detect("Quel est le code du garage de mon voisin ?"), Language::kFr);
  EXPECT_EQ(Detect("\u00bfCu\u00e1l es el c\u00f3digo que usa?"), Language::kEs);
  EXPECT_EQ(Detect("Wat is de code van het huis?"), Language::kNl);
  EXPECT_EQ(Detect("\u043a\u043e\u0434 \u0433\u0430\u0440\u0430\u0436\u0430"), Language::kRu);
}

TEST(LanguageTest, ArabicIsToldFromItsNeighbours) {
  EXPECT_EQ(Detect("\u0623\u064a\u0646 \u0648\u0636\u0639\u062a \u0645\u0641\u062a\u0627\u062d "
                   "\u0627\u0644\u0645\u0631\u0622\u0628"),
            Language::kAr);
  EXPECT_EQ(Detect("\u06a9\u0644\u06cc\u062f \u06af\u0627\u0631\u0627\u0698 \u0631\u0627 "
                   "\u06a9\u062c\u0627 \u06af\u0630\u0627\u0634\u062a\u0645"),
            Language::kUnknown);
}

TEST(LanguageTest, UnclearTextsTakeTheFallback) {
  EXPECT_EQ(Detect("otter ledger", Language::kDe), Language::kDe);
  EXPECT_EQ(Detect("", Language::kFr), Language::kFr);
  EXPECT_EQ(Detect("4711 !!"), Language::kUnknown);
}

TEST(LanguageTest, StopWords) {
  EXPECT_TRUE(IsStopWord("the"));
  EXPECT_TRUE(IsStopWord("\u00fcber"));
  EXPECT_FALSE(IsStopWord("otter"));
  EXPECT_TRUE(IsDenseStopWord("\u4ec0\u4e48"));
  EXPECT_EQ(StopPrefixBytes("\u4ec0\u4e48\u732b"), 6U);
  EXPECT_EQ(StopPrefixBytes("\u732b"), 0U);
  EXPECT_EQ(StopPrefixBytes(""), 0U);
}

TEST(LanguageTest, Questions) {
  EXPECT_TRUE(CuesIn("What did Gudrun pay?").question);
  EXPECT_TRUE(CuesIn("where is the key").question);
  EXPECT_TRUE(CuesIn("\u5bc6\u7801\u662f\u4ec0\u4e48").question);
  EXPECT_TRUE(CuesIn("\u4f55\u6642\u3067\u3059\u304b\u3002").question);
  EXPECT_FALSE(CuesIn("The key is under the mat.").question);
  EXPECT_FALSE(CuesIn("").question);
}

TEST(LanguageTest, SmallTalkIsOnlySmallTalk) {
  for (const char* text :
       {"hi", "ok", "okay, great", "thanks, that helps", "how are you?", "what can you do?",
        "danke, das hilft", "merci beaucoup", "\u8c22\u8c22", "\u4f60\u80fd\u505a\u4ec0\u4e48",
        "\u3042\u308a\u304c\u3068\u3046\u3054\u3056\u3044\u307e\u3059",
        "\u0e02\u0e2d\u0e1a\u0e04\u0e38\u0e13"}) {
    EXPECT_TRUE(CuesIn(text).chat) << text;
  }
  for (const char* text : {"thanks, and what is the code of the garage?", "otter", "",
                           "Who told me?", "\u5bc6\u7801\u662f\u4ec0\u4e48"}) {
    EXPECT_FALSE(CuesIn(text).chat) << text;
  }
}

TEST(LanguageTest, OtherCues) {
  EXPECT_TRUE(CuesIn("What did you recommend to Gudrun?").asks_assistant);
  EXPECT_FALSE(CuesIn("What did Gudrun recommend?").asks_assistant);
  EXPECT_TRUE(CuesIn("How much was it?").wants_number);
  EXPECT_TRUE(CuesIn("And since when is that so?").anaphoric);
  EXPECT_TRUE(CuesIn("Translate 'otter' into Spanish.").task);
  EXPECT_TRUE(CuesIn("What is my dog's name?").personal);
  EXPECT_FALSE(CuesIn("What is a dog?").personal);
  EXPECT_FALSE(CuesIn("And are you sure of that?").chat);
  EXPECT_TRUE(CuesIn("sure").chat);
  EXPECT_TRUE(CuesIn("No wait, sorry, it's Bruno.").corrects);
  EXPECT_TRUE(Corrects("\u7b49\u7b49\uff0c\u9519\u4e86"));
  EXPECT_FALSE(Corrects("the awaited ship"));
}

TEST(LanguageTest, PhrasesMatchWholeWordsOnly) {
  EXPECT_FALSE(CuesIn("The encoder is new.").wants_number);  // "code" inside
  EXPECT_FALSE(CuesIn("hibiscus").chat);
}

TEST(LanguageTest, PointingBack) {
  for (const char* text : {"since when is it so?", "and the colour?", "\u0438 \u0433\u0434\u0435?",
                           "\u3042\u3068\u3001\u3044\u3064?", "et lui?"}) {
    EXPECT_TRUE(CuesOf(text).anaphoric) << text;
  }
  EXPECT_FALSE(CuesOf("what is the colour of the garnet?").anaphoric);
}

}  // namespace
}  // namespace tenuto
