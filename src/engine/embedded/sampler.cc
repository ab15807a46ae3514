#include "engine/embedded/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/check.h"

namespace tenuto {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();
constexpr double kLogSlack = 1e-3;  // keeps rounding from taking a token that is just inside
constexpr size_t kBlock = 128;      // logits looked at together

bool Better(const TokenCandidate& a, const TokenCandidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

using Lanes = float __attribute__((vector_size(16)));  // a vector type of g++ and clang

inline void KeepGreater(const float* x, Lanes& greatest) {
  Lanes loaded;
  std::memcpy(&loaded, x, sizeof(loaded));
  greatest = loaded > greatest ? loaded : greatest;  // NaN is never greater, so it drops out
}

// The greatest of x[0, n), NaN left out. Written with vectors: compilers may not vectorise a float
// maximum by themselves, because of what NaN would do, and this loop is most of a greedy draw.
float MaxOf(const float* x, size_t n) {
  constexpr size_t kWidth = sizeof(Lanes) / sizeof(float);
  Lanes m0 = {kNegativeInfinity, kNegativeInfinity, kNegativeInfinity, kNegativeInfinity};
  Lanes m1 = m0;
  Lanes m2 = m0;
  Lanes m3 = m0;
  size_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    KeepGreater(x + i, m0);
    KeepGreater(x + i + kWidth, m1);
    KeepGreater(x + i + 2 * kWidth, m2);
    KeepGreater(x + i + 3 * kWidth, m3);
  }
  m0 = m1 > m0 ? m1 : m0;
  m2 = m3 > m2 ? m3 : m2;
  m0 = m2 > m0 ? m2 : m0;
  float max = kNegativeInfinity;
  for (size_t j = 0; j < kWidth; ++j)
    max = m0[j] > max ? m0[j] : max;
  for (; i < n; ++i)
    max = x[i] > max ? x[i] : max;
  return max;
}

// e^(logit - max), also where both are infinite.
float WeightOf(float logit, float max) {
  return logit == max ? 1.0F : std::exp(logit - max);
}

// Of tokens [begin, end), those of at least `floor` and above -inf.
void AppendAbove(std::span<const float> logits, size_t begin, size_t end, float floor,
                 std::vector<TokenCandidate>& out) {
  for (size_t i = begin; i < end; ++i) {
    if (logits[i] >= floor && logits[i] > kNegativeInfinity) {
      out.push_back({logits[i], static_cast<TokenId>(i)});
    }
  }
}

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Draws from candidates with probability proportional to e^(logit / temperature). REQUIRES: not
// empty.
TokenId Draw(SamplerScratch& scratch, double temperature, double uniform) {
  float max = kNegativeInfinity;
  for (const TokenCandidate& c : scratch.candidates)
    max = std::max(max, c.logit);
  scratch.weights.clear();
  double total = 0;
  for (const TokenCandidate& c : scratch.candidates) {
    const double weight =
        c.logit == max ? 1.0 : std::exp((double{c.logit} - double{max}) / temperature);
    scratch.weights.push_back(weight);
    total += weight;
  }
  double left = uniform * total;
  TokenId last = scratch.candidates.front().token;
  for (size_t i = 0; i < scratch.candidates.size(); ++i) {
    if (scratch.weights[i] <= 0) continue;
    last = scratch.candidates[i].token;
    left -= scratch.weights[i];
    if (left < 0) break;
  }
  return last;  // rounding may leave a rest: then the last that is possible at all
}

}  // namespace

TokenId Argmax(std::span<const float> logits) {
  float best = kNegativeInfinity;
  size_t best_block = 0;
  for (size_t at = 0; at < logits.size(); at += kBlock) {
    const float max = MaxOf(logits.data() + at, std::min(kBlock, logits.size() - at));
    if (max > best) {
      best = max;
      best_block = at;
    }
  }
  if (best == kNegativeInfinity) return -1;
  size_t i = best_block;
  while (logits[i] != best)
    ++i;
  return static_cast<TokenId>(i);
}

