#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace tenuto {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kNotFound:
      return "not_found";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kInvalid:
      return "invalid";
    case Code::kConflict:
      return "conflict";
    case Code::kExhausted:
      return "exhausted";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDenied:
      return "denied";
    case Code::kIo:
      return "io";
  }
  return "unknown";
}

Error Error::With(std::string_view context) && {
  message_.insert(0, std::string(context) + ": ");
  return std::move(*this);
}

Error Error::At(std::string field) && {
  field_ = std::move(field);
  return std::move(*this);
}

Error Error::RetryAfter(int64_t seconds) && {
  retry_after_s_ = seconds;
  return std::move(*this);
}

void DieOnError(const Error& error) {
  std::fprintf(stderr, "tenuto: internal error: value() of an error: %s: %s\n",
               CodeName(error.code()).data(), error.message().c_str());
  std::abort();
}

}  // namespace tenuto
