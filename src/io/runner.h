// A Runner runs tasks one after the other, in the order posted: a thread in production, an event
// queue with virtual time in the simulator. All session and schedule state belongs to one Runner
// and needs no lock. Thread-safe: Post, After and Cancel may be called from anywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tenuto {

class Runner {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;  // 0 is never one

  virtual ~Runner() = default;
  // Runs `task` after all posted before it. After Stop() tasks are dropped unrun.
  virtual void Post(Task task) = 0;
  // Runs `task` once, not before `delay_ns` from now.
  virtual TimerId After(int64_t delay_ns, Task task) = 0;
  // No effect when it ran already. When called on the runner itself, the task will not run after
  // this returns.
  virtual void Cancel(TimerId id) = 0;
};

class RunnerCore;

// One thread with a queue and timers. The destructor stops: it finishes the task at hand, drops the
// rest, joins. Run on its own thread (the last owner was a task) it can't join: the thread then
// ends by itself after that task.
class ThreadRunner : public Runner {
 public:
  explicit ThreadRunner(std::string name);  // the thread's name, at most 15 bytes
  ~ThreadRunner() override;
  void Post(Task task) override;
  TimerId After(int64_t delay_ns, Task task) override;
  void Cancel(TimerId id) override;
  // Runs what was posted so far, then stops and joins; what those tasks post, and timers not yet
  // due, are dropped. Idempotent; not from its own thread.
  void DrainAndStop();

 private:
  std::shared_ptr<RunnerCore> core_;  // shared with the thread
};

// N threads behind one queue, for blocking work that needs no order (file reads, tokenizing). Tasks
// start in the order posted and run side by side, so Cancel on one of the threads does not stop a
// task that another has begun.
class PoolRunner : public Runner {
 public:
  PoolRunner(std::string name, int threads);
  ~PoolRunner() override;
  void Post(Task task) override;
  TimerId After(int64_t delay_ns, Task task) override;
  void Cancel(TimerId id) override;
  void DrainAndStop();

 private:
  std::shared_ptr<RunnerCore> core_;  // shared with the threads
};

}  // namespace tenuto
