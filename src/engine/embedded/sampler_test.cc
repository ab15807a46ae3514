#include "engine/embedded/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace tenuto {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingParams Plain(double temperature = 1.0) {  // everything else off
  SamplingParams p;
  p.temperature = temperature;
  p.top_k = 0;
  p.top_p = 1;
  p.min_p = 0;
  return p;
}

std::vector<float> RandomLogits(size_t n, uint32_t seed, float spread = 4) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& l : logits)
    l = normal(random);
  return logits;
}

// How often each token comes in `draws` draws.
std::map<TokenId, int> Histogram(const SamplingParams& params, const std::vector<float>& logits,
                                 int draws, const std::vector<TokenId>& history = {}) {
  const Sampler sampler(params);
  SamplerScratch scratch;
  std::map<TokenId, int> counts;
  for (int i = 0; i < draws; ++i) {
    const auto token = sampler.Sample(logits, history, static_cast<uint64_t>(i), scratch);
    EXPECT_TRUE(token.ok());
    if (!token.ok()) break;
    ++counts[*token];
  }
  return counts;
}

std::vector<double> Softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p(logits.size());
  const double max = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    p[i] = std::exp((static_cast<double>(logits[i]) - max) / temperature);
    total += p[i];
  }
  for (double& x : p)
    x /= total;
  return p;
}

// Pearson's statistic of the draws against `p`, over tokens with p > 0; tokens with p == 0 must
// never come.
double ChiSquare(const std::map<TokenId, int>& counts, const std::vector<double>& p, int draws) {
  double chi = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const auto it = counts.find(static_cast<TokenId>(i));
    const double seen = it == counts.end() ? 0 : it->second;
    if (p[i] == 0) {
      EXPECT_EQ(seen, 0) << i;
      continue;
    }
    const double want = p[i] * draws;
    chi += (seen - want) * (seen - want) / want;
  }
  return chi;
}

