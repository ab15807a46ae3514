#include "recall/chance.h"

#include <cmath>
#include <numbers>

namespace tenuto {
namespace {

// ln n!, by Stirling's series; std::lgamma has a global.
double LogFactorial(double n) {
  if (n < 2.0) return 0.0;
  return n * std::log(n) - n + 0.5 * std::log(2.0 * std::numbers::pi * n) + 1.0 / (12.0 * n);
}

}  // namespace

double LogChoose(uint32_t m, uint32_t k) {
  if (k > m) return 0.0;
  return LogFactorial(m) - LogFactorial(k) - LogFactorial(m - k);
}

double LogPoissonTail(double mean, uint32_t count) {
  if (mean >= count) return 0.0;
  return count * std::log(mean) - mean - LogFactorial(count);
}

}  // namespace tenuto
