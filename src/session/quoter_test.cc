#include "session/quoter.h"

#include "session/recall_testing.h"

namespace tenuto {
namespace {

RecallHit Hit(uint32_t turn, double log_expected, double score) {
  RecallHit hit;
  hit.turn = turn;
  hit.score = score;
  hit.log_expected = log_expected;
  hit.info = 10.0;
  hit.units = 2;
  hit.tokens = 10;
  return hit;
}

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

}  // namespace
}  // namespace tenuto
