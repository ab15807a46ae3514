#include "engine/embedded/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tenuto {
namespace {

using Strings = std::vector<std::string>;

TEST(StopMatcher, WithoutStopsNothingIsHeld) {
  StopMatcher matcher({});
  EXPECT_FALSE(matcher.Feed("anything at all"));
  EXPECT_EQ(matcher.held(), 0u);
  const Strings empty = {"", ""};
  StopMatcher ignores(empty);
  EXPECT_FALSE(ignores.Feed("x"));
  EXPECT_EQ(ignores.held(), 0u);
}

TEST(StopMatcher, HoldsWhatMayBeginAStop) {
  const Strings stops = {"<end>", "\n\n"};
  StopMatcher matcher(stops);
  EXPECT_FALSE(matcher.Feed("text <e"));
  EXPECT_EQ(matcher.held(), 2u);
  EXPECT_FALSE(matcher.Feed("m>\n"));
  EXPECT_EQ(matcher.held(), 1u);
  EXPECT_FALSE(matcher.Feed("more"));
  EXPECT_EQ(matcher.held(), 0u);
  const auto match = matcher.Feed("\n\nrest");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->index, 1u);
  EXPECT_EQ(match->begin, 14u);
  EXPECT_EQ(match->end, 16u);
}

TEST(StopMatcher, SelfOverlap) {
  const Strings stops = {"aab"};
  StopMatcher matcher(stops);
  EXPECT_FALSE(matcher.Feed("aaaa"));
  EXPECT_EQ(matcher.held(), 2u);
  const auto match = matcher.Feed("b");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 2u);
}

TEST(StopMatcher, FirstCompleteWinsThenTheLongest) {
  const Strings nested = {"b", "abc"};
  StopMatcher first(nested);
  auto match = first.Feed("xabc");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->index, 0u) << "'b' is complete before 'abc'";
  EXPECT_EQ(match->begin, 2u);

  const Strings same_end = {"c", "abc", "bc"};
  StopMatcher longest(same_end);
  match = longest.Feed("xabc");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->index, 1u);
  EXPECT_EQ(match->begin, 1u);
}

// Against the obvious way: after each byte, does any stop end here?
TEST(StopMatcher, AgreesWithABruteForceSearch) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    auto draw = [&](size_t length) {
      std::string text;
      for (size_t i = 0; i < length; ++i)
        text.push_back(static_cast<char>('a' + random() % 2));
      return text;
    };
    Strings stops;
    for (size_t i = 0; i <= random() % 3; ++i)
      stops.push_back(draw(1 + random() % 6));
    const std::string text = draw(24);

    size_t want_begin = std::string::npos;
    size_t want_end = text.size();
    for (size_t end = 1; end <= text.size() && want_begin == std::string::npos; ++end) {
      for (const std::string& stop : stops) {
        if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
          want_begin = std::min(want_begin, end - stop.size());
          want_end = end;
        }
      }
    }
    StopMatcher matcher(stops);
    size_t fed = 0;
    bool matched = false;
    while (fed < text.size() && !matched) {
      const size_t n = 1 + random() % 4;
      const auto match = matcher.Feed(std::string_view(text).substr(fed, n));
      fed = std::min(text.size(), fed + n);
      if (match) {
        matched = true;
        ASSERT_EQ(match->begin, want_begin);
        ASSERT_EQ(match->end, want_end);
        continue;
      }
      // Held is exactly the longest suffix that is a prefix of a stop.
      size_t want_held = 0;
      for (const std::string& stop : stops) {
        for (size_t k = 1; k < stop.size() && k <= fed; ++k) {
          if (text.compare(fed - k, k, stop, 0, k) == 0) want_held = std::max(want_held, k);
        }
      }
      ASSERT_EQ(matcher.held(), want_held);
    }
    ASSERT_EQ(matched, want_begin != std::string::npos);
  }
}

}  // namespace
}  // namespace tenuto
