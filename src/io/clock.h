// Time and randomness as seams, so that one seed can drive a whole run. The real ones are
// thread-safe; the fakes (fake.h) belong to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenuto {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t UnixMs() = 0;       // wall clock, may jump
  virtual int64_t MonotonicNs() = 0;  // never goes back
};

class Random {
 public:
  virtual ~Random() = default;
  virtual void Fill(std::span<std::byte> out) = 0;  // cryptographic in production
};

Clock& SystemClock();
Random& SystemRandom();  // getrandom(2)

}  // namespace tenuto
