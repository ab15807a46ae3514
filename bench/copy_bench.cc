// What moving bytes costs on this machine, as the baseline of a restore: one copy in memory, one
// sequential read of files. JSON on standard output, one object. One thread.
//
//   copy_bench memcpy BYTES REPEAT     median of copies between two touched buffers
//   copy_bench warm FILE...            reads the files, so that the page cache holds them
//   copy_bench evict FILE...           takes them out of the page cache (they must be synced)
//   copy_bench read FILE...            one sequential read of them all, in parts of 4 MiB
//
// Every mode with files says how much of them the page cache held before and after.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr size_t kPartBytes = 4 << 20;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "copy_bench: %s\n", what.c_str());
  std::exit(1);
}

double NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

int RunMemcpy(size_t bytes, int repeat) {
  if (bytes == 0 || repeat < 1) Die("memcpy needs BYTES and REPEAT");
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  std::vector<double> times;
  uint64_t seen = 0;  // so that no copy is left out
  for (int i = 0; i < repeat; ++i) {
    from[static_cast<size_t>(i) % bytes] = static_cast<char>(i);
    const double begun = NowMs();
    std::memcpy(to.data(), from.data(), bytes);
    times.push_back(NowMs() - begun);
    seen += static_cast<uint64_t>(static_cast<unsigned char>(to[static_cast<size_t>(i) % bytes]));
  }
  std::sort(times.begin(), times.end());
  std::printf("{\"bytes\":%zu,\"ms\":%.4f,\"ms_min\":%.4f,\"ms_max\":%.4f,\"check\":%llu}\n", bytes,
              times[times.size() / 2], times.front(), times.back(),
              static_cast<unsigned long long>(seen));
  return 0;
}

class OpenFile {
 public:
  explicit OpenFile(const char* path) : fd(open(path, O_RDONLY | O_CLOEXEC)) {
    struct stat status = {};
    if (fd < 0 || fstat(fd, &status) != 0) Die(std::string("can't open ") + path);
    bytes = static_cast<size_t>(status.st_size);
  }
  ~OpenFile() { close(fd); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Pages of it that are in the page cache, in bytes.
  size_t Resident() const {
    if (bytes == 0) return 0;
    void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) Die("mmap failed");
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> present((bytes + page - 1) / page);
    if (mincore(map, bytes, present.data()) != 0) Die("mincore failed");
    munmap(map, bytes);
    const auto in = std::count_if(present.begin(), present.end(),
                                  [](unsigned char state) { return (state & 1) != 0; });
    return std::min(bytes, static_cast<size_t>(in) * page);
  }
  void Read(std::vector<char>& buffer) const {
    for (size_t done = 0; done < bytes;) {
      const ssize_t got = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(done));
      if (got <= 0) Die("a read failed");
      done += static_cast<size_t>(got);
    }
  }
  void Evict() const {
    if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) Die("posix_fadvise failed");
  }

  const int fd;
  size_t bytes = 0;
};

double ResidentShare(const std::vector<const char*>& names) {
  size_t resident = 0;
  size_t all = 0;
  for (const char* name : names) {
    const OpenFile file(name);
    resident += file.Resident();
    all += file.bytes;
  }
  return all == 0 ? 0 : static_cast<double>(resident) / static_cast<double>(all);
}

int RunFiles(const std::string& mode, const std::vector<const char*>& names) {
  const double before = ResidentShare(names);
  std::vector<char> buffer(kPartBytes, 1);
  size_t bytes = 0;
  const double begun = NowMs();
  for (const char* name : names) {
    const OpenFile file(name);
    bytes += file.bytes;
    if (mode == "evict")
      file.Evict();
    else
      file.Read(buffer);
  }
  const double ms = NowMs() - begun;
  std::printf("{\"bytes\":%zu,\"ms\":%.4f,\"resident_before\":%.4f,\"resident_after\":%.4f}\n",
              bytes, ms, before, ResidentShare(names));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::vector<const char*> rest(argv + std::min(argc, 2), argv + argc);
  if (mode == "memcpy" && rest.size() == 2)
    return RunMemcpy(std::strtoull(rest[0], nullptr, 10), std::atoi(rest[1]));
  if ((mode == "warm" || mode == "read" || mode == "evict") && !rest.empty())
    return RunFiles(mode, rest);
  Die("usage: copy_bench memcpy BYTES REPEAT | warm FILE... | evict FILE... | read FILE...");
}
