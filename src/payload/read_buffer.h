// Memory to read pieces into, aligned and to be used again and again. Owned by one reader;
// thread-compatible. Why: copying out of the page cache runs at full speed only into 32-byte
// aligned memory. Into what std::vector gets from malloc for large sizes (16 past a page) it
// measured half of that, into odd addresses a fifth; and a buffer that is not reused pays for page
// faults on top.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/check.h"

namespace tenuto {

class ReadBuffer {
 public:
  static constexpr size_t kAlignBytes = 4096;
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  // Room for `bytes` > 0, which no input may choose unchecked. Aborts when there is no memory.
  explicit ReadBuffer(size_t bytes) : bytes_(bytes) {
    TENUTO_CHECK(bytes > 0);
    // Large ones on huge pages, where the system has them: a fresh buffer is touched for the first
    // time in the middle of a restore, and a page fault for each 4 KiB is a third of its time.
    const size_t align = bytes >= kHugePageBytes / 2 ? kHugePageBytes : kAlignBytes;
    const size_t rounded = (bytes + align - 1) / align * align;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(align, rounded)));
    TENUTO_CHECK(memory_ != nullptr);
    if (align == kHugePageBytes) madvise(memory_.get(), rounded, MADV_HUGEPAGE);
  }

  size_t size() const { return bytes_; }
  // Valid until the buffer dies. REQUIRES: bytes <= size().
  std::span<std::byte> First(size_t bytes) {
    TENUTO_CHECK(bytes <= bytes_);
    return {memory_.get(), bytes};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace tenuto
