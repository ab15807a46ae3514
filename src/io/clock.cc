#include "io/clock.h"

#include <chrono>

namespace tenuto {
namespace {

class RealClock final : public Clock {
 public:
  int64_t UnixMs() override {
    return Since<std::chrono::system_clock, std::chrono::milliseconds>();
  }
  int64_t MonotonicNs() override {
    return Since<std::chrono::steady_clock, std::chrono::nanoseconds>();
  }

 private:
  template <typename Source, typename Unit>
  static int64_t Since() {
    return std::chrono::duration_cast<Unit>(Source::now().time_since_epoch()).count();
  }
};

}  // namespace

Clock& SystemClock() {
  static RealClock clock;
  return clock;
}

}  // namespace tenuto
