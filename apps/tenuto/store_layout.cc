#include "store_layout.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <span>
#include <vector>

#include "format/segment.h"
#include "io/fd.h"
#include "io/os_error.h"

namespace tenuto {
namespace {

constexpr std::string_view kFormatName = "format";
constexpr std::string_view kLockName = "lock";
constexpr std::string_view kLogName = "log.db";
constexpr std::string_view kKvName = "kv";
constexpr std::string_view kRecallName = "recall";
constexpr std::string_view kFormatPrefix = "tenuto-store ";
// What a start of the token log takes of the volume, rounded up: the index of the write-ahead log
// and a few pages.
constexpr size_t kStartBytes = size_t{128} * 1024;
// Longer than any format file of any version: what is past it is not looked at.
constexpr size_t kFormatBytesMax = 64;

std::string FormatText() {
  return std::string(kFormatPrefix) + std::to_string(kStoreVersion) + "\n";
}

Result<std::string> ReadFormat(Dir& root) {
  TENUTO_ASSIGN(auto file, root.OpenRead(kFormatName));
  std::array<std::byte, kFormatBytesMax> bytes{};
  TENUTO_ASSIGN(const size_t count, file->ReadAt(0, bytes));
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += static_cast<char>(bytes[i]);
  return text;
}

Status WriteFormat(Dir& root) {
  TENUTO_ASSIGN(auto file, root.Create(kFormatName));
  const std::string text = FormatText();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  TENUTO_TRY(file->WriteAt(0, {&bytes, 1}));
  TENUTO_TRY(file->Sync());
  return root.Sync();
}

// What the folder held before this process touched it.
struct FolderState {
  std::optional<std::string> format;
  bool has_log = false;
  bool has_lock = false;
  std::string foreign;  // a file that no store has, or ""
};

// Listed are regular files alone: a pipe or a folder of that name is said to be one. A link
// (kDenied) is left to whoever opens it.
Status CheckNoOther(Dir& root, std::string_view name) {
  const auto file = root.OpenRead(name);
  const Code code = file ? Code::kNotFound : file.error().code();
  if (code == Code::kNotFound || code == Code::kDenied) return Ok();
  return file.error();
}

Result<FolderState> LookAt(Dir& root) {
  FolderState state;
  TENUTO_ASSIGN(const auto names, root.List());
  for (const auto& name : names) {
    if (name == kFormatName) {
      TENUTO_ASSIGN(state.format, ReadFormat(root));
    } else if (name.rfind(kLogName, 0) == 0) {
      state.has_log = true;
    } else if (name == kLockName) {
      state.has_lock = true;
    } else if (state.foreign.empty()) {
      state.foreign = name;
    }
  }
  if (!state.format) TENUTO_TRY(CheckNoOther(root, kFormatName));
  if (!state.has_log) TENUTO_TRY(CheckNoOther(root, kLogName));
  return state;
}

Result<bool> HasPieces(Dir& root) {
  const auto kv = root.Sub(kKvName);
  if (!kv && kv.error().code() == Code::kNotFound) return false;
  if (!kv) return kv.error();
  for (uint64_t digit = 0; digit < 16; ++digit) {
    const auto folder = (*kv)->Sub(SegmentFolderName(PayloadFileId{digit << 60}));
    if (!folder && folder.error().code() == Code::kNotFound) continue;
    if (!folder) return folder.error();
    TENUTO_ASSIGN(const auto names, (*folder)->List());
    for (const auto& name : names)
      if (ParseSegmentFileName(name)) return true;
  }
  return false;
}

// A log that is gone or empty beside KV pieces was lost: a new one in its place would end every
// conversation without a word, and the pieces with them, as files that no row names.
Status CheckLogIsThere(Dir& root, const std::string& path) {
  const auto log = root.OpenRead(kLogName);
  if (!log && log.error().code() == Code::kDenied) return Ok();
  if (!log && log.error().code() != Code::kNotFound) return log.error();
  if (log) {
    TENUTO_ASSIGN(const uint64_t size, (*log)->Size());
    if (size > 0) return Ok();
  }
  TENUTO_ASSIGN(const bool pieces, HasPieces(root));
  if (!pieces) return Ok();
  return Error(Code::kCorrupt, "store " + path + " has KV pieces, but its token log log.db is " +
                                   (log ? "empty" : "missing") +
                                   ", and with it every conversation: put back a copy of log.db, "
                                   "or remove the folder kv to begin anew (nothing was changed)");
}

// What a crash leaves of the write of the text: a prefix, and zeros where the size was kept but the
// bytes were not.
bool IsTornFormat(const FolderState& state) {
  const std::string whole = FormatText();
  if (!state.format || state.format->size() > whole.size() || *state.format == whole) return false;
  for (size_t i = 0; i < state.format->size(); ++i) {
    const char c = (*state.format)[i];
    if (c != whole[i] && c != '\0') return false;
  }
  return true;
}

// Ok: a store of this version, or a folder that may become one (`fresh`).
Status CheckFolder(const FolderState& state, const std::string& path, bool& fresh) {
  fresh = false;
  if (state.format && (state.has_log || !IsTornFormat(state)))
    return CheckStoreFormat(*state.format, path);
  if (state.has_log)
    return Error(Code::kCorrupt,
                 "store " + path +
                     " has a token log but no 'format' file, so its version is unknown; "
                     "nothing was changed");
  if (!state.foreign.empty())
    return Error(Code::kInvalid,
                 "folder " + path + " holds other files ('" + state.foreign +
                     "') and is no tenuto store; give --store an empty or a new folder");
  fresh = true;
  return Ok();
}

Error OpenError(const std::string& path, int number) {
  return Error(OsErrorCode(number), "can't read " + path + ": " + OsErrorText(number));
}

}  // namespace

StorePaths StorePathsOf(const std::string& root) {
  std::string base = root;
  while (base.size() > 1 && base.back() == '/')
    base.pop_back();
  const std::string prefix = base == "/" ? base : base + "/";
  StorePaths paths;
  paths.root = base;
  paths.lock = prefix + std::string(kLockName);
  paths.format = prefix + std::string(kFormatName);
  paths.log = prefix + std::string(kLogName);
  paths.kv = prefix + std::string(kKvName);
  paths.recall = prefix + std::string(kRecallName);
  paths.control_socket = prefix + "control.sock";
  paths.cache = prefix + "cache";
  return paths;
}

Error StoreIsFull(const std::string& path) {
  const StorePaths paths = StorePathsOf(path);
  struct stat info {};
  const bool has_kv = ::stat(paths.kv.c_str(), &info) == 0;
  return Error(Code::kExhausted,
               "store " + paths.root +
                   ": the token log finds no room: its volume is full, or a quota or limit of file "
                   "sizes is reached; free some space there" +
                   (has_kv ? ", or delete " + paths.kv +
                                 " while no server runs: that loses no words, KV is computed again"
                           : ""));
}

Status CheckStoreFormat(std::string_view text, const std::string& root) {
  if (text == FormatText()) return Ok();
  const Error unreadable(Code::kCorrupt,
                         "store " + root + ": its 'format' file is not one of tenuto's");
  if (text.size() < kFormatPrefix.size() + 2 ||
      text.substr(0, kFormatPrefix.size()) != kFormatPrefix)
    return unreadable;
  if (text.back() != '\n' || text[kFormatPrefix.size()] == '0') return unreadable;
  const std::string_view digits =
      text.substr(kFormatPrefix.size(), text.size() - kFormatPrefix.size() - 1);
  uint32_t version = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (digits.size() > 9 || error != std::errc() || stop != digits.data() + digits.size())
    return unreadable;
  const bool newer = version > static_cast<uint32_t>(kStoreVersion);
  return Error(Code::kInvalid, "store " + root + " has format " + std::to_string(version) +
                                   ", this program knows format " + std::to_string(kStoreVersion) +
                                   "; use " + (newer ? "a newer" : "an older") +
                                   " tenuto or another --store (nothing was changed)");
}

namespace {

// What the folder holds, when it is a store or may become one (`fresh`).
Result<FolderState> LookAndCheck(Dir& root, const std::string& path, bool& fresh) {
  auto state = LookAt(root);
  if (!state) return std::move(state).error().With("store " + path);
  TENUTO_TRY(CheckFolder(*state, path, fresh));
  TENUTO_TRY(CheckLogIsThere(root, path));
  return state;
}

Result<std::unique_ptr<File>> TakeLock(Dir& root, const std::string& path) {
  auto lock = root.Lock(kLockName);
  if (lock) return lock;
  const bool held = lock.error().code() == Code::kConflict;
  return std::move(lock).error().With("store " + path +
                                      (held ? " is in use by another process" : ""));
}

// SQLite opens what it may not write for reading, and says so in words of its own when it is too
// late for a check.
Status CheckLogRights(const StorePaths& paths) {
  for (const char* suffix : {"", "-wal", "-shm"}) {
    const std::string file = paths.log + suffix;
    if (::faccessat(AT_FDCWD, file.c_str(), W_OK, AT_EACCESS) == 0 || errno == ENOENT) continue;
    return OsError("open for writing", file, errno).With("store " + paths.root);
  }
  return Ok();
}

// OpenStoreIn, but `root` stays with the caller until it has worked.
Result<WritableStore> TryToOpen(std::unique_ptr<Dir>& root, const std::string& path) {
  WritableStore store;
  store.paths = StorePathsOf(path);
  // Looked at twice: before the lock, so that nothing is left in a folder that is refused; after
  // it, because only then does nobody else change it.
  bool fresh = false;
  TENUTO_ASSIGN(FolderState state, LookAndCheck(*root, store.paths.root, fresh));
  TENUTO_ASSIGN(store.lock, TakeLock(*root, store.paths.root));
  TENUTO_ASSIGN(state, LookAndCheck(*root, store.paths.root, fresh));
  TENUTO_TRY(CheckLogRights(store.paths));
  if (fresh) {
    if (state.format) TENUTO_TRY(root->Remove(kFormatName));
    if (auto written = WriteFormat(*root); !written)
      return std::move(written).error().With("new store " + store.paths.root);
  }
  TENUTO_ASSIGN(store.kv, root->Sub(kKvName));
  TENUTO_ASSIGN(store.recall, root->Sub(kRecallName));
  TENUTO_ASSIGN(store.cache, root->Sub("cache"));
  store.root = std::move(root);
  return store;
}

// Whether the volume takes kStartBytes: found out with a file that never has a name, so that
// nothing is left of it. `folder` exists.
Status CheckRoom(const std::string& folder, const std::string& store) {
  const Fd file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    if (errno == ENOSPC || errno == EDQUOT) return StoreIsFull(store);
    // Not every file system can do it; what it says of itself must do.
    struct statvfs volume {};
    const bool known = ::statvfs(folder.c_str(), &volume) == 0;
    const bool full = known && uint64_t{volume.f_bavail} * volume.f_frsize < kStartBytes;
    return full ? StoreIsFull(store) : Status(Ok());
  }
  const std::vector<char> bytes(kStartBytes, 'x');
  const ssize_t wrote = ::pwrite(file.get(), bytes.data(), bytes.size(), 0);
  // Some volumes find out when they sync.
  const bool part = wrote >= 0 && static_cast<size_t>(wrote) < bytes.size();
  if (part) return StoreIsFull(store);
  if (wrote >= 0 && ::fdatasync(file.get()) == 0) return Ok();
  const int number = errno;
  if (OsErrorCode(number) == Code::kExhausted) return StoreIsFull(store);
  return OsError("write to", folder, number);
}

// The nearest folder above `path` that exists: where the store would be made.
Status CheckCanBeMade(const std::string& path) {
  std::string above = StorePathsOf(path).root;
  struct stat info {};
  while (::stat(above.c_str(), &info) != 0) {
    if (errno != ENOENT) return OsError("make folder", path, errno);
    const size_t slash = above.find_last_of('/');
    if (slash == std::string::npos) {
      above = ".";
    } else {
      above.resize(std::max<size_t>(slash, 1));
    }
  }
  if (!S_ISDIR(info.st_mode)) return OsError("make folder", path, ENOTDIR);
  if (::access(above.c_str(), W_OK | X_OK) != 0) return OsError("make folder in", above, errno);
  return CheckRoom(above, path);
}

}  // namespace

