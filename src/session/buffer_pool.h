// Reused, aligned buffers for reading pieces: a fresh one costs page faults, a third of the time
// that reading into it takes (payload/read_buffer.h has what alignment is worth). Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "payload/read_buffer.h"

namespace tenuto {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(size_t kept_max) : kept_max_(kept_max) {}

  // A buffer of at least `bytes`, checked by the caller; its content is whatever was there. Comes
  // back when the last owner lets go.
  std::shared_ptr<ReadBuffer> Get(size_t bytes);

 private:
  void Put(std::unique_ptr<ReadBuffer> buffer);

  const size_t kept_max_;
  Mutex mutex_;
  std::vector<std::unique_ptr<ReadBuffer>> kept_ TENUTO_GUARDED_BY(mutex_);
};

}  // namespace tenuto
