#include "session/buffer_pool.h"

#include <utility>

namespace tenuto {

std::shared_ptr<ReadBuffer> BufferPool::Get(size_t bytes) {
  std::unique_ptr<ReadBuffer> buffer;
  {
    const MutexLock lock(mutex_);
    if (!kept_.empty()) {
      buffer = std::move(kept_.back());
      kept_.pop_back();
    }
  }
  if (!buffer || buffer->size() < bytes) buffer = std::make_unique<ReadBuffer>(bytes);
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
