// A SQLite VFS over another one that guards the database file page by page
// (docs/formats/tokenlog.md, "Pages"):
// - each page ends with 16 bytes of checksum over its number and content, set on write and compared
//   on read, so that a flipped byte is an error and never another history; zero, as everywhere else
//   than in the file, where another tool moved the page there from the write-ahead log;
// - the unused middle of a b-tree page is zeroed on write: moving rows between pages leaves copies
// there, which
//   secure_delete does not see, and what was deleted must be gone.
// The write-ahead log and other files pass through; SQLite checks the log's frames itself.
#pragma once

#include <string>

#include "base/result.h"

namespace tenuto {

inline constexpr int kLogPageBytes = 4096;
inline constexpr int kLogPageReserveBytes = 16;
// Above it the first byte of an overflow page (part of a page number) could be mistaken for a
// b-tree page's type.
inline constexpr int64_t kLogPagesMax = 0x01ffffff;  // 128 GiB

// Registers the VFS over `base` ("": the default one), once; returns its name. Thread-safe.
// kInvalid: no such base.
Result<std::string> RegisterPageVfs(const std::string& base);

}  // namespace tenuto
