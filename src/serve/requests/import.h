// The body of POST /v1/sessions/{id}/import: one JSON object a line. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/import.h"

namespace tenuto {

inline constexpr size_t kImportItemsMax = 20'000;  // of one request

// {"role", "content", "time"?, "name"?, "id"?, "tool_calls"?, "tool_call_id"?} a line; empty lines
// count as none. kInvalid, `At`
// the item: not JSON, a field of another type or that nobody knows, a time that is none, too many.
Result<std::vector<ImportItem>> ParseImportBody(std::string_view body);

// Milliseconds since 1970 of "2024-05-03", "2024-05-03T12:30:00Z", with a fraction of a second and
// with an offset such as +02:00 in place of Z. nullopt: anything else, or a day that does not
// exist. `zone_s`, if any, gets the offset where one is given, Z aside: Z says no zone but a
// moment.
std::optional<int64_t> ParseTime(std::string_view text, std::optional<int32_t>* zone_s = nullptr);

}  // namespace tenuto