Result<WritableStore> OpenStoreIn(std::unique_ptr<Dir> root, const std::string& path) {
  return TryToOpen(root, path);
}

Result<WritableStore> OpenStoreForWriting(const std::string& path, const TryAgain& try_again) {
  auto root = OpenDir(path);
  if (!root) return std::move(root).error().With("store " + path);
  for (;;) {
    auto store = TryToOpen(*root, path);
    if (store || store.error().code() != Code::kConflict) return store;
    if (!try_again || !try_again()) return store;
  }
}

Result<StoreCheck> CheckStore(const std::string& path) {
  const auto there = OpenDirForReading(path);
  if (!there) {
    if (there.error().code() != Code::kNotFound) return Error(there.error()).With("store " + path);
    TENUTO_TRY(CheckCanBeMade(path));
    return StoreCheck{};
  }
  const std::string name = StorePathsOf(path).root;
  bool fresh = false;
  TENUTO_ASSIGN(const FolderState state, LookAndCheck(**there, name, fresh));
  auto root = OpenDir(path);  // the same, with the right to write looked at
  if (!root) return std::move(root).error().With("store " + path);
  // Without the file nobody has ever locked it.
  if (state.has_lock) TENUTO_TRY(TakeLock(**root, name));
  TENUTO_TRY(CheckLogRights(StorePathsOf(path)));
  TENUTO_TRY(CheckRoom(name, name));
  return StoreCheck{!fresh};
}

