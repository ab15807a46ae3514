#include "interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include "io/os_error.h"

namespace tenuto {
namespace {

// A signal handler can reach nothing but a global.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): see above.
std::atomic<int> g_write_end{-1};
struct sigaction g_previous {};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void Handle(int) {
  const int saved = errno;
  const int descriptor = g_write_end.load();
  // A full pipe already says what this byte would.
  if (descriptor >= 0) [[maybe_unused]]
    const ssize_t written = ::write(descriptor, "", 1);
  errno = saved;
}

Error OsFailure(const char* what) {
  return Error(Code::kIo, std::string(what) + ": " + OsErrorText(errno));
}

// Waits until one of them can be read or is closed. False: only an error that goes away.
bool WaitReadable(std::array<pollfd, 2>& entries) {
  return ::poll(entries.data(), entries.size(), -1) > 0;
}

pollfd Readable(int descriptor) {
  return pollfd{descriptor, POLLIN, 0};  // a negative descriptor is skipped by poll
}

}  // namespace

Interrupts::Interrupts(Fd read_end, Fd write_end)
    : read_end_(std::move(read_end)), write_end_(std::move(write_end)) {}

Result<std::unique_ptr<Interrupts>> Interrupts::Open() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) return OsFailure("make a pipe");
  Fd read_end(ends[0]), write_end(ends[1]);
  int none = -1;
  if (!g_write_end.compare_exchange_strong(none, write_end.get()))
    return Error(Code::kConflict, "interrupts are taken over already");
  auto interrupts =
      std::unique_ptr<Interrupts>(new Interrupts(std::move(read_end), std::move(write_end)));
  struct sigaction action {};
  action.sa_handler = Handle;
  if (::sigaction(SIGINT, &action, &g_previous) != 0) return OsFailure("take over SIGINT");
  return interrupts;
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &g_previous, nullptr);
  g_write_end.store(-1);
}

bool Interrupts::Take() {
  std::array<char, 64> bytes{};
  bool any = false;
  while (::read(read_end_.get(), bytes.data(), bytes.size()) > 0)
    any = true;
  return any;
}

OnInterrupt::OnInterrupt(Interrupts* interrupts, std::function<void()> action) {
  if (interrupts == nullptr) return;
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (wake_.get() < 0) return;  // Ctrl-C then takes effect after the answer
  thread_ = std::thread([interrupts, wake = wake_.get(), action = std::move(action)] {
    std::array<pollfd, 2> entries = {Readable(interrupts->descriptor()), Readable(wake)};
    while (!WaitReadable(entries)) {
    }
    if (entries[0].revents != 0) action();
  });
}

OnInterrupt::~OnInterrupt() {
  if (wake_.get() < 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
}

bool LineReader::TakeLine(std::string& line) {
  size_t end = buffer_.find('\n', scanned_);
  size_t next = end + 1;
  if (end == std::string::npos) {
    scanned_ = buffer_.size();
    if (buffer_.size() < kLineBytesMax && !(ended_ && !buffer_.empty())) return false;
    end = next = buffer_.size();
  }
  line = buffer_.substr(0, end);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  buffer_.erase(0, next);
  scanned_ = 0;
  return true;
}

LineReader::Event LineReader::Read(std::string& line) {
  for (;;) {
    if (TakeLine(line)) return Event::kLine;
    if (ended_) return Event::kEnd;
    std::array<pollfd, 2> entries = {
        Readable(descriptor_), Readable(interrupts_ == nullptr ? -1 : interrupts_->descriptor())};
    if (!WaitReadable(entries)) continue;
    if (interrupts_ != nullptr && entries[1].revents != 0) {
      interrupts_->Take();
      buffer_.clear();
      scanned_ = 0;
      return Event::kInterrupt;
    }
    std::array<char, 65536> bytes{};
    const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
    if (count > 0) {
      buffer_.append(bytes.data(), static_cast<size_t>(count));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      ended_ = true;
    }
  }
}

}  // namespace tenuto