void SelectTop(std::span<const float> logits, size_t k, SamplerScratch& scratch) {
  std::vector<TokenCandidate>& out = scratch.candidates;
  std::vector<float>& maxima = scratch.block_maxima;
  // The k-th greatest of the blocks' maxima: k blocks hold something at least as great, so nothing
  // below it is among the k best. Mostly it leaves little more than k candidates in k blocks, and
  // the others are read only once.
  float floor = kNegativeInfinity;
  maxima.clear();
  const size_t blocks = (logits.size() + kBlock - 1) / kBlock;
  if (k > 0 && k < blocks) {
    maxima.reserve(2 * blocks);
    for (size_t at = 0; at < logits.size(); at += kBlock) {
      maxima.push_back(MaxOf(logits.data() + at, std::min(kBlock, logits.size() - at)));
    }
    maxima.insert(maxima.end(), maxima.begin(), maxima.begin() + static_cast<ptrdiff_t>(blocks));
    const auto ranked = maxima.begin() + static_cast<ptrdiff_t>(blocks);
    const auto kth = ranked + static_cast<ptrdiff_t>(k - 1);
    std::nth_element(ranked, kth, maxima.end(), std::greater<>());
    floor = *kth;
  }
  out.clear();
  for (size_t at = 0; at < logits.size(); at += kBlock) {
    if (!maxima.empty() && !(maxima[at / kBlock] >= floor)) continue;
    AppendAbove(logits, at, std::min(at + kBlock, logits.size()), floor, out);
  }
  if (k < out.size()) {
    std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(k), out.end(), Better);
    out.resize(k);
  }
  std::sort(out.begin(), out.end(), Better);
}

double UniformAt(uint64_t seed, uint64_t index) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  const uint64_t bits = Mix(Mix(seed + kGolden) + (index + 1) * kGolden);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

Status CheckSampling(const SamplingParams& params, int32_t vocabulary_size) {
  const auto number = [](double value) { return !std::isnan(value); };
  if (!number(params.temperature)) return Error(Code::kInvalid, "temperature is not a number");
  if (!number(params.top_p)) return Error(Code::kInvalid, "top_p is not a number");
  if (!number(params.min_p)) return Error(Code::kInvalid, "min_p is not a number");
  if (!std::isfinite(params.repeat_penalty) || params.repeat_penalty <= 0) {
    return Error(Code::kInvalid, "repeat_penalty must be above 0");
  }
  if (!std::isfinite(params.presence_penalty) || !std::isfinite(params.frequency_penalty)) {
    return Error(Code::kInvalid, "a penalty is not a finite number");
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocabulary_size || std::isnan(bias)) {
      return Error(Code::kInvalid, "logit_bias: token " + std::to_string(token) +
                                       " is outside the vocabulary or its bias is not a number");
    }
  }
  return Ok();
}

Sampler::Sampler(SamplingParams params) : params_(std::move(params)) {
  const bool any = params_.repeat_penalty != 1.0 || params_.presence_penalty != 0.0 ||
                   params_.frequency_penalty != 0.0;
  penalties_ = any && params_.penalty_last_n != 0;
}

Result<TokenId> Sampler::Sample(std::span<const float> logits, std::span<const TokenId> history,
                                uint64_t index, SamplerScratch& scratch) const {
  const bool adjust = penalties_ || !params_.logit_bias.empty();
  const std::span<const float> view = adjust ? Adjust(logits, history, scratch) : logits;
  if (params_.temperature <= 0) {
    const TokenId token = Argmax(view);
    if (token < 0) return Error(Code::kInvalid, "no token can be drawn: all are banned or NaN");
    return token;
  }
  Choose(view, scratch);
  if (scratch.candidates.empty()) {
    return Error(Code::kInvalid, "no token can be drawn: all are banned or NaN");
  }
  return Draw(scratch, params_.temperature, UniformAt(params_.seed, index));
}

