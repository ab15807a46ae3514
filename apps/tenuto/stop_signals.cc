#include "stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "io/os_error.h"

namespace tenuto {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (!IsIgnored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

// Ends the process as if the signal had never been blocked.
void DieOf(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
}

}  // namespace

Result<std::unique_ptr<StopSignals>> StopSignals::Open() {
  auto stop = std::unique_ptr<StopSignals>(new StopSignals());
  const sigset_t set = StopSet();
  ::pthread_sigmask(SIG_BLOCK, &set, &stop->before_);
  stop->signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
  stop->end_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (stop->signals_.get() < 0 || stop->end_.get() < 0)
    return Error(Code::kIo, "can't wait for signals: " + OsErrorText(errno));
  stop->thread_ = std::thread([raw = stop.get()] { raw->Run(); });
  return stop;
}

StopSignals::~StopSignals() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(end_.get(), &one, sizeof one);
    thread_.join();
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::Run() {
  std::array<pollfd, 2> entries = {pollfd{signals_.get(), POLLIN, 0},
                                   pollfd{end_.get(), POLLIN, 0}};
  for (;;) {
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;  // interrupted
    if (entries[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) == sizeof info)
      Take(static_cast<int>(info.ssi_signo));
  }
}

void StopSignals::Take(int signal) {
  MutexLock lock(mutex_);
  if (!serving_) DieOf(signal);
  if (received_ == 0) received_ = signal;
  changed_.NotifyAll();
}

void StopSignals::Serve() {
  MutexLock lock(mutex_);
  serving_ = true;
}

int StopSignals::Wait() {
  MutexLock lock(mutex_);
  while (received_ == 0)
    changed_.Wait(mutex_);
  return received_;
}

}  // namespace tenuto