TEST(Argmax, IsTheLowestOfTheGreatest) {
  EXPECT_EQ(Argmax(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(Argmax(std::vector<float>{kNan, -5, kNan, -4}), 3);
  EXPECT_EQ(Argmax(std::vector<float>{-kInf, -kInf}), -1);
  EXPECT_EQ(Argmax(std::vector<float>{kNan, kNan}), -1);
  EXPECT_EQ(Argmax({}), -1);
  EXPECT_EQ(Argmax(std::vector<float>{0, kInf, kInf}), 1);
  for (const size_t n : {1u, 15u, 16u, 17u, 127u, 128u, 129u, 1000u, 49152u}) {
    auto logits = RandomLogits(n, static_cast<uint32_t>(n));
    const auto want = std::max_element(logits.begin(), logits.end()) - logits.begin();
    EXPECT_EQ(Argmax(logits), want) << n;
    if (n > 1) {  // NaN anywhere else makes no difference
      auto holes = logits;
      for (size_t i = 0; i < n; i += 2) {
        if (static_cast<ptrdiff_t>(i) != want) holes[i] = kNan;
      }
      EXPECT_EQ(Argmax(holes), want) << n;
    }
    // The same greatest value once more, further on: the first still wins.
    logits.push_back(logits[static_cast<size_t>(want)]);
    EXPECT_EQ(Argmax(logits), want) << n;
  }
}

TEST(SelectTop, EqualsASort) {
  for (const size_t n : {5u, 300u, 5000u, 20'000u}) {
    auto logits = RandomLogits(n, 11);
    for (size_t i = 0; i < n; i += 3)
      logits[i] = std::round(logits[i]);  // many ties
    logits[n / 2] = kNan;
    logits[n / 3] = -kInf;
    std::vector<TokenCandidate> sorted;
    for (size_t i = 0; i < n; ++i) {
      if (logits[i] > -kInf) sorted.push_back({logits[i], static_cast<TokenId>(i)});
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.logit > b.logit; });
    for (const size_t k : {0u, 1u, 2u, 40u, 299u, 2048u, 2049u, 4000u, 9999u}) {
      SamplerScratch scratch;
      SelectTop(logits, k, scratch);
      const std::vector<TokenCandidate>& top = scratch.candidates;
      ASSERT_EQ(top.size(), std::min(k, sorted.size())) << n << " " << k;
      for (size_t i = 0; i < top.size(); ++i) {
        ASSERT_EQ(top[i].token, sorted[i].token) << n << " " << k << " " << i;
      }
    }
  }
}

TEST(Sampler, GreedyIsArgmaxWhateverElseIsSet) {
  const auto logits = RandomLogits(1000, 3);
  SamplingParams p;
  p.temperature = 0;
  p.top_k = 7;
  p.top_p = 0.2;
  p.min_p = 0.9;
  EXPECT_EQ(Histogram(p, logits, 20), (std::map<TokenId, int>{{Argmax(logits), 20}}));
  p.temperature = -1;
  EXPECT_EQ(Histogram(p, logits, 20), (std::map<TokenId, int>{{Argmax(logits), 20}}));
}

TEST(Sampler, DrawsTheSoftmaxAtEveryTemperature) {
  const std::vector<float> logits = {1.0f, 0.0f, 2.0f, -1.0f, 0.5f, -kInf, kNan, 1.5f};
  constexpr int kDraws = 40'000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    auto p = Softmax({1.0f, 0.0f, 2.0f, -1.0f, 0.5f, -1e9f, -1e9f, 1.5f}, temperature);
    auto params = Plain(temperature);
    params.seed = 12345;
    // 5 degrees of freedom: 20.5 is the 99.9 % quantile. Fixed seed, so this never flickers.
    EXPECT_LT(ChiSquare(Histogram(params, logits, kDraws), p, kDraws), 20.5) << temperature;
  }
}

TEST(Sampler, TopKKeepsTheBestKRenormalised) {
  const std::vector<float> logits = {1, 5, 3, 4, 2};
  auto params = Plain();
  params.top_k = 3;
  params.seed = 99;
  auto p = Softmax({-1e9f, 5, 3, 4, -1e9f}, 1.0);
  EXPECT_LT(ChiSquare(Histogram(params, logits, 20'000), p, 20'000), 13.8);  // 2 dof, 99.9 %
  params.top_k = 1;
  EXPECT_EQ(Histogram(params, logits, 50), (std::map<TokenId, int>{{1, 50}}));
  params.top_k = 1000;  // beyond the vocabulary: off
  EXPECT_EQ(Histogram(params, logits, 5000).size(), 5u);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesP) {
  // Probabilities 0.5 0.25 0.125 0.125.
  const std::vector<float> logits = {std::log(4.0f), std::log(2.0f), 0, 0};
  auto params = Plain();
  for (const int32_t top_k : {0, 3, 4}) {
    params.top_k = top_k;
    params.top_p = 0.6;
    EXPECT_EQ(Histogram(params, logits, 2000).size(), 2u) << top_k;
    params.top_p = 0.4;
    EXPECT_EQ(Histogram(params, logits, 2000).size(), 1u) << top_k;
    params.top_p = 0.0;
    EXPECT_EQ(Histogram(params, logits, 100), (std::map<TokenId, int>{{0, 100}})) << top_k;
    params.top_p = -3;
    EXPECT_EQ(Histogram(params, logits, 100), (std::map<TokenId, int>{{0, 100}})) << top_k;
  }
  params.top_k = 0;
  params.top_p = 0.9;
  EXPECT_EQ(Histogram(params, logits, 2000).size(), 4u);
  // After top_k the probabilities are those of what is left: 0.57 0.29 0.14.
  params.top_k = 3;
  params.top_p = 0.8;
  EXPECT_EQ(Histogram(params, logits, 2000).size(), 2u);
}

TEST(Sampler, TopPOverAFlatVocabularyTakesMostOfIt) {
  const std::vector<float> flat(1000, 1.0f);
  auto params = Plain();
  params.top_p = 0.5;
  const auto counts = Histogram(params, flat, 5000);
  EXPECT_LE(counts.rbegin()->first, 500);  // ties go by id
  EXPECT_GT(counts.size(), 480u);
}

// Every way of choosing against the definition: sort all, cut by top_k, top_p and min_p, and
// nothing else may come.
TEST(Sampler, ChoosesExactlyWhatTheDefinitionDoes) {
  std::mt19937 random(17);
  for (int round = 0; round < 60; ++round) {
    const auto logits = RandomLogits(40 + random() % 200, static_cast<uint32_t>(random()),
                                     1 + static_cast<float>(random() % 3));
    auto params = Plain();
    params.top_k = std::vector<int32_t>{0, 1, 20, 1000}[random() % 4];
    params.top_p = std::vector<double>{1.0, 0.95, 0.5, 0.1}[random() % 4];
    params.min_p = std::vector<double>{0.0, 0.05, 0.3}[random() % 3];
    params.seed = random();

    std::vector<size_t> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    if (params.top_k > 0)
      order.resize(std::min<size_t>(order.size(), static_cast<size_t>(params.top_k)));
    const double max = logits[order[0]];
    double total = 0;
    for (const size_t i : order)
      total += std::exp(logits[i] - max);
    std::vector<double> p(logits.size(), 0.0);
    double sum = 0;
    double chosen = 0;
    for (const size_t i : order) {
      const double weight = std::exp(logits[i] - max);
      if (weight >= params.min_p) {
        p[i] = weight;
        chosen += weight;
      }
      sum += weight;
      if (sum >= params.top_p * total) break;
    }
    for (double& x : p)
      x /= chosen;
    double kinds = 0;
    for (const double x : p)
      kinds += x > 0 ? 1 : 0;
    // Mean kinds - 1, deviation sqrt(2 (kinds - 1)) were all counts large; rare tokens make the
    // tail longer.
    EXPECT_LT(ChiSquare(Histogram(params, logits, 4000), p, 4000),
              kinds + 12 * std::sqrt(kinds) + 12)
        << round;
  }
}

TEST(Sampler, MinPIsAShareOfTheBest) {
  const std::vector<float> logits = {0, std::log(0.5f), std::log(0.2f), std::log(0.01f)};
  auto params = Plain();
  for (const int32_t top_k : {0, 3}) {
    params.top_k = top_k;
    params.min_p = 0.3;
    EXPECT_EQ(Histogram(params, logits, 2000).size(), 2u);
    params.min_p = 0.1;
    EXPECT_EQ(Histogram(params, logits, 2000).size(), 3u);
    params.min_p = 1.0;
    EXPECT_EQ(Histogram(params, logits, 100), (std::map<TokenId, int>{{0, 100}}));
    params.min_p = 7.0;
    EXPECT_EQ(Histogram(params, logits, 100), (std::map<TokenId, int>{{0, 100}}));
  }
  params.min_p = 0.3;
  params.top_p = 0.99;
  params.top_k = 0;
  EXPECT_EQ(Histogram(params, logits, 2000).size(), 2u);
}

TEST(Sampler, PenaltiesActAsInLlamaCpp) {
  auto params = Plain(0);
  const std::vector<TokenId> history = {0, 1, 1, 1};
  // repeat: positive logits are divided, others multiplied.
  params.repeat_penalty = 2;
  EXPECT_EQ(Histogram(params, {3.0f, 1.0f, 1.6f}, 1, history).begin()->first, 2);     // 1.5 0.5 1.6
  EXPECT_EQ(Histogram(params, {-1.0f, -9.0f, -1.9f}, 1, history).begin()->first, 2);  // -2 -18 -1.9
  params.repeat_penalty = 1;
  // presence: once, however often it occurred; frequency: each time.
  params.presence_penalty = 1;
  EXPECT_EQ(Histogram(params, {0.0f, 2.5f, 1.0f}, 1, history).begin()->first, 1);
  params.presence_penalty = 0;
  params.frequency_penalty = 1;
  EXPECT_EQ(Histogram(params, {0.0f, 2.5f, 1.0f}, 1, history).begin()->first, 2);
  // Only the last n count, 0 turns it off, -1 is all of it.
  params.presence_penalty = 5;
  params.frequency_penalty = 0;
  params.penalty_last_n = 3;
  EXPECT_EQ(Histogram(params, {2.0f, 3.0f, 1.0f}, 1, history).begin()->first, 0);
  params.penalty_last_n = 4;
  EXPECT_EQ(Histogram(params, {2.0f, 3.0f, 1.0f}, 1, history).begin()->first, 2);
  params.penalty_last_n = -1;
  EXPECT_EQ(Histogram(params, {2.0f, 3.0f, 1.0f}, 1, history).begin()->first, 2);
  params.penalty_last_n = 0;
  EXPECT_EQ(Histogram(params, {2.0f, 3.0f, 1.0f}, 1, history).begin()->first, 1);
}

TEST(Sampler, PenaltyCountsAreCleanForTheNextDraw) {
  auto params = Plain(0);
  params.frequency_penalty = 1;
  const Sampler sampler(params);
  SamplerScratch scratch;
  const std::vector<TokenId> history = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*sampler.Sample(std::vector<float>{3.5f, 1.0f}, history, 0, scratch), 1);
    EXPECT_EQ(*sampler.Sample(std::vector<float>{3.5f, 1.0f}, {}, 0, scratch), 0);
  }
}

