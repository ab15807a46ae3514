#include "io/runner.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace tenuto {
namespace {

int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

// The queue and the timers behind both runners. Each thread holds a share, so that an owner may
// vanish on one of them.
//
// 1. No lock is held while a task runs or is destroyed: both may call back in.
//
// 2. A timer's task stays in timers_ until the moment it runs; the queue holds its id alone. So a
//    Cancel that comes after the timer was due, but before its turn, still stops it.
//
// 3. A thread that waits knows the earliest timer: whoever makes an earlier one wakes all.
class RunnerCore {
 public:
  static std::shared_ptr<RunnerCore> Start(std::string name, int threads) {
    TENUTO_CHECK(threads > 0);
    name.resize(std::min<size_t>(name.size(), 15));  // the kernel takes no more
    auto core = std::make_shared<RunnerCore>();
    MutexLock lock(core->mutex_);
    for (int i = 0; i < threads; ++i)
      core->threads_.emplace_back([core, name] {
        pthread_setname_np(pthread_self(), name.c_str());
        core->Loop();
      });
    return core;
  }

  void Post(Runner::Task task) {
    bool wake = false;
    {
      MutexLock lock(mutex_);
      if (state_ != State::kRunning) return;
      queue_.push_back({0, std::move(task)});
      wake = waiting_ > 0;
    }
    if (wake) wake_.NotifyOne();
  }

  Runner::TimerId After(int64_t delay_ns, Runner::Task task) {
    const int64_t now = NowNs();
    const int64_t delay = std::max<int64_t>(delay_ns, 0);
    const int64_t due = now > std::numeric_limits<int64_t>::max() - delay
                            ? std::numeric_limits<int64_t>::max()
                            : now + delay;
    bool wake = false;
    Runner::TimerId id = 0;
    {
      MutexLock lock(mutex_);
      id = ++last_timer_;
      if (state_ != State::kRunning) return id;
      timers_.emplace(id, Timer{due, std::move(task)});
      const auto at = due_.emplace(due, id).first;
      wake = waiting_ > 0 && at == due_.begin();
    }
    if (wake) wake_.NotifyAll();
    return id;
  }

  void Cancel(Runner::TimerId id) {
    Runner::Task dropped;
    MutexLock lock(mutex_);
    const auto found = timers_.find(id);
    if (found == timers_.end()) return;
    due_.erase({found->second.due_ns, id});
    dropped = std::move(found->second.task);
    timers_.erase(found);
  }

  // Ends the threads: after the queue is run when `drain`, else after the tasks at hand.
  void Stop(bool drain) {
    std::vector<std::thread> threads;
    {
      Leftovers dropped;  // destroyed before the join: the task at hand may wait for what a dropped
                          // task holds
      MutexLock lock(mutex_);
      if (state_ != State::kDropping) state_ = drain ? State::kDraining : State::kDropping;
      TakeLeftovers(dropped, drain);
      threads.swap(threads_);
    }
    wake_.NotifyAll();
    for (std::thread& thread : threads) {
      if (thread.get_id() == std::this_thread::get_id()) {
        // Only the destructor may come here: nobody waits for this thread any more.
        TENUTO_CHECK(!drain);
        thread.detach();
      } else {
        thread.join();
      }
    }
  }

 private:
  enum class State { kRunning, kDraining, kDropping };
  struct Entry {
    Runner::TimerId timer;  // 0: the task is here
    Runner::Task task;
  };
  struct Timer {
    int64_t due_ns;
    Runner::Task task;
  };
  // What Stop drops, so that it is destroyed without the lock.
  struct Leftovers {
    std::deque<Entry> queue;
    std::unordered_map<Runner::TimerId, Timer> timers;
  };

