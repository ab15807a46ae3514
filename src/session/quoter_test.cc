#include "session/quoter.h"

#include "recall/testing.h"
#include "session/recall_testing.h"

namespace tenuto {
namespace {

using Lines = std::vector<uint64_t>;

class QuoterTest : public RecallTest {
 protected:
  // A session of the two facts and a remark.
  void SetUp() override {
    Ask(kFact);
    Ask(kOtherFact);
    Ask(Filler(0));
    question.row = disk->log.FindSession(ParseSessionKey("a").value()).value();
    question.message = kQuestion;
    question.tokens_max = 900;
    tokenize = TokenizerOf(stack->engine);
  }
  RecallChoice Choose(const GateSettings& gate) {
    Quoter quoter(disk->log, tokenize, question, ranking, {});
    RecallChoice choice;
    result = quoter.Decide(ranking, gate);
    FitQuotes(quoter, ranking, gate, result, choice);
    return choice;
  }

  void Import(std::vector<ImportItem> items) {
    stack->OnCore([&] {
      stack->manager.Import(ParseSessionKey("a").value(), std::move(items),
                            [](const Result<ImportOutcome>& done) {
                              ASSERT_TRUE(done.ok()) << done.error().message();
                            });
    });
    question.row = disk->log.FindSession(ParseSessionKey("a").value()).value();
  }
  // A fact and many words after it.
  void ImportLong(std::string_view begin) {
    std::string text(begin);
    for (int i = 0; i < 80; ++i)
      text += " Word " + std::to_string(i) + ".";
    Import({{{"user", text, ""}, 0, ""}, {{"assistant", "I see.", ""}, 0, ""}});
  }
  std::string Text(const RecallChoice& choice) {
    std::string text;
    for (const TokenId token : choice.span.tokens)
      text += stack->engine.TokenText(token, true);
    return text;
  }

