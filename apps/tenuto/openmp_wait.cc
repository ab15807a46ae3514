#include "openmp_wait.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

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
  // By its path, so that tools like ps name the process after its file.
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) execv(self.c_str(), argv);
  execv("/proc/self/exe", argv);  // the file was replaced or removed since
}

}  // namespace tenuto