  void TakeLeftovers(Leftovers& out, bool drain) TENUTO_REQUIRES(mutex_) {
    if (!drain) {
      out.queue.swap(queue_);
      out.timers.swap(timers_);
    } else {
      // A timer that is in the queue was due and is drained like a task; the others are dropped.
      for (const auto& [due_ns, id] : due_) {
        const auto found = timers_.find(id);
        out.timers.emplace(id, std::move(found->second));
        timers_.erase(found);
      }
    }
    due_.clear();
  }

  void Loop() {
    while (std::optional<Runner::Task> task = Next())
      (*task)();
  }

  // Waits for the next task; nullopt: stop.
  std::optional<Runner::Task> Next() {
    MutexLock lock(mutex_);
    while (true) {
      MoveDueTimers();
      while (!queue_.empty()) {
        Entry entry = std::move(queue_.front());
        queue_.pop_front();
        if (entry.timer == 0) return std::move(entry.task);
        const auto found = timers_.find(entry.timer);
        if (found == timers_.end()) continue;  // cancelled
        Runner::Task task = std::move(found->second.task);
        timers_.erase(found);
        return task;
      }
      if (state_ != State::kRunning) return std::nullopt;
      ++waiting_;
      if (due_.empty())
        wake_.Wait(mutex_);
      else
        wake_.WaitUntil(mutex_, Deadline(due_.begin()->first));
      --waiting_;
    }
  }

  void MoveDueTimers() TENUTO_REQUIRES(mutex_) {
    if (due_.empty()) return;
    const int64_t now = NowNs();
    size_t moved = 0;
    while (!due_.empty() && due_.begin()->first <= now) {
      queue_.push_back({due_.begin()->second, nullptr});
      due_.erase(due_.begin());
      ++moved;
    }
    if (moved > 1 && waiting_ > 0) wake_.NotifyAll();
  }

  static std::chrono::steady_clock::time_point Deadline(int64_t due_ns) {
    // The wait adds to its own clock: far beyond any uptime is as good as for ever, and does not
    // overflow.
    constexpr int64_t kFarNs = std::numeric_limits<int64_t>::max() / 2;
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(std::min(due_ns, kFarNs)));
  }

  Mutex mutex_;
  CondVar wake_;
  State state_ TENUTO_GUARDED_BY(mutex_) = State::kRunning;
  std::deque<Entry> queue_ TENUTO_GUARDED_BY(mutex_);
  std::unordered_map<Runner::TimerId, Timer> timers_ TENUTO_GUARDED_BY(mutex_);
  std::set<std::pair<int64_t, Runner::TimerId>> due_
      TENUTO_GUARDED_BY(mutex_);  // not yet in queue_
  Runner::TimerId last_timer_ TENUTO_GUARDED_BY(mutex_) = 0;
  int waiting_ TENUTO_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ TENUTO_GUARDED_BY(mutex_);
};

ThreadRunner::ThreadRunner(std::string name) : core_(RunnerCore::Start(std::move(name), 1)) {}
ThreadRunner::~ThreadRunner() {
  core_->Stop(false);
}
void ThreadRunner::Post(Task task) {
  core_->Post(std::move(task));
}
Runner::TimerId ThreadRunner::After(int64_t delay_ns, Task task) {
  return core_->After(delay_ns, std::move(task));
}
void ThreadRunner::Cancel(TimerId id) {
  core_->Cancel(id);
}
void ThreadRunner::DrainAndStop() {
  core_->Stop(true);
}

PoolRunner::PoolRunner(std::string name, int threads)
    : core_(RunnerCore::Start(std::move(name), threads)) {}
PoolRunner::~PoolRunner() {
  core_->Stop(false);
}
void PoolRunner::Post(Task task) {
  core_->Post(std::move(task));
}
Runner::TimerId PoolRunner::After(int64_t delay_ns, Task task) {
  return core_->After(delay_ns, std::move(task));
}
void PoolRunner::Cancel(TimerId id) {
  core_->Cancel(id);
}
void PoolRunner::DrainAndStop() {
  core_->Stop(true);
}

}  // namespace tenuto
