// An errno as an Error: the one place that says which Code it is and what a person can do about it.
// Stateless.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tenuto {

// "write /x/y: No space left on device; free space on this volume". Disk or quota full, or a
// file at its size limit, is kExhausted; no rights, a read-only volume or a symbolic link kDenied;
// missing kNotFound; existing kConflict; everything else kIo.
Error OsError(std::string_view verb, const std::string& path, int number);

// The two halves, for messages that are put together otherwise. Thread-safe, unlike strerror.
Code OsErrorCode(int number);
std::string OsErrorText(int number);  // "No space left on device"

}  // namespace tenuto