std::span<const float> Sampler::Adjust(std::span<const float> logits,
                                       std::span<const TokenId> history,
                                       SamplerScratch& scratch) const {
  std::vector<float>& out = scratch.adjusted;
  out.assign(logits.begin(), logits.end());
  for (const auto& [token, bias] : params_.logit_bias)
    out[static_cast<size_t>(token)] += bias;
  if (!penalties_) return out;

  size_t last_n = history.size();
  if (params_.penalty_last_n >= 0) {
    last_n = std::min(last_n, static_cast<size_t>(params_.penalty_last_n));
  }
  const std::span<const TokenId> window = history.last(last_n);
  scratch.counts.resize(std::max(scratch.counts.size(), logits.size()), 0);
  for (const TokenId token : window)
    ++scratch.counts[static_cast<size_t>(token)];
  const auto repeat = static_cast<float>(params_.repeat_penalty);
  for (const TokenId token : window) {
    const auto i = static_cast<size_t>(token);
    const int32_t count = scratch.counts[i];
    if (count == 0) continue;  // seen already
    scratch.counts[i] = 0;
    float& logit = out[i];
    logit = logit <= 0 ? logit * repeat : logit / repeat;
    logit -= static_cast<float>(count * params_.frequency_penalty + params_.presence_penalty);
  }
  return out;
}

// Leaves in scratch.candidates what may be drawn.
void Sampler::Choose(std::span<const float> logits, SamplerScratch& scratch) const {
  std::vector<TokenCandidate>& candidates = scratch.candidates;
  const bool top_k = params_.top_k > 0 && static_cast<size_t>(params_.top_k) < logits.size();
  const bool top_p = params_.top_p < 1;
  if (top_k) {
    SelectTop(logits, static_cast<size_t>(params_.top_k), scratch);
    if (candidates.empty()) return;
    if (top_p) {
      double total = 0;
      for (const TokenCandidate& c : candidates) {
        total += WeightOf(c.logit, candidates.front().logit);
      }
      candidates.resize(NucleusSize(candidates, total));
    }
    const float floor = MinPFloor(candidates.front().logit);
    while (candidates.size() > 1 && candidates.back().logit < floor)
      candidates.pop_back();
    return;
  }
  const float max = MaxOf(logits.data(), logits.size());
  float floor = MinPFloor(max);
  double total = 0;
  if (top_p) {
    for (const float logit : logits) {
      if (logit > kNegativeInfinity) total += WeightOf(logit, max);
    }
    // Tokens that together weigh less than the share top_p leaves out are outside the nucleus, so
    // need no sorting.
    const double light =
        (1 - std::max(params_.top_p, 0.0)) * total / static_cast<double>(logits.size());
    if (std::isfinite(max) && light > 0) {
      floor = std::max(floor, max + static_cast<float>(std::log(std::min(light, 1.0)) - kLogSlack));
    }
  }
  candidates.clear();
  AppendAbove(logits, 0, logits.size(), floor, candidates);
  if (!top_p || candidates.empty()) return;
  std::sort(candidates.begin(), candidates.end(), Better);
  candidates.resize(NucleusSize(candidates, total));
}

// Logits below this weigh less than min_p of the best. min_p above 1 is taken as 1: the best always
// stays.
float Sampler::MinPFloor(float max) const {
  if (params_.min_p <= 0 || !std::isfinite(max))
    return params_.min_p <= 0 ? kNegativeInfinity : max;
  return max + static_cast<float>(std::log(std::min(params_.min_p, 1.0)));
}

// How many of `sorted` it takes to reach top_p of `total`; at least one.
size_t Sampler::NucleusSize(std::span<const TokenCandidate> sorted, double total) const {
  const double want = params_.top_p * total;
  double sum = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    sum += WeightOf(sorted[i].logit, sorted.front().logit);
    if (sum >= want) return i + 1;
  }
  return sorted.size();
}

}  // namespace tenuto
