// What is left out must not show: the best passages, their scores to the last bit and their terms
// are those of a pass that leaves nothing out.
#include "recall/evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "recall/testing.h"

namespace tenuto {
namespace {

constexpr size_t kBest = 50;

struct Found {
  float score = 0.0F;
  uint32_t passage = 0;
  uint32_t user = 0;
  uint32_t any = 0;
  bool operator==(const Found&) const = default;
};

bool In(std::span<const TurnRange> ranges, uint32_t passage) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const TurnRange& range) {
    return passage >= range.begin && passage < range.end;
  });
}

std::vector<Found> Sorted(std::vector<Found> found) {
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.score != b.score ? a.score > b.score : a.passage > b.passage;
  });
  return found;
}

// A few templates and nouns, so that words are in many turns and scores are often the same, and now
// and then a word that few have.
class Talk {
 public:
  explicit Talk(uint32_t seed) : random_(seed) {}
  std::string Line() {
    static constexpr std::array<std::string_view, 5> kBefore = {
        "Tell me something about ", "Why do people like ", "Compare bread with ",
        "I saw a film about ", "Owls and lanterns are like "};
    std::string line(kBefore[random_() % kBefore.size()]);
    for (size_t nouns = 1 + random_() % 3; nouns > 0; --nouns)
      line.append(Noun()).append(" ");
    if (random_() % 20 == 0) line += "rare" + std::to_string(random_() % 40) + "x";
    return line + (random_() % 2 == 0 ? "?" : ".");
  }
  std::string Noun() {
    static constexpr std::array<std::string_view, 9> kNouns = {
        "bread", "rain", "chess", "tulips", "glass", "salt", "owls", "paint", "soup"};
    return std::string(kNouns[random_() % kNouns.size()]);
  }
  uint32_t Draw(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

 private:
  std::mt19937 random_;
};

TEST(PassageEvidence, TheBestAreThoseOfAPassThatLeavesNothingOut) {
  Talk talk(5);
  TestArchive archive;
  PassageEvidence evidence;
  std::array<size_t, 2> kept = {};  // passages, for the best and for all
  for (int round = 0; round < 60; ++round) {
    for (uint32_t i = 0; i < 60; ++i)
      archive.Say(talk.Line(), talk.Line() + (talk.Draw(4) == 0 ? talk.Line() : ""));
    if (round % 16 == 9) {
      ASSERT_TRUE(archive.index.Remove(1 + talk.Draw(archive.turns)));
    }
    const auto passages = static_cast<uint32_t>(archive.index.passages().size());
    const uint32_t from = passages - talk.Draw(90) % passages;
    PassageScope scope;
    scope.candidates = {{talk.Draw(3), passages / 3}, {passages / 2 - talk.Draw(5), from}};
    scope.window = {{passages / 3, passages / 3 + 1}, {from, passages}};
    const std::string text = talk.Line();
    const Question question = {text, {1715429000, 0}, {}, {}};
    const Query query = BuildQuery(archive.analyser, archive.index, question);
    const Bm25 bm25 = {0.75, 0.3, archive.index.AverageTokens(0.2), 0.2, 0.5, 0.05};
    const auto collect = [&](size_t best_max) {
      evidence.Collect(archive.index, query, bm25, scope, best_max);
      std::vector<Found> found[2];  // candidates, window
      for (const auto& [score, passage] : evidence.best()) {
        const auto& cell = evidence.At(passage);
        EXPECT_EQ(score, cell.score);
        EXPECT_TRUE(In(scope.candidates, passage));
        found[0].push_back({cell.score, passage, cell.user, cell.any});
      }
      for (uint32_t passage = 0; passage < passages; ++passage) {
        const auto& cell = evidence.At(passage);
        const bool any = cell.any != 0;
        kept[best_max == kBest ? 0 : 1] += any ? 1 : 0;
        if (any && In(scope.window, passage))
          found[1].push_back({cell.score, passage, cell.user, cell.any});
      }
      evidence.Clear();
      return std::pair(Sorted(found[0]), Sorted(found[1]));
    };
    auto [best, near] = collect(kBest);
    auto [all, all_near] = collect(SIZE_MAX);
    all.resize(std::min(all.size(), kBest));
    EXPECT_EQ(best, all) << text;
    EXPECT_EQ(near, all_near) << text;
  }
  EXPECT_GT(kept[1] - kept[0], 10000U);  // or the test shows nothing
}

TEST(PassageEvidence, OfAnEmptyIndexIsNothing) {
  TestArchive archive;
  PassageEvidence evidence;
  const Query query = BuildQuery(archive.analyser, archive.index, {"bread", {}, {}, {}});
  evidence.Collect(archive.index, query, {}, {}, kBest);
  EXPECT_TRUE(evidence.best().empty());
}

}  // namespace
}  // namespace tenuto
