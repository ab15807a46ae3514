#include "session/heap.h"

#include <cstdlib>  // defines __GLIBC__

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tenuto {

void GiveFreedMemoryBack() {
#if defined(__GLIBC__)  // others give it back by themselves, or have no way to ask for it
  (void)malloc_trim(0);
#endif
}

int64_t HeapBytesUsed() {
#if defined(__GLIBC__)
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
#else
  return 0;
#endif
}

void ReturnLargeBlocksAtOnce() {
#if defined(__GLIBC__)
  (void)mallopt(M_MMAP_THRESHOLD, kHeapBlockBytesMax);
#endif
}

}  // namespace tenuto
