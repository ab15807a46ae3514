#include "serve/http/unix_path.h"

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

namespace tenuto {
namespace {

constexpr size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

UnixPath::UnixPath(std::string short_path, int folder)
    : short_path_(std::move(short_path)), folder_(folder) {}

UnixPath::UnixPath(UnixPath&& other) noexcept
    : short_path_(std::move(other.short_path_)), folder_(std::exchange(other.folder_, -1)) {}

UnixPath& UnixPath::operator=(UnixPath&& other) noexcept {
  std::swap(short_path_, other.short_path_);
  std::swap(folder_, other.folder_);
  return *this;
}

UnixPath::~UnixPath() {
  if (folder_ >= 0) ::close(folder_);
}

Result<UnixPath> UnixPath::Open(const std::string& path) {
  if (path.find('\0') != std::string::npos || path.empty()) {
    return Error(Code::kInvalid, "the path of a Unix socket is empty or holds a NUL byte");
  }
  if (path.size() <= kPathBytesMax) return UnixPath(path, -1);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const int fd = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error(Code::kNotFound, "folder " + folder + " does not exist");
  UnixPath result("/proc/self/fd/" + std::to_string(fd) + "/" + name, fd);
  if (result.short_path_.size() > kPathBytesMax) {
    return Error(Code::kInvalid, "the name of the socket in " + path + " is too long");
  }
  return result;
}

}  // namespace tenuto
