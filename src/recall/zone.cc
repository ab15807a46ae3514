#include "recall/zone.h"

#include <unicode/timezone.h>
#include <unicode/ucal.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "recall/lex.h"

namespace tenuto {
namespace {

constexpr size_t kNameBytesMax = 64;
constexpr int32_t kMinuteS = 60;
constexpr int32_t kHourS = 3600;
constexpr int32_t kHoursMax = 23;
constexpr double kMsPerS = 1000.0;

int32_t Two(std::string_view digits) {
  return (digits[0] - '0') * 10 + (digits[1] - '0');
}

// "+hh:mm" or "+hhmm".
std::optional<int32_t> ParseOffset(std::string_view text) {
  const bool behind = text.front() == '-';
  std::string digits(text.substr(1));
  if (digits.size() == 5 && digits[2] == ':') digits.erase(2, 1);
  if (digits.size() != 4 || !std::ranges::all_of(digits, IsDigit)) return std::nullopt;
  const int32_t hours = Two(digits);
  const int32_t minutes = Two(std::string_view(digits).substr(2));
  if (hours > kHoursMax || minutes >= kMinuteS) return std::nullopt;
  const int32_t offset = hours * kHourS + minutes * kMinuteS;
  return behind ? -offset : offset;
}

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '/' || c == '_' ||
         c == '-' || c == '+';
}

}  // namespace

std::optional<int32_t> ZoneOffset(std::string_view zone, int64_t unix_s) {
  if (zone.empty() || zone.size() > kNameBytesMax) return std::nullopt;
  if (zone == "Z") return 0;
  if (zone.front() == '+' || zone.front() == '-') return ParseOffset(zone);
  if (!std::ranges::all_of(zone, IsNameByte)) return std::nullopt;
  const auto name = icu::UnicodeString::fromUTF8({zone.data(), static_cast<int32_t>(zone.size())});
  const std::unique_ptr<icu::TimeZone> found(icu::TimeZone::createTimeZone(name));
  icu::UnicodeString id;
  if (!found || found->getID(id) == icu::UnicodeString(UCAL_UNKNOWN_ZONE_ID)) return std::nullopt;
  int32_t raw_ms = 0;
  int32_t summer_ms = 0;
  UErrorCode status = U_ZERO_ERROR;
  found->getOffset(static_cast<double>(unix_s) * kMsPerS, false, raw_ms, summer_ms, status);
  if (U_FAILURE(status)) return std::nullopt;
  // A whole minute, as offsets are written: those of before 1900 were none.
  constexpr int32_t kMinuteMs = kMinuteS * static_cast<int32_t>(kMsPerS);
  return (raw_ms + summer_ms) / kMinuteMs * kMinuteS;
}

std::string OffsetText(int32_t zone_s) {
  if (zone_s == 0) return "Z";
  const int32_t minutes = (zone_s < 0 ? -zone_s : zone_s) / kMinuteS;
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%c%02d:%02d", zone_s < 0 ? '-' : '+', minutes / kMinuteS,
                minutes % kMinuteS);
  return text.data();
}

}  // namespace tenuto
