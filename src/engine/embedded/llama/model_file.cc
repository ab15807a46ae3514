#include "engine/embedded/llama/model_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "base/log.h"
#include "io/clock.h"
#include "io/fd.h"
#include "io/file.h"
#include "io/os_error.h"

namespace tenuto {
namespace {

constexpr size_t kReadBytes = size_t{4} << 20;
constexpr size_t kDigestHexBytes = 64;

Error SystemError(const std::string& doing, const std::string& path) {
  const int number = errno;
  return {OsErrorCode(number),
          "can't " + doing + " the model file " + path + ": " + OsErrorText(number)};
}

// A file of many gigabytes takes minutes: its progress is logged every `note_ms`.
Result<Digest256> HashFile(int fd, const std::string& path, off_t size, int64_t note_ms) {
  Sha256 hash;
  std::vector<std::byte> buffer(kReadBytes);
  off_t offset = 0;
  int64_t noted_ns = SystemClock().MonotonicNs();
  while (true) {
    const ssize_t count = ::pread(fd, buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read", path);
    if (count == 0) return hash.Finish();
    hash.Update(std::span(buffer).first(static_cast<size_t>(count)));
    offset += count;
    const int64_t now_ns = SystemClock().MonotonicNs();
    if (now_ns - noted_ns < note_ms * 1'000'000) continue;
    noted_ns = now_ns;
    Log(LogLevel::kInfo, "model.hashing",
        {{"file", path}, {"percent", int64_t{offset} * 100 / std::max<int64_t>(size, 1)}});
  }
}

std::optional<std::byte> HexNibble(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::byte>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::byte>(c - 'a' + 10);
  return std::nullopt;
}

std::optional<Digest256> ParseHex(std::string_view hex) {
  if (hex.size() != kDigestHexBytes) return std::nullopt;
  Digest256 digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    const auto high = HexNibble(hex[2 * i]);
    const auto low = HexNibble(hex[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    digest.bytes[i] = (*high << 4) | *low;
  }
  return digest;
}

// One file per model file in the cache: its name is the digest of the key, its text "<key>\n<hex
// digest>\n<check>\n".
struct CacheEntry {
  std::string key;
  std::string name;
};

CacheEntry EntryOf(const struct stat& facts) {
  CacheEntry entry;
  entry.key = "device " + std::to_string(facts.st_dev) + " inode " + std::to_string(facts.st_ino) +
              " size " + std::to_string(facts.st_size) + " changed " +
              std::to_string(facts.st_mtim.tv_sec) + "." + std::to_string(facts.st_mtim.tv_nsec);
  entry.name = "weights-" + Sha256Of(entry.key).Hex().substr(0, 32) + ".txt";
  return entry;
}

std::string EntryText(const std::string& key, const std::string& hex) {
  const std::string body = key + "\n" + hex + "\n";
  return body + Sha256Of(body).Hex().substr(0, 16) + "\n";
}

std::optional<Digest256> ReadCache(Dir& dir, const CacheEntry& entry) {
  auto file = dir.OpenRead(entry.name);
  if (!file) return std::nullopt;
  std::vector<std::byte> bytes(1024);
  const auto count = (*file)->ReadAt(0, bytes);
  if (!count) return std::nullopt;
  const std::string text(reinterpret_cast<const char*>(bytes.data()), *count);
  if (text.size() < entry.key.size() + 1 + kDigestHexBytes) return std::nullopt;
  const std::string hex = text.substr(entry.key.size() + 1, kDigestHexBytes);
  if (text != EntryText(entry.key, hex)) return std::nullopt;
  return ParseHex(hex);
}

Status WriteCache(Dir& dir, const CacheEntry& entry, const Digest256& digest) {
  if (const auto removed = dir.Remove(entry.name);
      !removed && removed.error().code() != Code::kNotFound) {
    return removed.error();
  }
  TENUTO_ASSIGN(const auto file, dir.Create(entry.name));
  const std::string text = EntryText(entry.key, digest.Hex());
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  return file->WriteAt(0, {&part, 1});
}

Result<Digest256> FileDigest(const std::string& path, Dir* cache, int64_t note_ms) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return SystemError("open", path);
  struct stat before = {};
  if (::fstat(file.get(), &before) != 0) return SystemError("read", path);
  if (!S_ISREG(before.st_mode))
    return Error(Code::kIo, "the model file " + path + " is not a regular file");
  const CacheEntry entry = EntryOf(before);
  if (cache != nullptr) {
    if (const auto known = ReadCache(*cache, entry)) return *known;
  }
  TENUTO_ASSIGN(const Digest256 digest, HashFile(file.get(), path, before.st_size, note_ms));
  struct stat after = {};
  if (::fstat(file.get(), &after) != 0) return SystemError("read", path);
  if (EntryOf(after).key != entry.key)
    return Error(Code::kIo, "the model file " + path + " changed while it was read");
  if (cache != nullptr) {
    if (const auto written = WriteCache(*cache, entry, digest); !written) {
      Log(LogLevel::kWarn, "llama.weights_cache", {{"error", written.error().message()}});
    }
  }
  return digest;
}

}  // namespace

std::vector<std::string> ModelFiles(const std::string& path) {
  constexpr std::string_view kForm = "-00001-of-00001.gguf";
  if (path.size() <= kForm.size()) return {path};
  const std::string tail = path.substr(path.size() - kForm.size());
  unsigned part = 0;
  unsigned parts = 0;
  int read = 0;
  const int fields = std::sscanf(tail.c_str(), "-%5u-of-%5u.gguf%n", &part, &parts, &read);
  if (fields != 2 || read != static_cast<int>(kForm.size()) || part != 1 || parts < 1)
    return {path};
  std::vector<std::string> files;
  const std::string stem = path.substr(0, path.size() - kForm.size());
  for (unsigned i = 1; i <= parts; ++i) {
    char name[32];
    std::snprintf(name, sizeof name, "-%05u-of-%05u.gguf", i, parts);
    files.push_back(stem + name);
  }
  return files;
}

Result<Digest256> WeightsDigest(const std::string& path, const std::string& cache_dir,
                                int64_t note_ms) {
  std::unique_ptr<Dir> cache;
  if (!cache_dir.empty()) {
    auto opened = OpenDir(cache_dir);
    if (opened) {
      cache = std::move(opened).value();
    } else {
      Log(LogLevel::kWarn, "llama.weights_cache", {{"error", opened.error().message()}});
    }
  }
  const std::vector<std::string> files = ModelFiles(path);
  if (files.size() == 1) return FileDigest(path, cache.get(), note_ms);
  Sha256 all;
  for (const std::string& file : files) {
    TENUTO_ASSIGN(const Digest256 digest, FileDigest(file, cache.get(), note_ms));
    all.Update(digest.bytes);
  }
  return all.Finish();
}

}  // namespace tenuto
