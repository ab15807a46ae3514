// How surprising a match is: the few formulas that the gate's measure is made of, as natural
// logarithms. Pure functions.
#pragma once

#include <cstdint>

namespace tenuto {

// ln of the number of ways to choose k of m; 0 where k > m.
double LogChoose(uint32_t m, uint32_t k);

// ln P(X >= count) of a Poisson variable with this mean > 0, by its first term: an order of
// magnitude. 0 (no surprise) where the mean is as large.
double LogPoissonTail(double mean, uint32_t count);

}  // namespace tenuto
