// Reused, aligned buffers for reading pieces: the page faults of a fresh one cost a third of the
// time that reading into it takes, and in a virtual machine whose host has to find the memory ten
// times that (payload/read_buffer.h has what alignment is worth). Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "payload/read_buffer.h"

namespace tenuto {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  // Keeps up to `kept_max` buffers of at least `buffer_bytes`. If that is not 0 they are made and
  // touched now.
  BufferPool(size_t kept_max, size_t buffer_bytes);

  // A buffer of at least `bytes`, checked by the caller; its content is whatever was there. Comes
  // back when the last owner lets go.
  std::shared_ptr<ReadBuffer> Get(size_t bytes);

 private:
  void Put(std::unique_ptr<ReadBuffer> buffer);

  const size_t kept_max_;
  const size_t buffer_bytes_;
  Mutex mutex_;
  std::vector<std::unique_ptr<ReadBuffer>> kept_ TENUTO_GUARDED_BY(mutex_);
};

}  // namespace tenuto
