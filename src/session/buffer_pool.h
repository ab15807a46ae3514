// Reused buffers for reading pieces: a fresh 2 MiB vector costs a zero fill and 512 page faults, a
// third of the time that reading it takes. Thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace tenuto {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  using Buffer = std::vector<std::byte>;

  explicit BufferPool(size_t kept_max) : kept_max_(kept_max) {}

  // A buffer of at least `bytes`; its content is whatever was there. Comes back when the last owner
  // lets go.
  std::shared_ptr<Buffer> Get(size_t bytes);

 private:
  void Put(std::unique_ptr<Buffer> buffer);

  const size_t kept_max_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> kept_ TENUTO_GUARDED_BY(mutex_);
};

}  // namespace tenuto
