// The address of a Unix socket holds 107 bytes; a store may lie deeper. Such a path is reached
// through its folder's descriptor. Thread-compatible; the short path is good while the object
// lives.
#pragma once

#include <string>

#include "base/result.h"
#include "io/fd.h"

namespace tenuto {

class UnixPath {
 public:
  // kNotFound: the folder of `path` does not exist; kInvalid: the name alone is too long.
  static Result<UnixPath> Open(const std::string& path);
  const std::string& short_path() const { return short_path_; }

 private:
  UnixPath(std::string short_path, Fd folder);
  std::string short_path_;
  Fd folder_;
};

}  // namespace tenuto
