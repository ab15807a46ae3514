#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace tenuto {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Error(Code::kInvalid, "odd").At("n");
  return n / 2;
}

Result<int> Quarter(int n) {
  TENUTO_ASSIGN(const int half, Half(n));
  TENUTO_ASSIGN(const int quarter, Half(half));
  return quarter;
}

Status Check(int n, bool& reached_end) {
  TENUTO_TRY(Half(n));
  reached_end = true;
  return Ok();
}

TEST(Result, HoldsAValue) {
  const Result<int> result = Half(8);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(result.value(), 4);
  EXPECT_EQ(*result, 4);
}

TEST(Result, HoldsAnErrorWithItsField) {
  const Result<int> result = Half(3);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Code::kInvalid);
  EXPECT_EQ(result.error().message(), "odd");
  EXPECT_EQ(result.error().field(), "n");
}

TEST(Result, WithPutsTheContextInFrontAndKeepsTheRest) {
  const Error error = Error(Code::kIo, "disk full").At("store").With("commit").With("turn 7");
  EXPECT_EQ(error.message(), "turn 7: commit: disk full");
  EXPECT_EQ(error.code(), Code::kIo);
  EXPECT_EQ(error.field(), "store");
}

TEST(Result, AssignPassesValuesAndTheFirstErrorOn) {
  EXPECT_EQ(Quarter(12).value(), 3);
  EXPECT_EQ(Quarter(6).error().message(), "odd");
  EXPECT_EQ(Quarter(7).error().field(), "n");
}

TEST(Result, TryReturnsAtTheError) {
  bool reached_end = false;
  EXPECT_FALSE(Check(1, reached_end).ok());
  EXPECT_FALSE(reached_end);
  EXPECT_TRUE(Check(2, reached_end).ok());
  EXPECT_TRUE(reached_end);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> out = std::move(result).value();
  EXPECT_EQ(*out, 5);
}

TEST(Result, ArrowReachesTheValue) {
  Result<std::string> result = std::string("abc");
  EXPECT_EQ(result->size(), 3u);
  result->push_back('d');
  EXPECT_EQ(*result, "abcd");
}

TEST(Result, EveryCodeHasItsOwnName) {
  const std::set<std::string_view> names = {
      CodeName(Code::kNotFound), CodeName(Code::kCorrupt),   CodeName(Code::kInvalid),
      CodeName(Code::kConflict), CodeName(Code::kExhausted), CodeName(Code::kUnavailable),
      CodeName(Code::kDenied),   CodeName(Code::kIo),
  };
  EXPECT_EQ(names.size(), 8u);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(CodeName(static_cast<Code>(99)), "unknown");
}

TEST(ResultDeathTest, ValueOfAnErrorAborts) {
  EXPECT_DEATH(std::ignore = Half(3).value(), "value\\(\\) of an error: invalid: odd");
}

}  // namespace
}  // namespace tenuto
