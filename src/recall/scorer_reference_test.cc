// The ranking against a slow one that scores every turn in full, on random talk: what the scorer
// leaves out to be fast must not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "recall/testing.h"

namespace tenuto {
namespace {

struct Said {
  std::vector<std::string> user;
  std::vector<std::string> answer;
};

// Only BM25: what else the scorer does is tested by example.
ScorerSettings OnlyBm25() {
  ScorerSettings set;
  set.bare_question = set.other_name = set.same_again = set.number = 1.0;
  set.smoothing = set.coverage = 0.0;
  return set;
}

class Talk {
 public:
  explicit Talk(uint32_t seed) : random_(seed) {}

  Said Turn() { return {Words(3 + random_() % 9), Words(random_() % 20)}; }
  std::vector<std::string> Words(size_t count) {
    std::vector<std::string> words(count);
    for (std::string& word : words) {
      const auto rank =
          static_cast<uint32_t>(random_() % (1 + random_() % kWords));  // the first are common
      word = "q" + std::string(1, static_cast<char>('a' + rank % 23)) + "k" +
             std::string(1, static_cast<char>('a' + rank / 23)) + "z";
    }
    return words;
  }

 private:
  static constexpr uint32_t kWords = 300;
  std::mt19937 random_;
};

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += word + " ";
  return text;
}

double Count(const std::vector<std::string>& words) {
  return static_cast<double>(words.size());
}

// The score of each turn.
std::vector<double> Reference(const std::vector<Said>& said, const std::vector<std::string>& asked,
                              const ScorerSettings& set) {
  double tokens = 0.0;
  for (const Said& one : said)
    tokens += Count(one.user) + set.answer * Count(one.answer);
  const auto turns = static_cast<double>(said.size());
  const double average = tokens / turns;
  std::vector<double> scores(said.size());
  for (const std::string& word : std::set<std::string>(asked.begin(), asked.end())) {
    const auto count = [&](const std::vector<std::string>& words) {
      return std::min(15.0, static_cast<double>(std::count(words.begin(), words.end(), word)));
    };
    double df = 0;
    for (const Said& one : said)
      df += count(one.user) + count(one.answer) > 0 ? 1 : 0;
    const double idf = std::log1p((turns - df + 0.5) / (df + 0.5));
    for (size_t i = 0; i < said.size(); ++i) {
      const double tf = count(said[i].user) + set.answer * count(said[i].answer);
      const double length = Count(said[i].user) + set.answer * Count(said[i].answer);
      const double norm = set.k1 * (1.0 - set.b + set.b * length / average);
      scores[i] += idf * (set.k1 + 1.0) * tf / (tf + norm);
    }
  }
  return scores;
}

TEST(ScorerReferenceTest, TheBestOfThousandsAreTheBest) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    Talk talk(seed);
    TestArchive archive;
    const ScorerSettings set = OnlyBm25();
    std::vector<Said> said;
    for (int i = 0; i < 2500; ++i) {
      said.push_back(talk.Turn());
      archive.Say(Joined(said.back().user), Joined(said.back().answer));
    }
    // Ancestors in two pieces, a branch between them, the window behind.
    const RecallScope scope = {{{1, 1100}, {1300, 2400}}, {{2400, UINT32_MAX}}};
    RecallScorer scorer(set);
    for (size_t round = 0; round < 20; ++round) {
      const std::vector<std::string> asked = talk.Words(2U + round % 7);
      std::vector<double> all = Reference(said, asked, set);
      const std::string text = Joined(asked);
      const Question question = {text, {1715429000, 0}, {}, {}};
      const Query query = BuildQuery(archive.analyser, archive.index, question);
      const Ranking ranking = scorer.Rank(archive.index, query, scope, 12);
      std::vector<double> best;
      for (uint32_t turn = 1; turn < 2400; ++turn) {
        if (turn < 1100 || turn >= 1300) best.push_back(all[turn - 1]);
      }
      std::sort(best.rbegin(), best.rend());
      for (size_t i = 0; i < ranking.hits.size(); ++i) {
        const RecallHit& hit = ranking.hits[i];
        EXPECT_NEAR(hit.score, all[hit.turn - 1], 1e-4) << text;
        EXPECT_NEAR(hit.score, best[i], 1e-4) << text;
      }
      EXPECT_EQ(ranking.hits.size(), 12U);
    }
  }
}

}  // namespace
}  // namespace tenuto
