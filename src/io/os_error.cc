#include "io/os_error.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace tenuto {
namespace {

struct Verdict {
  Code code;
  const char* advice;  // "" where there is nothing to add
};

Verdict Judge(int number) {
  switch (number) {
    case ENOSPC:
      return {Code::kExhausted, "; free space on this volume"};
    case EDQUOT:
      return {Code::kExhausted, "; raise the quota or free space"};
    case EFBIG:
      return {Code::kExhausted, "; raise the limit on file sizes (ulimit -f)"};
    case EACCES:
    case EPERM:
      return {Code::kDenied, "; check the owner and mode of the file and the folders above it"};
    case EROFS:
      return {Code::kDenied, "; mount the volume writable or choose another folder"};
    case ELOOP:
      return {Code::kDenied, "; it is a symbolic link, and links are not followed here"};
    case ENOENT:
      return {Code::kNotFound, ""};
    case EEXIST:
      return {Code::kConflict, ""};
    case EMFILE:
    case ENFILE:
      return {Code::kIo, "; raise the limit on open files (ulimit -n)"};
    case EIO:
      return {Code::kIo, "; the device may be failing, see the kernel's log"};
    default:
      return {Code::kIo, ""};
  }
}

}  // namespace

Code OsErrorCode(int number) {
  return Judge(number).code;
}

std::string OsErrorText(int number) {
  std::array<char, 128> buffer{};
  // The GNU form: returns the text, which need not be in the buffer.
  return strerror_r(number, buffer.data(), buffer.size());
}

Error OsError(std::string_view verb, const std::string& path, int number) {
  const Verdict verdict = Judge(number);
  return Error(verdict.code,
               std::string(verb) + " " + path + ": " + OsErrorText(number) + verdict.advice);
}

}  // namespace tenuto
