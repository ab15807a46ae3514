#include "session/context.h"

#include <algorithm>

#include "recall/zone.h"

namespace tenuto {

WindowLimits SessionSettings::Limits(std::optional<int32_t> max_tokens) const {
  constexpr int32_t kAnswerShareMax = 4;  // a longer answer takes what room there is
  constexpr int32_t kAnswerShare = 8;
  constexpr int32_t kGridShare = 16;
  WindowLimits limits;
  limits.tokens = window_tokens;
  limits.high = window_high;
  limits.low = window_low;
  const int32_t usual =
      window_answer_tokens > 0 ? window_answer_tokens : window_tokens / kAnswerShare;
  limits.answer_tokens = std::min(max_tokens.value_or(usual), window_tokens / kAnswerShareMax);
  limits.grid_tokens =
      window_grid_tokens > 0 ? window_grid_tokens : std::max(1, window_tokens / kGridShare);
  return limits;
}

int32_t SessionSettings::ZoneAt(const std::string& zone, int64_t unix_ms) const {
  // A zone that this ICU does not know, as a newer one did when it was set, is UTC.
  return ZoneOffset(zone.empty() ? timezone : zone, unix_ms / 1000).value_or(0);
}

}  // namespace tenuto
