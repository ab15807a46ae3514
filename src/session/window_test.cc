#include "session/window.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace tenuto {
namespace {

constexpr int32_t kHead = 10;
constexpr int32_t kClose = 2;

std::vector<TokenId> Tokens(int32_t first, int32_t count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

WindowLimits Limits() {
  WindowLimits limits;
  limits.tokens = 1000;
  limits.answer_tokens = 100;
  limits.grid_tokens = 50;
  return limits;  // cut above 800, to at most 550
}

// A log of turns of `sizes` tokens, all different; the first begins with the head.
struct Line {
  SessionRow row;
  std::vector<TurnRow> turns;

  explicit Line(const std::vector<int32_t>& sizes) {
    row.head_tokens = Tokens(0, kHead);
    for (const int32_t size : sizes)
      Add(size);
  }
  void Add(int32_t size) {
    TurnRow turn;
    turn.prompt = Tokens(static_cast<int32_t>(row.tokens), size / 2);
    turn.answer = Tokens(static_cast<int32_t>(row.tokens) + size / 2, size - size / 2);
    turn.close_tokens = turns.empty() ? 0 : kClose;
    row.tokens += static_cast<uint64_t>(size);
    ++row.turns;
    turns.push_back(std::move(turn));
  }
  SessionWindow Window(size_t drop = 0) const {
    return SessionWindow::FromLog({row, std::span(turns).subspan(drop), {}, 1, {}, ""});
  }
};

TEST(SessionWindow, WithoutACutItIsTheWholeLine) {
  const Line line({40, 30, 20});
  const SessionWindow window = line.Window();
  EXPECT_EQ(window.tokens(), Tokens(0, 90));
  EXPECT_EQ(window.turns(), 3u);
  EXPECT_EQ(window.archived_turns(), 0u);
}

TEST(SessionWindow, ACutKeepsTheHeadAndWholeTurnsWithoutTheStrayClosing) {
  const Line line({40, 30, 20});
  const SessionWindow cut = line.Window().Without(1);
  std::vector<TokenId> expected = Tokens(0, kHead);
  const auto rest = Tokens(40 + kClose, 50 - kClose);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(cut.tokens(), expected);
  EXPECT_EQ(cut.size(), line.Window().SizeWithout(1));
  EXPECT_EQ(cut.first(), 2u);
  EXPECT_EQ(line.Window().Without(3).tokens(), Tokens(0, kHead));
}

// What a restart reads from the log is what the process had in memory, cut after cut.
TEST(SessionWindow, CutsOfCutsAndTheLogAgree) {
  const Line line({40, 35, 30, 25, 20, 15});
  for (size_t a = 0; a <= 5; ++a)
    for (size_t b = a; b <= 5; ++b) {
      const SessionWindow twice = line.Window().Without(a).Without(b - a);
      EXPECT_EQ(twice.tokens(), line.Window(b).tokens()) << a << " " << b;
      EXPECT_EQ(twice.first(), line.Window(b).first());
      EXPECT_EQ(twice.UsualCut(Limits()), line.Window(b).UsualCut(Limits()));
    }
}

TEST(SessionWindow, BelowTheHighWaterNothingIsCut) {
  const Line line({300, 300, 150});
  EXPECT_EQ(line.Window().PlanCut(50, 1, Limits()).value(), std::nullopt);
  EXPECT_TRUE(line.Window().PlanCut(51, 1, Limits()).value());
}

TEST(SessionWindow, ACutGoesDownToTheLowWaterOnTheGrid) {
  const Line line(std::vector<int32_t>(16, 50));
  const size_t drop = line.Window().PlanCut(20, 1, Limits())->value();
  // 800 tokens of which at most 540 stay beside the head: the multiple of 50 at or above 260.
  EXPECT_EQ(drop, 6u);
  EXPECT_LE(line.Window().SizeWithout(drop), Limits().low_tokens());
}

// The next few turns do not move the cut: what was computed ahead stays right.
TEST(SessionWindow, TheGridHoldsACutStill) {
  Line line(std::vector<int32_t>(40, 20));
  WindowLimits limits = Limits();
  limits.grid_tokens = 200;
  const size_t drop = line.Window().UsualCut(limits);
  line.Add(20);
  line.Add(20);
  EXPECT_EQ(line.Window().UsualCut(limits), drop);
}

TEST(SessionWindow, TheLastTurnStaysWhileItFits) {
  const Line line({200, 580});
  EXPECT_EQ(line.Window().PlanCut(100, 1, Limits()).value(), 1u);
  EXPECT_EQ(line.Window().PlanCut(212, 1, Limits()).value(), 1u);
  EXPECT_EQ(line.Window().PlanCut(213, 1, Limits()).value(), 2u);
}

TEST(SessionWindow, AMessageThatFillsTheWindowByItselfKeepsWhatThereIsRoomFor) {
  const Line line({400, 100});
  EXPECT_EQ(line.Window().PlanCut(880, 1, Limits()).value(), 1u);
  EXPECT_EQ(line.Window().PlanCut(989, 1, Limits()).value(), 2u);
  const auto refused = line.Window().PlanCut(990, 1, Limits());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_NE(refused.error().message().find("990"), std::string::npos);
  EXPECT_NE(refused.error().message().find("1000"), std::string::npos);
}

TEST(SessionWindow, AnEmptySessionOnlyAsksWhetherTheMessageFits) {
  EXPECT_EQ(SessionWindow().PlanCut(999, 1, Limits()).value(), std::nullopt);
  EXPECT_EQ(SessionWindow().PlanCut(1000, 0, Limits()).value(), std::nullopt);
  const auto refused = SessionWindow().PlanCut(1000, 1, Limits());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("1000 tokens, the system prompt among them"),
            std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace tenuto
