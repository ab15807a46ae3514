// How many prompt tokens a step may take beside decoding runs, so that it stays within its time
// target: learnt from the times of recent steps. A guess that is wrong costs one late step, never a
// wrong token. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/limits.h"
#include "engine/embedded/batcher.h"

namespace tenuto {

class StepPace {
 public:
  explicit StepPace(int64_t target_ns) : target_ns_(static_cast<double>(target_ns)) {}

  int32_t PrefillBeside(int32_t decode_tokens) const {
    if (prefill_token_ns_ <= 0) return kUnmeasuredTokens;
    const double left = target_ns_ - decode_tokens * decode_token_ns_;
    const double fits = left / prefill_token_ns_;
    return static_cast<int32_t>(
        std::clamp(fits, double{kPrefillShareMin}, double{kPrefillChunkTokens}));
  }

  void Record(int64_t step_ns, int32_t decode_tokens, int32_t prefill_tokens) {
    const auto ns = static_cast<double>(step_ns);
    if (prefill_tokens == 0) {
      if (decode_tokens > 0) Learn(decode_token_ns_, ns / decode_tokens);
      return;
    }
    const double even = ns / (decode_tokens + prefill_tokens);  // if all tokens cost the same
    const double rest = (ns - decode_tokens * decode_token_ns_) / prefill_tokens;
    Learn(prefill_token_ns_, std::max(rest, even / 4));
  }

 private:
  static constexpr int32_t kUnmeasuredTokens = 64;
  static constexpr double kWeight = 0.25;  // of the newest step

  static void Learn(double& average, double value) {
    average = average <= 0 ? value : average + kWeight * (value - average);
  }

  double target_ns_;
  double decode_token_ns_ = 0;
  double prefill_token_ns_ = 0;
};

}  // namespace tenuto
