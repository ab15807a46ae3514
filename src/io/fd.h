// A file descriptor that is closed when its owner goes. Thread-compatible.
#pragma once

#include <unistd.h>

#include <utility>

namespace tenuto {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}  // negative: none
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }  // the caller's from now on

 private:
  int fd_ = -1;
};

}  // namespace tenuto
