#include "interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>

namespace tenuto {
namespace {

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    CloseWriter();
  }
  int reader() const { return ends_[0]; }
  void Write(const std::string& text) {
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseWriter() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  std::array<int, 2> ends_{};
};

using Event = LineReader::Event;

TEST(LineReaderTest, SplitsLinesHoweverTheyCome) {
  Pipe pipe;
  LineReader reader(pipe.reader(), nullptr);
  std::string line;
  pipe.Write("one\ntw");
  EXPECT_EQ(reader.Read(line), Event::kLine);
  EXPECT_EQ(line, "one");
  pipe.Write("o\r\n\nlast");
  EXPECT_EQ(reader.Read(line), Event::kLine);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(reader.Read(line), Event::kLine);
  EXPECT_EQ(line, "");
  pipe.CloseWriter();
  EXPECT_EQ(reader.Read(line), Event::kLine);
  EXPECT_EQ(line, "last");
  EXPECT_EQ(reader.Read(line), Event::kEnd);
  EXPECT_EQ(reader.Read(line), Event::kEnd);
}

TEST(LineReaderTest, EmptyInputHasNoLine) {
  Pipe pipe;
  pipe.CloseWriter();
  LineReader reader(pipe.reader(), nullptr);
  std::string line;
  EXPECT_EQ(reader.Read(line), Event::kEnd);
}

TEST(LineReaderTest, AnEndlessLineIsCut) {
  Pipe pipe;
  std::thread writer([&] {
    const std::string block(65536, 'x');
    for (size_t sent = 0; sent < 2 * LineReader::kLineBytesMax; sent += block.size())
      pipe.Write(block);
    pipe.CloseWriter();
  });
  LineReader reader(pipe.reader(), nullptr);
  std::string line;
  size_t total = 0;
  while (reader.Read(line) == Event::kLine) {
    EXPECT_LT(line.size(), LineReader::kLineBytesMax + 65536);
    total += line.size();
  }
  writer.join();
  EXPECT_EQ(total, 2 * LineReader::kLineBytesMax);
}

TEST(LineReaderTest, AClosedDescriptorEnds) {
  std::string line;
  Pipe pipe;
  const int closed = ::dup(pipe.reader());
  ::close(closed);
  LineReader other(closed, nullptr);
  EXPECT_EQ(other.Read(line), Event::kEnd);
}

TEST(InterruptsTest, ASignalIsAnEventAndDropsTheLineAtHand) {
  auto interrupts = Interrupts::Open();
  ASSERT_TRUE(interrupts.ok());
  EXPECT_FALSE((*interrupts)->Take());
  Pipe pipe;
  LineReader reader(pipe.reader(), interrupts->get());
  ::raise(SIGINT);
  std::string line;
  EXPECT_EQ(reader.Read(line), Event::kInterrupt);
  pipe.Write("next\n");
  EXPECT_EQ(reader.Read(line), Event::kLine);
  EXPECT_EQ(line, "next");
  ::raise(SIGINT);
  ::raise(SIGINT);
  EXPECT_TRUE((*interrupts)->Take());
  EXPECT_FALSE((*interrupts)->Take());
}

TEST(InterruptsTest, OnlyOneAtATime) {
  auto first = Interrupts::Open();
  ASSERT_TRUE(first.ok());
  const auto second = Interrupts::Open();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kConflict);
  first.value().reset();
  EXPECT_TRUE(Interrupts::Open().ok());
}

TEST(OnInterruptTest, RunsItsActionOnceOrNever) {
  auto interrupts = Interrupts::Open();
  ASSERT_TRUE(interrupts.ok());
  std::atomic<int> calls{0};
  {
    std::promise<void> called;
    const OnInterrupt watch(interrupts->get(), [&] {
      ++calls;
      called.set_value();
    });
    ::raise(SIGINT);
    called.get_future().wait();
  }
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE((*interrupts)->Take());
  {
    const OnInterrupt watch(interrupts->get(), [&] { ++calls; });
  }
  {
    const OnInterrupt watch(nullptr, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tenuto
