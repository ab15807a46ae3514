#include "engine/embedded/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tenuto {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kBlock = 128;  // logits looked at together
constexpr size_t kHeapMax =
    2048;  // above this many, partitioning a full copy is quicker than a heap

bool Better(const TokenCandidate& a, const TokenCandidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Independent lanes, so that the compiler may use vector maxima without being told that NaN can't
// happen: `x > m ? x : m` keeps m where x is NaN.
float MaxOf(const float* x, size_t n) {
  constexpr size_t kLanes = 16;
  float lane[kLanes];
  std::fill_n(lane, kLanes, kNegativeInfinity);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j)
      lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  }
  for (; i < n; ++i)
    lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  for (size_t j = 1; j < kLanes; ++j)
    lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
  return lane[0];
}

// e^(logit - max), also where both are infinite.
float WeightOf(float logit, float max) {
  return logit == max ? 1.0F : std::exp(logit - max);
}

void SelectAbove(std::span<const float> logits, float floor, std::vector<TokenCandidate>& out) {
  out.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
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

void SelectTop(std::span<const float> logits, size_t k, std::vector<TokenCandidate>& out) {
  if (k > kHeapMax) {
    SelectAbove(logits, kNegativeInfinity, out);
    if (k < out.size()) {
      std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(k), out.end(), Better);
      out.resize(k);
    }
    std::sort(out.begin(), out.end(), Better);
    return;
  }
  // A heap whose front is the worst of the best so far; whole blocks that hold nothing better are
  // passed over.
  out.clear();
  if (k == 0) return;
  float threshold = kNegativeInfinity;
  for (size_t at = 0; at < logits.size(); at += kBlock) {
    const size_t end = std::min(at + kBlock, logits.size());
    if (!(MaxOf(logits.data() + at, end - at) > threshold)) continue;
    for (size_t i = at; i < end; ++i) {
      if (!(logits[i] > threshold)) continue;
      if (out.size() == k) {
        std::pop_heap(out.begin(), out.end(), Better);
        out.pop_back();
      }
      out.push_back({logits[i], static_cast<TokenId>(i)});
      std::push_heap(out.begin(), out.end(), Better);
      if (out.size() == k) threshold = out.front().logit;
    }
  }
  std::sort_heap(out.begin(), out.end(), Better);
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
  const auto floor_below = static_cast<float>(
      params_.min_p > 0 ? std::log(std::min(params_.min_p, 1.0)) : kNegativeInfinity);

  if (!top_k && !top_p) {  // no order needed
    const float max = MaxOf(logits.data(), logits.size());
    SelectAbove(logits, std::isfinite(max) ? max + floor_below : max, candidates);
    return;
  }
  if (top_k) {
    SelectTop(logits, static_cast<size_t>(params_.top_k), candidates);
    if (candidates.empty()) return;
    if (top_p) {
      double total = 0;
      for (const TokenCandidate& c : candidates) {
        total += WeightOf(c.logit, candidates.front().logit);
      }
      candidates.resize(NucleusSize(candidates, total));
    }
  } else {
    const float max = MaxOf(logits.data(), logits.size());
    double total = 0;
    for (const float logit : logits) {
      if (logit > kNegativeInfinity) total += WeightOf(logit, max);
    }
    // The nucleus is mostly small: take ever more of the best until it is inside.
    for (size_t k = 64;; k *= 8) {
      SelectTop(logits, k, candidates);
      if (candidates.empty()) return;
      const size_t size = NucleusSize(candidates, total);
      if (size < candidates.size() || k >= logits.size()) {
        candidates.resize(size);
        break;
      }
    }
  }
  const float floor = candidates.front().logit + floor_below;
  while (candidates.size() > 1 && candidates.back().logit < floor)
    candidates.pop_back();
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