  RecallQuestion question;
  Ranking ranking;
  GateResult result;
  TokenizeText tokenize;
};

// What the gate lets through is what is quoted, for whichever reason it does.
TEST_F(QuoterTest, WhatRanksAboveAMatchIsQuotedToo) {
  ranking.hits = {Hit(1, 3.0, 9.0), Hit(2, -20.0, 8.0), Hit(3, 3.0, 7.0)};
  ranking.hits[0].info = 1.0;
  const RecallChoice choice = Choose({});
  EXPECT_EQ(choice.span.lines, (Lines{1, 2}));
  EXPECT_EQ(result.verdicts[0].why, RecallWhy::kRanksAbove);
  EXPECT_TRUE(result.verdicts[0].injected);
  EXPECT_EQ(result.verdicts[2].why, RecallWhy::kChance);
}

TEST_F(QuoterTest, PastTheLimitNothingIsQuoted) {
  ranking.hits = {Hit(1, -20.0, 9.0), Hit(2, -20.0, 8.0)};
  GateSettings gate;
  gate.hits_max = 1;
  EXPECT_EQ(Choose(gate).span.lines, Lines{1});
  EXPECT_EQ(result.verdicts[1].why, RecallWhy::kOverLimit);
}

// Each length that is tried is put together and tokenized, for each hit of each message.
TEST_F(QuoterTest, WhatCannotFitIsNotTriedInEveryLength) {
  ImportLong(kFact);
  ranking.hits = {Hit(4, -20.0, 9.0)};
  int tried = 0;
  const auto plain = tokenize;
  tokenize = [&](std::string_view text, bool add_special, bool parse_special) {
    ++tried;
    return plain(text, add_special, parse_special);
  };
  question.tokens_max = 100;
  EXPECT_TRUE(Choose({}).span.tokens.empty());
  EXPECT_EQ(result.verdicts[0].why, RecallWhy::kOverBudget);
  EXPECT_EQ(tried, 2);
  question.tokens_max = 300;  // a part fits
  EXPECT_EQ(Choose({}).span.lines, Lines{4});
}

// What may correct the first takes no room from the second.
TEST_F(QuoterTest, WhatMayCorrectAHitComesWhereThereIsRoom) {
  ranking.hits = {Hit(1, -20.0, 9.0), Hit(2, -20.0, 8.0)};
  ranking.hits[0].also = {3};
  const RecallChoice all = Choose({});
  EXPECT_EQ(all.span.lines, (Lines{1, 2, 3}));
  EXPECT_EQ(result.verdicts[2].why, RecallWhy::kCorrection);
  question.tokens_max = static_cast<int32_t>(all.span.tokens.size()) - 100;
  const RecallChoice some = Choose({});
  EXPECT_EQ(some.span.lines, (Lines{1, 2}));
  EXPECT_EQ(result.verdicts[2].why, RecallWhy::kOverBudget);
  EXPECT_FALSE(some.budget_short);  // older spans need not go for it
}

TEST_F(QuoterTest, WhatMayCorrectAHitIsShortenedBeforeOlderSpansGo) {
  ImportLong(kOtherFact);
  ranking.hits = {Hit(1, -20.0, 9.0)};
  ranking.hits[0].also = {4};
  const RecallChoice whole = Choose({});
  EXPECT_EQ(whole.span.lines, (Lines{1, 4}));
  question.tokens_max = static_cast<int32_t>(whole.span.tokens.size()) - 150;
  const RecallChoice part = Choose({});
  EXPECT_EQ(part.span.lines, (Lines{1, 4}));
  EXPECT_FALSE(part.budget_short);
}

TEST_F(QuoterTest, WhatMayCorrectAHitComesWithWhatCorrectsIt) {
  ranking.hits = {Hit(1, -20.0, 9.0), Hit(2, 3.0, 8.0)};
  ranking.hits[0].also = {2};
  ranking.hits[1].with = {3};
  EXPECT_EQ(Choose({}).span.lines, (Lines{1, 2, 3}));
  ranking.hits[0].also = {};
  const RecallChoice alone = Choose({});
  EXPECT_EQ(alone.span.lines, Lines{1});
  ranking.hits[0].also = {2};
  question.tokens_max = static_cast<int32_t>(alone.span.tokens.size()) + 30;
  EXPECT_EQ(Choose({}).span.lines, Lines{1});  // together or not at all
}

// What a tool said is quoted where it alone has a word of the question, and shortened last where
// nobody else has any.
TEST_F(QuoterTest, WhatOnlyAToolSaidIsQuoted) {
  std::string said = "The register says: berth 41 is held by Ulfsdotter.";
  for (int i = 0; i < 60; ++i)
    said += " Nothing else is known of row " + std::to_string(i) + ".";
  const std::string calls = R"([{"id":"c","function":{"name":"find","arguments":"{}"}}])";
  Import({{{"user", "Look up the mooring list.", ""}, 0, ""},
          {{"assistant", "", "", calls, ""}, 0, ""},
          {{"tool", said, "", "", "c"}, 0, ""},
          {{"assistant", "I have it.", ""}, 0, ""}});
  ranking.hits = {Hit(4, -20.0, 9.0)};
  ranking.hits[0].terms = {"ulfsdotter", "berth"};
  EXPECT_NE(Text(Choose({})).find("tool: "), std::string::npos);
  EXPECT_NE(Text(Choose({})).find("held by Ulfsdotter"), std::string::npos);
  question.tokens_max = 230;
  const std::string tight = Text(Choose({}));
  EXPECT_NE(tight.find("held by Ulfsdotter"), std::string::npos) << tight;
  EXPECT_EQ(tight.find("mooring"), std::string::npos) << tight;

  question.tokens_max = 900;
  ranking.hits[0].terms = {"mooring"};
  EXPECT_EQ(Text(Choose({})).find("tool: "), std::string::npos);
}

}  // namespace
}  // namespace tenuto