TEST(Sampler, BiasIsAddedFirstAndBans) {
  auto params = Plain(0);
  params.logit_bias = {{0, -kInf}, {2, 1.5f}};
  EXPECT_EQ(Histogram(params, {9.0f, 2.0f, 1.0f}, 1).begin()->first, 2);
  params.temperature = 1;
  EXPECT_EQ(Histogram(params, {9.0f, 2.0f, 1.0f}, 2000).count(0), 0u);
  params.logit_bias = {{1, kInf}};
  EXPECT_EQ(Histogram(params, {9.0f, 2.0f, 1.0f}, 100), (std::map<TokenId, int>{{1, 100}}));
}

TEST(Sampler, NothingLeftIsAnError) {
  SamplerScratch scratch;
  for (const double temperature : {0.0, 1.0}) {
    for (const int32_t top_k : {0, 2}) {
      for (const double top_p : {0.5, 1.0}) {
        auto params = Plain(temperature);
        params.top_k = top_k;
        params.top_p = top_p;
        const auto nan = Sampler(params).Sample(std::vector<float>(300, kNan), {}, 0, scratch);
        ASSERT_FALSE(nan.ok());
        EXPECT_EQ(nan.error().code(), Code::kInvalid);
        params.logit_bias = {{0, -kInf}, {1, -kInf}, {2, -kInf}};
        EXPECT_FALSE(Sampler(params).Sample(std::vector<float>{1, 2, 3}, {}, 0, scratch).ok());
        // One NaN among others only drops out.
        params.logit_bias.clear();
        EXPECT_EQ(*Sampler(params).Sample(std::vector<float>{kNan, 0, kNan}, {}, 0, scratch), 1);
      }
    }
  }
}