Result<StorePaths> OpenStoreForReading(const std::string& path) {
  StorePaths paths = StorePathsOf(path);
  // O_NONBLOCK: a named pipe left here must not hold the command for ever.
  const Fd file(::open(paths.format.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    const int number = errno;
    if (number != ENOENT && number != ENOTDIR) return OpenError(paths.format, number);
    struct stat info {};
    if (::stat(paths.log.c_str(), &info) == 0)
      return Error(Code::kCorrupt,
                   "store " + paths.root +
                       " has a token log but no 'format' file, so its version is unknown");
    return Error(Code::kNotFound, "there is no tenuto store at " + paths.root +
                                      "; 'tenuto serve' makes one, --store names another");
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return OpenError(paths.format, errno);
  if (!S_ISREG(info.st_mode))
    return Error(Code::kIo, "can't read " + paths.format + ": it is not a regular file");
  std::array<char, kFormatBytesMax> bytes{};
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) return OpenError(paths.format, errno);
  TENUTO_TRY(CheckStoreFormat({bytes.data(), static_cast<size_t>(count)}, paths.root));
  TENUTO_ASSIGN(const auto root, OpenDirForReading(paths.root));
  TENUTO_TRY(CheckLogIsThere(*root, paths.root));
  return paths;
}

std::string DefaultStorePath(const std::string& xdg_data_home, const std::string& home) {
  if (!xdg_data_home.empty() && xdg_data_home.front() == '/') return xdg_data_home + "/tenuto";
  return home.empty() ? "" : home + "/.local/share/tenuto";
}

}  // namespace tenuto
