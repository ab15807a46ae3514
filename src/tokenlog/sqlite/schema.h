// The tables of the token log's SQLite database, and what makes a file one of ours
// (docs/formats/tokenlog.md).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "tokenlog/sqlite/sqlite.h"

namespace tenuto {

inline constexpr int64_t kLogApplicationId = 0x54454e4c;  // "TENL"
inline constexpr int64_t kLogFormat = 3;                  // PRAGMA user_version

// Makes an empty file a token log, or checks that it is one of this format, and sets up the writing
// connection. kInvalid: another format or another program's database, untouched.
Status PrepareWriter(Database& database);

// The same checks for a reading connection; changes nothing. kNotFound: the file is empty.
Status PrepareReader(Database& database);

}  // namespace tenuto
