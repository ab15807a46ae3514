// Ctrl-C as an event instead of the end of the process: for commands that a person talks to.
// One Interrupts at a time per process; its other methods are for one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "io/fd.h"

namespace tenuto {

class Interrupts {
 public:
  // Takes over SIGINT until the object is destroyed. kConflict: another one lives; kIo.
  static Result<std::unique_ptr<Interrupts>> Open();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int descriptor() const { return read_end_.get(); }  // readable once an interrupt came
  // Forgets what came so far; true if anything did.
  bool Take();

 private:
  Interrupts(Fd read_end, Fd write_end);
  Fd read_end_;
  Fd write_end_;
};

// Calls `action` once, on a thread of its own, if an interrupt comes while the object lives. Null
// interrupts: never.
class OnInterrupt {
 public:
  OnInterrupt(Interrupts* interrupts, std::function<void()> action);
  ~OnInterrupt();  // waits for an action under way
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  Fd wake_;  // eventfd that ends the thread
  std::thread thread_;
};

// Reads lines from a descriptor; not ahead of a line's end on a terminal, which gives whole lines.
class LineReader {
 public:
  enum class Event : uint8_t { kLine, kEnd, kInterrupt };
  static constexpr size_t kLineBytesMax = size_t{1} << 20;  // longer lines are cut into several

  // Null interrupts: kInterrupt never comes.
  LineReader(int descriptor, Interrupts* interrupts)
      : descriptor_(descriptor), interrupts_(interrupts) {}
  // `line` without its end, "\r\n" or "\n". What stands before the end of input without one is a
  // line too.
  Event Read(std::string& line);

 private:
  bool TakeLine(std::string& line);

  int descriptor_;
  Interrupts* interrupts_;
  std::string buffer_;
  size_t scanned_ = 0;  // bytes of buffer_ known to hold no line's end
  bool ended_ = false;
};

}  // namespace tenuto
