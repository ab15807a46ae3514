#include <sys/random.h>

#include <cerrno>

#include "base/check.h"
#include "io/clock.h"

namespace tenuto {
namespace {

class RealRandom final : public Random {
 public:
  void Fill(std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t got = getrandom(out.data(), out.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      // Without the kernel's randomness ids could repeat and keys be guessed: there is no way on.
      TENUTO_CHECK(got > 0);
      out = out.subspan(static_cast<size_t>(got));
    }
  }
};

}  // namespace

Random& SystemRandom() {
  static RealRandom random;
  return random;
}

}  // namespace tenuto
