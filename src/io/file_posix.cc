// The real disk: one file descriptor per File and Dir, everything relative to a folder's
// descriptor, so that a folder that is renamed or replaced by a link under a running server leads
// nowhere else.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <tuple>
#include <utility>

#include "io/fd.h"
#include "io/file.h"
#include "io/name.h"
#include "io/os_error.h"

namespace tenuto {
namespace {

constexpr size_t kPartsPerCall = 64;  // well below IOV_MAX; bounds the copy on the stack

// Runs a call that may be interrupted before it did anything.
template <typename Call>
auto Retry(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class PosixFile final : public File {
 public:
  PosixFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) override {
    TENUTO_TRY(CheckRange("read", offset, out.size()));
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = Retry([&] {
        return pread(fd_.get(), out.data() + done, out.size() - done,
                     static_cast<off_t>(offset + done));
      });
      if (got < 0) return OsError("read", path_, errno);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

  Status WriteAt(uint64_t offset, std::span<const std::span<const std::byte>> parts) override {
    uint64_t total = 0;
    for (const auto part : parts)
      total += part.size();
    TENUTO_TRY(CheckRange("write", offset, total));
    size_t part = 0;   // the first part with bytes left
    size_t begin = 0;  // bytes of it that are written
    while (true) {
      while (part < parts.size() && begin == parts[part].size()) {
        ++part;
        begin = 0;
      }
      if (part == parts.size()) return Ok();
      std::array<iovec, kPartsPerCall> vectors;
      size_t count = 0;
      for (size_t i = part; i < parts.size() && count < vectors.size(); ++i) {
        const auto rest = parts[i].subspan(i == part ? begin : 0);
        // pwritev takes no const, and writes nothing to it.
        if (!rest.empty()) vectors[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
      }
      const ssize_t wrote = Retry([&] {
        return pwritev(fd_.get(), vectors.data(), static_cast<int>(count),
                       static_cast<off_t>(offset));
      });
      if (wrote < 0) return OsError("write", path_, errno);
      if (wrote == 0) return Error(Code::kIo, "write " + path_ + ": the system wrote nothing");
      offset += static_cast<uint64_t>(wrote);
      Advance(parts, static_cast<size_t>(wrote), part, begin);
    }
  }

  Status Sync() override {
    // Not retried, not even after EINTR: the kernel may have marked the lost pages clean already
    // (INV-11).
    if (fdatasync(fd_.get()) != 0) return OsError("sync", path_, errno);
    return Ok();
  }

  Result<uint64_t> Size() override {
    struct stat info {};
    if (fstat(fd_.get(), &info) != 0) return OsError("stat", path_, errno);
    return static_cast<uint64_t>(info.st_size);
  }

 private:
  Status CheckRange(const char* verb, uint64_t offset, uint64_t bytes) const {
    constexpr uint64_t kMax = static_cast<uint64_t>(std::numeric_limits<off_t>::max());
    if (offset > kMax || bytes > kMax - offset)
      return Error(Code::kInvalid, std::string(verb) + " " + path_ + ": past the largest offset");
    return Ok();
  }

  static void Advance(std::span<const std::span<const std::byte>> parts, size_t wrote, size_t& part,
                      size_t& begin) {
    while (wrote > 0) {
      const size_t step = std::min(wrote, parts[part].size() - begin);
      wrote -= step;
      begin += step;
      if (begin == parts[part].size()) {
        ++part;
        begin = 0;
      }
    }
  }

  Fd fd_;
  std::string path_;
};

enum class Access : uint8_t { kWrite, kReadOnly };

class PosixDir final : public Dir {
 public:
  PosixDir(Fd fd, std::string path, Access access)
      : fd_(std::move(fd)), path_(std::move(path)), access_(access) {}

  Result<std::unique_ptr<File>> OpenRead(std::string_view name) override {
    return OpenFile("open", name, O_RDONLY);
  }
  Result<std::unique_ptr<File>> Create(std::string_view name) override {
    TENUTO_TRY(CheckWritable("create", name));
    return OpenFile("create", name, O_RDWR | O_CREAT | O_EXCL);
  }
  Result<std::unique_ptr<File>> OpenWrite(std::string_view name) override {
    TENUTO_TRY(CheckWritable("open for writing", name));
    return OpenFile("open for writing", name, O_RDWR);
  }

  Status Remove(std::string_view name) override {
    TENUTO_TRY(CheckFileName(name));
    TENUTO_TRY(CheckWritable("remove", name));
    const std::string text(name);
    if (unlinkat(fd_.get(), text.c_str(), 0) != 0) return OsError("remove", PathOf(name), errno);
    return Ok();
  }

  Result<uint64_t> FreeBytes() override {
    struct statvfs volume {};
    if (fstatvfs(fd_.get(), &volume) != 0) return OsError("stat volume of", path_, errno);
    return uint64_t{volume.f_bavail} * volume.f_frsize;
  }

  Status Sync() override {
    TENUTO_TRY(CheckWritable("sync", "."));
    if (fsync(fd_.get()) != 0) return OsError("sync folder", path_, errno);
    return Ok();
  }

  Result<std::vector<std::string>> List() override;
  Result<std::unique_ptr<Dir>> Sub(std::string_view name) override;
  Result<std::unique_ptr<File>> Lock(std::string_view name) override;

 private:
  std::string PathOf(std::string_view name) const { return path_ + "/" + std::string(name); }

  Status CheckWritable(const char* verb, std::string_view name) const {
    if (access_ == Access::kWrite) return Ok();
    return Error(Code::kDenied, std::string(verb) + " " + PathOf(name) +
                                    ": the folder was opened for reading only");
  }

  // The descriptor of a regular file.
  Result<Fd> OpenFd(const char* verb, std::string_view name, int flags) {
    TENUTO_TRY(CheckFileName(name));
    const std::string text(name);
    // O_NONBLOCK: a named pipe left here must not hold the server for ever. It means nothing for
    // regular files.
    Fd fd(Retry([&] {
      return openat(fd_.get(), text.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    }));
    if (fd.get() < 0) return OsError(verb, PathOf(name), errno);
    struct stat info {};
    if (fstat(fd.get(), &info) != 0) return OsError("stat", PathOf(name), errno);
    if (!S_ISREG(info.st_mode))
      return Error(Code::kIo, std::string(verb) + " " + PathOf(name) + ": not a regular file");
    return fd;
  }

  Result<std::unique_ptr<File>> OpenFile(const char* verb, std::string_view name, int flags) {
    TENUTO_ASSIGN(Fd fd, OpenFd(verb, name, flags));
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), PathOf(name)));
  }

  Fd fd_;
  std::string path_;
  Access access_;
};

Result<bool> IsRegular(int folder, const dirent& entry, const std::string& path) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_REG;
  struct stat info {};
  if (fstatat(folder, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;  // removed while we were listing
    return OsError("stat", path + "/" + entry.d_name, errno);
  }
  return S_ISREG(info.st_mode);
}

Result<std::vector<std::string>> PosixDir::List() {
  // A descriptor of its own: a duplicate would share the read position with other callers.
  Fd fd(Retry([&] { return openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (fd.get() < 0) return OsError("list", path_, errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(fd.get()), closedir);
  if (!stream) return OsError("list", path_, errno);
  const int folder = fd.Release();  // the stream closes it now
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): safe in glibc while one thread has the stream.
    const dirent* entry = readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return OsError("list", path_, errno);
      break;
    }
    TENUTO_ASSIGN(const bool regular, IsRegular(folder, *entry, path_));
    if (regular) names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

Result<std::unique_ptr<Dir>> PosixDir::Sub(std::string_view name) {
  TENUTO_TRY(CheckFileName(name));
  const std::string text(name);
  const auto open_it = [&] {
    return Retry([&] { return openat(fd_.get(), text.c_str(), kFolderFlags | O_NOFOLLOW); });
  };
  Fd fd(open_it());
  if (fd.get() < 0 && errno == ENOENT && access_ == Access::kWrite) {
    if (mkdirat(fd_.get(), text.c_str(), 0700) != 0 && errno != EEXIST)
      return OsError("make folder", PathOf(name), errno);
    TENUTO_TRY(Sync());
    fd = Fd(open_it());
  }
  if (fd.get() < 0) return OsError("open folder", PathOf(name), errno);
  return std::unique_ptr<Dir>(std::make_unique<PosixDir>(std::move(fd), PathOf(name), access_));
}

// The process id in a lock file, or 0 when it can't be read: another may be about to write it.
int64_t HolderOf(int fd) {
  std::array<char, 24> text{};
  const ssize_t got = Retry([&] { return pread(fd, text.data(), text.size(), 0); });
  int64_t pid = 0;
  if (got > 0) std::from_chars(text.data(), text.data() + got, pid);
  return pid;
}

Result<std::unique_ptr<File>> PosixDir::Lock(std::string_view name) {
  TENUTO_TRY(CheckWritable("lock", name));
  TENUTO_ASSIGN(Fd fd, OpenFd("open lock", name, O_RDWR | O_CREAT));
  if (Retry([&] { return flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) return OsError("lock", PathOf(name), errno);
    const int64_t pid = HolderOf(fd.get());
    return Error(Code::kConflict,
                 PathOf(name) + " is locked by " +
                     (pid > 0 ? "process " + std::to_string(pid) : std::string("another process")) +
                     "; stop it or use another folder");
  }
  // For the loser's message alone: a full disk must not keep anybody from opening his store.
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(fd.get(), 0) == 0)
    std::ignore = Retry([&] { return pwrite(fd.get(), pid.data(), pid.size(), 0); });
  return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), PathOf(name)));
}

// Everything before the last '/', which TidyPath made meaningful.
std::string ParentOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Makes `path` and what is missing above it, each one durable in its parent.
Status MakeFolders(const std::string& path) {
  int number = mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
  const std::string parent = ParentOf(path);
  if (number == ENOENT && parent != "." && parent != "/") {
    TENUTO_TRY(MakeFolders(parent));
    // Once more and not until it works: some file systems (/proc) say ENOENT to any mkdir.
    number = mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
  }
  if (number == EEXIST) return Ok();
  if (number != 0) return OsError("make folder", path, number);
  const Fd fd(Retry([&] { return open(parent.c_str(), kFolderFlags); }));
  // A parent that may not be read can't be synced; the folder is there all the same.
  if (fd.get() >= 0 && fsync(fd.get()) != 0) return OsError("sync folder", parent, errno);
  return Ok();
}

// Without "//" and a '/' at the end, so that the parent is what stands before the last '/'.
std::string TidyPath(const std::string& path) {
  std::string tidy;
  for (const char c : path)
    if (c != '/' || tidy.empty() || tidy.back() != '/') tidy += c;
  if (tidy.size() > 1 && tidy.back() == '/') tidy.pop_back();
  return tidy;
}

Status CheckPath(const std::string& path) {
  if (path.empty()) return Error(Code::kInvalid, "open folder: the path is empty");
  if (path.find('\0') != std::string::npos)
    return Error(Code::kInvalid, "open folder: the path holds a zero byte");
  return Ok();
}

Fd OpenFolder(const std::string& path) {
  return Fd(Retry([&] { return open(path.c_str(), kFolderFlags); }));
}

}  // namespace

Result<std::unique_ptr<Dir>> OpenDir(const std::string& path) {
  TENUTO_TRY(CheckPath(path));
  const std::string tidy = TidyPath(path);
  Fd fd = OpenFolder(tidy);
  if (fd.get() < 0 && errno == ENOENT) {
    TENUTO_TRY(MakeFolders(tidy));
    fd = OpenFolder(tidy);
  }
  if (fd.get() < 0) return OsError("open folder", tidy, errno);
  // Said now, with the folder's name, instead of at the first turn.
  if (faccessat(fd.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    return OsError("open folder for writing", tidy, errno);
  return std::unique_ptr<Dir>(std::make_unique<PosixDir>(std::move(fd), tidy, Access::kWrite));
}

Result<std::unique_ptr<Dir>> OpenDirForReading(const std::string& path) {
  TENUTO_TRY(CheckPath(path));
  const std::string tidy = TidyPath(path);
  Fd fd = OpenFolder(tidy);
  if (fd.get() < 0) return OsError("open folder", tidy, errno);
  return std::unique_ptr<Dir>(std::make_unique<PosixDir>(std::move(fd), tidy, Access::kReadOnly));
}

}  // namespace tenuto
