// std::mutex with clang's thread-safety annotations, which g++ ignores. Use for the few places
// where two threads meet; state that one Runner owns needs none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TENUTO_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TENUTO_THREAD_ANNOTATION(x)
#endif
#define TENUTO_GUARDED_BY(mutex) TENUTO_THREAD_ANNOTATION(guarded_by(mutex))
#define TENUTO_REQUIRES(mutex) TENUTO_THREAD_ANNOTATION(requires_capability(mutex))
#define TENUTO_NO_THREAD_ANALYSIS TENUTO_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace tenuto {

class TENUTO_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void Lock() TENUTO_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void Unlock() TENUTO_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  // BasicLockable, so that std::condition_variable_any can wait on it.
  void lock() TENUTO_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() TENUTO_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class TENUTO_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TENUTO_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() TENUTO_THREAD_ANNOTATION(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for Mutex, at the price of std::condition_variable. Wake-ups may be
// spurious: wait in a loop.
class CondVar {
 public:
  void Wait(Mutex& mutex) TENUTO_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      TENUTO_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_until(lock, deadline);
    lock.release();
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tenuto
