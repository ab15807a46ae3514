// What only the real disk can show: links, rights, processes, what the system says no to. A disk
// that is really full or read-only needs a mount, so it is an end-to-end test; here the code and
// words of each errno are.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "io/clock.h"
#include "io/file.h"
#include "io/os_error.h"
#include "io/temp_dir.h"
#include "io/test_bytes.h"

namespace tenuto {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

bool Mentions(const Error& error, const std::string& part) {
  return error.message().find(part) != std::string::npos;
}

std::string Describe(const Error& error) {
  return std::string(CodeName(error.code())) + ": " + error.message();
}

// Runs `body` in a child process and returns its exit status.
template <typename Body>
int ExitOfChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(OpenDir, MakesParentsForTheOwnerAlone) {
  const TempDir temp;
  const mode_t old_mask = umask(0);
  EXPECT_TRUE(OpenDir(temp.path() + "//a/b/c/").ok());
  umask(old_mask);
  EXPECT_EQ(ModeOf(temp.path() + "/a"), 0700u);
  EXPECT_EQ(ModeOf(temp.path() + "/a/b/c"), 0700u);
  EXPECT_TRUE(OpenDir(temp.path() + "/a/b/c").ok());
}

TEST(OpenDir, FilesAndFoldersInsideAreForTheOwnerAlone) {
  const TempDir temp;
  auto dir = std::move(OpenDir(temp.path())).value();
  const mode_t old_mask = umask(0);
  EXPECT_TRUE(dir->Create("f").ok());
  EXPECT_TRUE(dir->Sub("s").ok());
  EXPECT_TRUE(dir->Lock("l").ok());
  umask(old_mask);
  EXPECT_EQ(ModeOf(temp.path() + "/f"), 0600u);
  EXPECT_EQ(ModeOf(temp.path() + "/s"), 0700u);
  EXPECT_EQ(ModeOf(temp.path() + "/l"), 0600u);
}

TEST(OpenDir, WhatCannotBeAFolderIsSaid) {
  const TempDir temp;
  EXPECT_EQ(OpenDir("").error().code(), Code::kInvalid);
  EXPECT_EQ(OpenDir(std::string("/tmp\0x", 6)).error().code(), Code::kInvalid);
  auto dir = std::move(OpenDir(temp.path())).value();
  ASSERT_TRUE(dir->Create("file").ok());
  const auto in_file = OpenDir(temp.path() + "/file");
  ASSERT_FALSE(in_file.ok());
  EXPECT_TRUE(Mentions(in_file.error(), temp.path() + "/file")) << Describe(in_file.error());
  EXPECT_FALSE(OpenDir(temp.path() + "/file/below").ok());
  EXPECT_EQ(OpenDir("/proc/tenuto/none").error().code(), Code::kNotFound);
}

TEST(OpenDir, AFolderWithoutRightsIsDenied) {
  const TempDir temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 0500), 0);
  // Rights mean nothing to root: be nobody for the question.
  const int exit_status = ExitOfChild([&] {
    if (geteuid() == 0 && (chown(temp.path().c_str(), 65534, 65534) != 0 || seteuid(65534) != 0))
      return 10;
    const auto dir = OpenDir(temp.path());
    if (dir.ok()) return 11;
    if (dir.error().code() != Code::kDenied) return 12;
    if (!Mentions(dir.error(), temp.path()) || !Mentions(dir.error(), "owner")) return 13;
    return 0;
  });
  EXPECT_EQ(exit_status, 0);
}

