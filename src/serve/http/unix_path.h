// The address of a Unix socket holds 107 bytes; a store may lie deeper. Such a path is reached
// through its folder's descriptor. Thread-compatible; the short path is good while the object
// lives.
#pragma once

#include <string>

#include "base/result.h"

namespace tenuto {

class UnixPath {
 public:
  // kNotFound: the folder of `path` does not exist; kInvalid: the name alone is too long.
  static Result<UnixPath> Open(const std::string& path);
  UnixPath(UnixPath&& other) noexcept;
  UnixPath& operator=(UnixPath&& other) noexcept;
  ~UnixPath();

  const std::string& short_path() const { return short_path_; }

 private:
  UnixPath(std::string short_path, int folder);
  std::string short_path_;
  int folder_ = -1;
};

}  // namespace tenuto
