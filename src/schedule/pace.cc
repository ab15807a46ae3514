#include "schedule/pace.h"

#include <algorithm>
#include <cmath>

namespace tenuto {
namespace {

constexpr double kNewest = 0.125;  // the share of the newest gap
constexpr double kSecondsMax = 600;

}  // namespace

void AdmissionPace::Waiting(bool anybody, int64_t now_ns) {
  if (!anybody) {
    since_ns_.reset();
  } else if (!since_ns_) {
    since_ns_ = now_ns;
  }
}

void AdmissionPace::Admitted(int64_t now_ns) {
  if (!since_ns_) return;  // it did not wait: that says nothing of how long waiting takes
  const auto gap = static_cast<double>(now_ns - *since_ns_);
  gap_ns_ = gap_ns_ ? *gap_ns_ + kNewest * (gap - *gap_ns_) : gap;
  since_ns_ = now_ns;
}

int64_t AdmissionPace::SecondsFor(size_t turns, int64_t now_ns) const {
  double gap = gap_ns_.value_or(0);
  // Where nothing moves any more, the past is too hopeful.
  if (since_ns_) gap = std::max(gap, static_cast<double>(now_ns - *since_ns_));
  const double seconds = std::ceil(gap * 1e-9 * static_cast<double>(turns));
  return static_cast<int64_t>(std::clamp(seconds, 1.0, kSecondsMax));
}

}  // namespace tenuto
