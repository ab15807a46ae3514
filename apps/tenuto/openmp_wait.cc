#include "openmp_wait.h"

#include <unistd.h>

#include <cstdlib>

namespace tenuto {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";
// On a machine of its own as quick as libgomp's 300,000; fewer cost time there, more cost time as
// soon as another process wants a core.
constexpr const char* kSpins = "1000";

}  // namespace

void SpinBriefly(char** argv) {
  // NOLINTBEGIN(concurrency-mt-unsafe): the first thing that main() does.
  if (std::getenv(kSpinCount) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv(kSpinCount, kSpins, 1) != 0) return;
  // NOLINTEND(concurrency-mt-unsafe)
  execv("/proc/self/exe", argv);
}

}  // namespace tenuto
