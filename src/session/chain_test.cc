#include "session/chain.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

const Digest256 kOwner = Sha256Of("owner");
const Digest256 kModel = Sha256Of("model");

std::vector<TokenId> Tokens(int n) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i)
    tokens.push_back(i * 7 % 31);
  return tokens;
}

// Rows that cover `tokens` in runs of `step`, with ids from 1.
std::vector<PieceRow> Rows(const std::vector<TokenId>& tokens, int step) {
  std::vector<PieceRow> rows;
  Digest256 digest = ChainStart(kOwner, kModel);
  for (int begin = 0; begin + step <= static_cast<int>(tokens.size()); begin += step) {
    PieceRow row;
    row.id = static_cast<int64_t>(rows.size()) + 1;
    row.range = {begin, begin + step};
    row.fingerprint = kModel;
    row.prefix_begin = digest;
    digest = ChainExtend(
        digest, std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(step)));
    row.prefix_end = digest;
    row.location.bytes = 10;
    rows.push_back(row);
  }
  return rows;
}

TEST(Chain, TakesRowsThatCoverTheTokens) {
  const auto tokens = Tokens(40);
  const auto build = BuildChain(Rows(tokens, 10), Tokens(41), kOwner, kModel);
  EXPECT_EQ(build.chain.end(), 40);
  EXPECT_EQ(build.chain.bytes(), 40u);
  EXPECT_TRUE(build.stale_rows.empty());
  EXPECT_TRUE(build.reasons.empty());
}

// INV-6: what is stored ends before the last token.
TEST(Chain, ARowThatClaimsTheLastTokenIsNotUsed) {
  const auto tokens = Tokens(40);
  const auto build = BuildChain(Rows(tokens, 10), tokens, kOwner, kModel);
  EXPECT_EQ(build.chain.end(), 30);
  EXPECT_EQ(build.stale_rows, (std::vector<int64_t>{4}));
}

TEST(Chain, StopsWhereTheTokensDiffer) {
  auto tokens = Tokens(40);
  const auto rows = Rows(tokens, 10);
  tokens[15] += 1;
  const auto build = BuildChain(rows, tokens, kOwner, kModel);
  EXPECT_EQ(build.chain.end(), 10);
  EXPECT_EQ(build.stale_rows, (std::vector<int64_t>{2, 3, 4}));
  ASSERT_EQ(build.reasons.size(), 1u);
  EXPECT_EQ(build.reasons[0].code, "prefix");
  EXPECT_EQ(build.reasons[0].tokens, 30);
}

TEST(Chain, StopsAtAGap) {
  const auto tokens = Tokens(40);
  auto rows = Rows(tokens, 10);
  rows.erase(rows.begin() + 1);
  const auto build = BuildChain(rows, tokens, kOwner, kModel);
  EXPECT_EQ(build.chain.end(), 10);
  ASSERT_EQ(build.reasons.size(), 1u);
  EXPECT_EQ(build.reasons[0].code, "missing");
}

TEST(Chain, RefusesAnotherOwnerModelOrMoreThanTheLogHolds) {
  const auto tokens = Tokens(40);
  const auto rows = Rows(tokens, 10);
  EXPECT_EQ(BuildChain(rows, tokens, Sha256Of("other"), kModel).chain.end(), 0);
  const auto foreign = BuildChain(rows, tokens, kOwner, Sha256Of("other"));
  EXPECT_EQ(foreign.chain.end(), 0);
  ASSERT_EQ(foreign.reasons.size(), 1u);
  EXPECT_EQ(foreign.reasons[0].code, "fingerprint");
  EXPECT_EQ(foreign.reasons[0].tokens, 40);
  EXPECT_EQ(BuildChain(rows, Tokens(25), kOwner, kModel).chain.end(), 20);
}

TEST(Chain, TheNewestOfTwoRowsAtOnePlaceWins) {
  const auto tokens = Tokens(40);
  auto rows = Rows(tokens, 10);
  auto merged = Rows(tokens, 20);
  merged[0].id = 50;
  rows.push_back(merged[0]);
  const auto build = BuildChain(rows, tokens, kOwner, kModel);
  ASSERT_FALSE(build.chain.pieces.empty());
  EXPECT_EQ(build.chain.pieces[0].id, 50);
}

TEST(Chain, CutDropsWholePieces) {
  const auto tokens = Tokens(40);
  auto build = BuildChain(Rows(tokens, 10), Tokens(41), kOwner, kModel);
  EXPECT_EQ(CutChain(build.chain, 25, kOwner, kModel), (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(build.chain.end(), 20);
  EXPECT_EQ(build.chain.end_digest, build.chain.pieces.back().prefix_end);
  CutChain(build.chain, 0, kOwner, kModel);
  EXPECT_EQ(build.chain.end_digest, ChainStart(kOwner, kModel));
}

}  // namespace
}  // namespace tenuto
