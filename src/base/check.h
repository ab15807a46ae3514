// TENUTO_CHECK: programmer errors abort, in release too. Never for bytes from disk or wire: those
// return kCorrupt.
#pragma once

#include <cstdio>
#include <cstdlib>

#define TENUTO_CHECK(condition)                                                           \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "tenuto: internal error: %s at %s:%d\n", #condition, __FILE__, \
                   __LINE__);                                                             \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

// For inner loops only: off in release builds.
#ifdef NDEBUG
#define TENUTO_DCHECK(condition) \
  do {                           \
  } while (false)
#else
#define TENUTO_DCHECK(condition) TENUTO_CHECK(condition)
#endif
