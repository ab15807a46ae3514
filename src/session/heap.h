// What the C library keeps of memory that was freed.
#pragma once

#include <cstdint>

#include "base/limits.h"

namespace tenuto {

inline constexpr int kHeapBlockBytesMax = 1 * kMiB;

// Gives it back to the system, where the C library can. Takes milliseconds, during which other
// threads may wait for memory: not for the way of an answer.
void GiveFreedMemoryBack();

// Bytes that are allocated and not freed, what the C library keeps for later not among them. 0: it
// does not say.
int64_t HeapBytesUsed();

// Makes blocks of kHeapBlockBytesMax and more go back to the system as soon as they are freed. By
// itself glibc keeps blocks of a size once one of that size was freed: after a few exports of KV
// the process held 40 MiB of free memory. For a process that serves; before other threads begin.
void ReturnLargeBlocksAtOnce();

}  // namespace tenuto
