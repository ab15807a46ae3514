#include "session/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace tenuto {

BufferPool::BufferPool(size_t kept_max, size_t buffer_bytes)
    : kept_max_(kept_max), buffer_bytes_(buffer_bytes) {
  if (buffer_bytes_ == 0) return;
  for (size_t i = 0; i < kept_max_; ++i) {
    auto buffer = std::make_unique<ReadBuffer>(buffer_bytes_);
    std::ranges::fill(buffer->First(buffer_bytes_), std::byte{0});
    Put(std::move(buffer));
  }
}

std::shared_ptr<ReadBuffer> BufferPool::Get(size_t bytes) {
  std::unique_ptr<ReadBuffer> buffer;
  {
    const MutexLock lock(mutex_);
    if (!kept_.empty()) {
      buffer = std::move(kept_.back());
      kept_.pop_back();
    }
  }
  if (!buffer || buffer->size() < bytes)
    buffer = std::make_unique<ReadBuffer>(std::max(bytes, buffer_bytes_));
  // The pool may be gone before the engine lets go of a buffer.
  return {buffer.release(), [weak = weak_from_this()](ReadBuffer* raw) {
            std::unique_ptr<ReadBuffer> owned(raw);
            if (const auto pool = weak.lock()) pool->Put(std::move(owned));
          }};
}

void BufferPool::Put(std::unique_ptr<ReadBuffer> buffer) {
  const MutexLock lock(mutex_);
  if (kept_.size() < kept_max_) kept_.push_back(std::move(buffer));
}

}  // namespace tenuto