TEST(PosixDir, LinksAreRefused) {
  const TempDir temp;
  const TempDir outside;
  ASSERT_TRUE(OpenDir(outside.path()).value()->Create("secret").ok());
  ASSERT_EQ(symlink((outside.path() + "/secret").c_str(), (temp.path() + "/file").c_str()), 0);
  ASSERT_EQ(symlink(outside.path().c_str(), (temp.path() + "/folder").c_str()), 0);
  ASSERT_EQ(symlink("/nowhere/at/all", (temp.path() + "/dangling").c_str()), 0);
  auto dir = std::move(OpenDir(temp.path())).value();
  for (const auto& result :
       {dir->OpenRead("file"), dir->OpenWrite("file"), dir->Lock("file"), dir->Lock("dangling")}) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), Code::kDenied) << Describe(result.error());
    EXPECT_TRUE(Mentions(result.error(), "link")) << Describe(result.error());
  }
  EXPECT_FALSE(dir->Sub("folder").ok());
  EXPECT_EQ(dir->Create("dangling").error().code(), Code::kConflict);
  EXPECT_TRUE(dir->List().value().empty());
  // A link is removed itself, not what it points at.
  EXPECT_TRUE(dir->Remove("file").ok());
  EXPECT_EQ(OpenDir(outside.path()).value()->List().value().size(), 1u);
}

TEST(PosixDir, APipeDoesNotHoldTheServer) {
  const TempDir temp;
  ASSERT_EQ(mkfifo((temp.path() + "/pipe").c_str(), 0600), 0);
  auto dir = std::move(OpenDir(temp.path())).value();
  EXPECT_EQ(dir->OpenRead("pipe").error().code(), Code::kIo);
  EXPECT_EQ(dir->OpenWrite("pipe").error().code(), Code::kIo);
}

TEST(PosixDir, FollowsItsFolderNotItsPath) {
  const TempDir temp;
  auto dir = std::move(OpenDir(temp.path() + "/store")).value();
  ASSERT_TRUE(dir->Create("here").ok());
  ASSERT_EQ(rename((temp.path() + "/store").c_str(), (temp.path() + "/moved").c_str()), 0);
  EXPECT_TRUE(dir->OpenRead("here").ok());
  EXPECT_EQ(dir->List().value(), std::vector<std::string>{"here"});
}

