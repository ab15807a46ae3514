// SIGTERM, SIGINT and SIGHUP as an event instead of the end of the process. One per process, made
// before any other thread is. Blocks all three in the thread that makes it and those that are
// started later; what is ignored from outside (nohup) stays ignored.
#pragma once

#include <csignal>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "io/fd.h"

namespace tenuto {

class StopSignals {
 public:
  // Waits on a thread of its own. Until Serve, one of them ends the process at once, as it would
  // without this: loading a model takes minutes, and nobody is served yet. kIo.
  static Result<std::unique_ptr<StopSignals>> Open();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From here on a signal is what Wait returns.
  void Serve();
  int Wait();

 private:
  StopSignals() = default;
  void Run();
  void Take(int signal);

  sigset_t before_{};  // the mask to go back to
  Fd signals_;
  Fd end_;  // eventfd that ends the thread
  Mutex mutex_;
  CondVar changed_;
  bool serving_ TENUTO_GUARDED_BY(mutex_) = false;
  int received_ TENUTO_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace tenuto
