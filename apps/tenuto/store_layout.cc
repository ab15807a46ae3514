#include "store_layout.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <span>

#include "io/fd.h"
#include "io/os_error.h"

namespace tenuto {
namespace {

constexpr std::string_view kFormatName = "format";
constexpr std::string_view kLockName = "lock";
constexpr std::string_view kLogName = "log.db";
constexpr std::string_view kFormatPrefix = "tenuto-store ";
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
  std::string foreign;  // a file that no store has, or ""
};

Result<FolderState> LookAt(Dir& root) {
  FolderState state;
  TENUTO_ASSIGN(const auto names, root.List());
  for (const auto& name : names) {
    if (name == kFormatName) {
      TENUTO_ASSIGN(state.format, ReadFormat(root));
    } else if (name.rfind(kLogName, 0) == 0) {
      state.has_log = true;
    } else if (name != kLockName && state.foreign.empty()) {
      state.foreign = name;
    }
  }
  return state;
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
  paths.kv = prefix + "kv";
  paths.control_socket = prefix + "control.sock";
  paths.cache = prefix + "cache";
  return paths;
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

Result<WritableStore> OpenStoreIn(std::unique_ptr<Dir> root, const std::string& path) {
  WritableStore store;
  store.paths = StorePathsOf(path);
  // Looked at twice: before the lock, so that nothing is left in a folder that is refused; after
  // it, because only then does nobody else change it.
  bool fresh = false;
  TENUTO_ASSIGN(FolderState state, LookAt(*root));
  TENUTO_TRY(CheckFolder(state, store.paths.root, fresh));
  auto lock = root->Lock(kLockName);
  if (!lock) {
    const bool held = lock.error().code() == Code::kConflict;
    return std::move(lock).error().With("store " + store.paths.root +
                                        (held ? " is in use by another process" : ""));
  }
  store.lock = std::move(lock).value();
  TENUTO_ASSIGN(state, LookAt(*root));
  TENUTO_TRY(CheckFolder(state, store.paths.root, fresh));
  if (fresh) {
    if (state.format) TENUTO_TRY(root->Remove(kFormatName));
    if (auto written = WriteFormat(*root); !written)
      return std::move(written).error().With("new store " + store.paths.root);
  }
  TENUTO_ASSIGN(store.kv, root->Sub("kv"));
  TENUTO_ASSIGN(store.cache, root->Sub("cache"));
  store.root = std::move(root);
  return store;
}

Result<WritableStore> OpenStoreForWriting(const std::string& path) {
  auto root = OpenDir(path);
  if (!root) return std::move(root).error().With("store " + path);
  return OpenStoreIn(std::move(root).value(), path);
}

Result<StorePaths> OpenStoreForReading(const std::string& path) {
  StorePaths paths = StorePathsOf(path);
  const Fd file(::open(paths.format.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
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
  std::array<char, kFormatBytesMax> bytes{};
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) return OpenError(paths.format, errno);
  TENUTO_TRY(CheckStoreFormat({bytes.data(), static_cast<size_t>(count)}, paths.root));
  return paths;
}

std::string DefaultStorePath(const std::string& xdg_data_home, const std::string& home) {
  if (!xdg_data_home.empty() && xdg_data_home.front() == '/') return xdg_data_home + "/tenuto";
  return home.empty() ? "" : home + "/.local/share/tenuto";
}

}  // namespace tenuto
