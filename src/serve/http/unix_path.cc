#include "serve/http/unix_path.h"

#include <fcntl.h>
#include <sys/un.h>

#include <utility>

namespace tenuto {
namespace {

constexpr size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

UnixPath::UnixPath(std::string short_path, Fd folder)
    : short_path_(std::move(short_path)), folder_(std::move(folder)) {}

Result<UnixPath> UnixPath::Open(const std::string& path) {
  if (path.find('\0') != std::string::npos || path.empty()) {
    return Error(Code::kInvalid, "the path of a Unix socket is empty or holds a NUL byte");
  }
  if (path.size() <= kPathBytesMax) return UnixPath(path, Fd());
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  Fd fd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return Error(Code::kNotFound, "folder " + folder + " does not exist");
  std::string short_path = "/proc/self/fd/" + std::to_string(fd.get()) + "/" + name;
  if (short_path.size() > kPathBytesMax) {
    return Error(Code::kInvalid, "the name of the socket in " + path + " is too long");
  }
  return UnixPath(std::move(short_path), std::move(fd));
}

}  // namespace tenuto