TEST(Sampler, ExtremeTemperatures) {
  const std::vector<float> logits = {1.0f, 1.0001f, -3.0f};
  EXPECT_EQ(Histogram(Plain(1e-300), logits, 50), (std::map<TokenId, int>{{1, 50}}));
  EXPECT_EQ(Histogram(Plain(1e-9), logits, 50), (std::map<TokenId, int>{{1, 50}}));
  const auto hot = Histogram(Plain(std::numeric_limits<double>::infinity()), logits, 30'000);
  EXPECT_LT(ChiSquare(hot, {1.0 / 3, 1.0 / 3, 1.0 / 3}, 30'000), 13.8);
  EXPECT_EQ(Histogram(Plain(1), {0.0f, kInf, 3.0f}, 50), (std::map<TokenId, int>{{1, 50}}));
}

TEST(Sampler, IsAFunctionOfSeedAndIndexOnly) {
  const auto logits = RandomLogits(500, 5, 1);
  auto params = Plain();
  params.seed = 42;
  const Sampler sampler(params);
  SamplerScratch scratch;
  std::vector<TokenId> forwards, backwards;
  for (uint64_t i = 0; i < 50; ++i)
    forwards.push_back(*sampler.Sample(logits, {}, i, scratch));
  SamplerScratch other;
  for (uint64_t i = 50; i-- > 0;)
    backwards.push_back(*Sampler(params).Sample(logits, {}, i, other));
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_EQ(forwards, backwards);
  params.seed = 43;
  std::vector<TokenId> reseeded;
  for (uint64_t i = 0; i < 50; ++i)
    reseeded.push_back(*Sampler(params).Sample(logits, {}, i, scratch));
  EXPECT_NE(forwards, reseeded);
}

TEST(Uniform, IsUniformAlongBothOfItsArguments) {
  for (const bool along_seed : {false, true}) {
    std::vector<int> buckets(64, 0);
    constexpr uint64_t kDraws = 64'000;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const double u = along_seed ? UniformAt(i, 3) : UniformAt(3, i);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++buckets[static_cast<size_t>(u * 64)];
    }
    double chi = 0;
    for (const int n : buckets)
      chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
    EXPECT_LT(chi, 103.4);  // 63 dof, 99.9 %
  }
}

TEST(CheckSampling, RefusesWhatHasNoMeaning) {
  EXPECT_TRUE(CheckSampling(SamplingParams{}, 10).ok());
  const auto refused = [](auto change) {
    SamplingParams p;
    change(p);
    const Status status = CheckSampling(p, 10);
    return !status.ok() && status.error().code() == Code::kInvalid;
  };
  EXPECT_TRUE(refused([](auto& p) { p.temperature = kNan; }));
  EXPECT_TRUE(refused([](auto& p) { p.top_p = kNan; }));
  EXPECT_TRUE(refused([](auto& p) { p.min_p = kNan; }));
  EXPECT_TRUE(refused([](auto& p) { p.repeat_penalty = 0; }));
  EXPECT_TRUE(refused([](auto& p) { p.frequency_penalty = kInf; }));
  EXPECT_TRUE(refused([](auto& p) { p.presence_penalty = kNan; }));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{10, 1.0f}}; }));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{-1, 1.0f}}; }));
  EXPECT_TRUE(refused([](auto& p) { p.logit_bias = {{1, kNan}}; }));
}

}  // namespace
}  // namespace tenuto
