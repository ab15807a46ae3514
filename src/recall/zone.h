// Time zones as people name them: "Asia/Tokyo" of the IANA database, as ICU has it, or an offset
// like "+09:00". Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenuto {

// Seconds east of Greenwich that hold there at a moment. nullopt: there is no such zone.
std::optional<int32_t> ZoneOffset(std::string_view zone, int64_t unix_s);

// "+09:00"; "Z" for 0. Whole minutes.
std::string OffsetText(int32_t zone_s);

}  // namespace tenuto
