// What a file or folder inside a Dir may be called; one rule for the real disk and the fake.
// Stateless.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tenuto {

inline constexpr size_t kFileNameBytesMax = 255;  // NAME_MAX of every file system we know

// kInvalid for anything that could name something outside the folder, or that no file system takes.
inline Status CheckFileName(std::string_view name) {
  if (name.empty()) return Error(Code::kInvalid, "a file name may not be empty");
  if (name.size() > kFileNameBytesMax)
    return Error(Code::kInvalid, "a file name may not be longer than 255 bytes");
  if (name == "." || name == "..")
    return Error(Code::kInvalid, "a file may not be called '" + std::string(name) + "'");
  if (name.find('/') != std::string_view::npos)
    return Error(Code::kInvalid, "a file name may not hold '/'");
  if (name.find('\0') != std::string_view::npos)
    return Error(Code::kInvalid, "a file name may not hold a zero byte");
  return Ok();
}

}  // namespace tenuto
