// How fast turns are admitted while others wait: what a client is told that comes back later. Pure:
// the caller says what time it is (monotonic). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tenuto {

class AdmissionPace {
 public:
  // After each change: whether somebody waits.
  void Waiting(bool anybody, int64_t now_ns);
  void Admitted(int64_t now_ns);
  // In so many turns' time, if it goes on like this; 1 to 600. 1 where nobody waited yet.
  int64_t SecondsFor(size_t turns, int64_t now_ns) const;

 private:
  std::optional<int64_t> since_ns_;  // somebody waits since then, or since the last admission
  std::optional<double> gap_ns_;     // between two admissions, the last ones most
};

}  // namespace tenuto
