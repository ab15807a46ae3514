// Memory to read pieces into, aligned and to be used again and again. Owned by one reader;
// thread-compatible. Why: copying out of the page cache runs at full speed only into 32-byte
// aligned memory. Into what std::vector gets from malloc for large sizes (16 past a page) it
// measured half of that, into odd addresses a fifth; and a buffer that is not reused pays for page
// faults on top.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/check.h"

namespace tenuto {

class ReadBuffer {
 public:
  static constexpr size_t kAlignBytes = 4096;

  // Room for `bytes` > 0, which no input may choose unchecked. Aborts when there is no memory.
  explicit ReadBuffer(size_t bytes) : bytes_(bytes) {
    TENUTO_CHECK(bytes > 0);
    const size_t rounded = (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignBytes, rounded)));
    TENUTO_CHECK(memory_ != nullptr);
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
