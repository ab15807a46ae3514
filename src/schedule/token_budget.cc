#include "schedule/token_budget.h"

#include <algorithm>

namespace tenuto {
namespace {

constexpr int64_t kMinuteNs = 60'000'000'000;
// More than any turn has; so the product below fits.
constexpr int64_t kTokensMax = int64_t{1} << 26;

}  // namespace

int64_t TokenBudget::WaitNs(const std::string& tenant, int64_t now_ns) const {
  const auto full = full_ns_.find(tenant);
  if (full == full_ns_.end()) return 0;
  const int64_t until_full_ns = full->second - now_ns;
  return until_full_ns < kMinuteNs ? 0 : until_full_ns - kMinuteNs + 1;
}

void TokenBudget::Charge(const std::string& tenant, int64_t tokens, int64_t now_ns) {
  if (tokens_per_minute_ == 0 || tokens == 0) return;
  const int64_t taken_ns =
      std::clamp(tokens, -kTokensMax, kTokensMax) * kMinuteNs / tokens_per_minute_;
  const auto full = full_ns_.try_emplace(tenant, now_ns).first;
  full->second = std::max(full->second, now_ns) + taken_ns;
  if (full->second <= now_ns) full_ns_.erase(full);
  if (full_ns_.size() < sweep_at_) return;
  std::erase_if(full_ns_, [now_ns](const auto& entry) { return entry.second <= now_ns; });
  sweep_at_ = std::max<size_t>(64, 2 * full_ns_.size());
}

}  // namespace tenuto