TEST(PosixLock, AnotherProcessIsNamed) {
  const TempDir temp;
  std::array<int, 2> ready{};
  std::array<int, 2> done{};
  ASSERT_EQ(pipe(ready.data()), 0);
  ASSERT_EQ(pipe(done.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(done[1]);
    auto dir = OpenDir(temp.path());
    auto held = (*dir)->Lock("lock");
    char byte = held.ok() ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(2);
    if (read(done[0], &byte, 1) != 0) _exit(3);  // until the parent closes its end
    _exit(0);
  }
  close(done[0]);
  char locked = 0;
  ASSERT_EQ(read(ready[0], &locked, 1), 1);
  EXPECT_EQ(locked, 'y');
  auto dir = std::move(OpenDir(temp.path())).value();
  const auto mine = dir->Lock("lock");
  ASSERT_FALSE(mine.ok());
  EXPECT_EQ(mine.error().code(), Code::kConflict);
  EXPECT_TRUE(Mentions(mine.error(), "process " + std::to_string(child))) << Describe(mine.error());
  // The holder's end frees the lock, however it ends.
  close(done[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(dir->Lock("lock").ok());
  close(ready[0]);
  close(ready[1]);
}

TEST(PosixLock, AnUnreadableHolderIsStillAConflict) {
  const TempDir temp;
  auto dir = std::move(OpenDir(temp.path())).value();
  auto held = std::move(dir->Lock("lock")).value();
  ASSERT_EQ(truncate((temp.path() + "/lock").c_str(), 0), 0);
  const auto second = dir->Lock("lock");
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(Mentions(second.error(), "another process"));
}

TEST(PosixLock, AShorterPidReplacesALongerOne) {
  const TempDir temp;
  auto dir = std::move(OpenDir(temp.path())).value();
  ASSERT_TRUE(WriteText(*dir->Create("lock").value(), 0, "12345678901234567890 stale").ok());
  auto held = std::move(dir->Lock("lock")).value();
  EXPECT_EQ(ReadText(*held), std::to_string(getpid()) + "\n");
}

TEST(PosixFile, AWriteThatStopsInTheMiddleIsAnError) {
  const TempDir temp;
  const int exit_status = ExitOfChild([&] {
    // The system call writes up to the limit, and the one for the rest fails.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
    auto dir = OpenDir(temp.path());
    if (!dir.ok()) return 11;
    auto file = (*dir)->Create("f");
    if (!file.ok()) return 12;
    const std::string text(5000, 'x');
    const Status wrote = WriteText(**file, 0, text);
    if (wrote.ok() || wrote.error().code() != Code::kExhausted) return 13;
    if (!Mentions(wrote.error(), temp.path() + "/f")) return 14;
    if ((*file)->Size().value() != 4096) return 15;
    return 0;
  });
  EXPECT_EQ(exit_status, 0);
}

TEST(OsError, EachNumberHasItsCodeAndAdvice) {
  struct Case {
    int number;
    Code code;
    const char* part;
  };
  for (const Case& c :
       {Case{ENOSPC, Code::kExhausted, "free space"}, Case{EDQUOT, Code::kExhausted, "quota"},
        Case{EACCES, Code::kDenied, "owner and mode"}, Case{EPERM, Code::kDenied, "owner and mode"},
        Case{EFBIG, Code::kExhausted, "ulimit"}, Case{EROFS, Code::kDenied, "writable"},
        Case{ELOOP, Code::kDenied, "symbolic link"}, Case{ENOENT, Code::kNotFound, "No such file"},
        Case{EEXIST, Code::kConflict, "exists"}, Case{EMFILE, Code::kIo, "ulimit"},
        Case{EIO, Code::kIo, "kernel"}, Case{EBADF, Code::kIo, "descriptor"},
        Case{-1, Code::kIo, "Unknown"}}) {
    const Error error = OsError("do it to", "/x/y", c.number);
    EXPECT_EQ(error.code(), c.code) << c.number;
    EXPECT_EQ(error.message().substr(0, 14), "do it to /x/y:");
    EXPECT_TRUE(Mentions(error, c.part)) << Describe(error);
  }
}

TEST(SystemClock, MovesOn) {
  Clock& clock = SystemClock();
  const int64_t before = clock.MonotonicNs();
  EXPECT_GE(clock.MonotonicNs(), before);
  EXPECT_GT(clock.UnixMs(), 1'600'000'000'000);
}

TEST(SystemRandom, FillsEveryByteAnew) {
  // All 256 values occur in 64 KiB unless the source is broken (chance below 1e-100).
  std::vector<std::byte> a(64 * 1024);
  std::vector<std::byte> b(64 * 1024);
  SystemRandom().Fill(a);
  SystemRandom().Fill(b);
  SystemRandom().Fill({});
  EXPECT_NE(a, b);
  std::array<bool, 256> seen{};
  for (const std::byte byte : a)
    seen[std::to_integer<size_t>(byte)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 256);
}

TEST(PosixFile, AFolderForReadingIsNotChanged) {
  const TempDir folder;
  EXPECT_EQ(OpenDirForReading(folder.path() + "/none").error().code(), Code::kNotFound);
  EXPECT_EQ(OpenDirForReading("").error().code(), Code::kInvalid);
  {
    const auto writer = OpenDir(folder.path()).value();
    ASSERT_TRUE(writer->Create("a").ok());
    ASSERT_TRUE(writer->Sub("sub").value()->Create("b").ok());
  }
  const auto dir = OpenDirForReading(folder.path()).value();
  EXPECT_EQ(dir->List().value(), std::vector<std::string>{"a"});
  EXPECT_TRUE(dir->OpenRead("a").ok());
  const auto sub = dir->Sub("sub").value();
  EXPECT_TRUE(sub->OpenRead("b").ok());
  EXPECT_EQ(dir->Sub("none").error().code(), Code::kNotFound);
  for (Dir* each : {dir.get(), sub.get()}) {
    EXPECT_EQ(each->Create("c").error().code(), Code::kDenied);
    EXPECT_EQ(each->OpenWrite("a").error().code(), Code::kDenied);
    EXPECT_EQ(each->Remove("a").error().code(), Code::kDenied);
    EXPECT_EQ(each->Lock("lock").error().code(), Code::kDenied);
    EXPECT_EQ(each->Sync().error().code(), Code::kDenied);
  }
  EXPECT_EQ(dir->List().value(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace tenuto
