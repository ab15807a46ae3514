// Days named in a text, in the spellings and languages people use: 2024-05-03, 3 May 2024, May 3rd,
// 3.5.24, yesterday, last Tuesday, three days ago. Relative days are resolved against a given time.
// Pure functions. Not a calendar: days only, 1900 to 2199, Gregorian (Buddhist years and Japanese
// eras are converted).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recall/lex.h"

namespace tenuto {

// A moment with the zone of who spoke: it decides which day "yesterday" is.
struct Moment {
  int64_t unix_s = 0;
  int32_t zone_s = 0;  // east of Greenwich
  bool operator==(const Moment&) const = default;
};

// A day of the Gregorian calendar. year 0: not said.
struct Day {
  int32_t year = 0;
  int32_t month = 0;
  int32_t day = 0;
  bool operator==(const Day&) const = default;
};

Day DayOf(Moment moment);
Day PlusDays(Day day, int32_t days);
// 0 is Monday. REQUIRES: day.year > 0.
int32_t WeekdayOf(Day day);
bool IsDay(Day day);
// The latest such day that is not after `now`'s; `day` itself where the year was said.
Day LatestYear(Day day, Day now);

struct DateMention {
  uint32_t begin = 0;  // bytes [begin, end) of the clean text
  uint32_t end = 0;
  Day day;
};

// In order, without overlaps. At most `kDateMentionsMax`.
inline constexpr size_t kDateMentionsMax = 64;
std::vector<DateMention> FindDates(std::string_view clean, std::span<const Piece> pieces,
                                   Moment now);

// "2024-05-03" or, without a year, "05-03".
std::string DayText(Day day);

// ISO 8601 as the log has it: "2024-05-03T07:00:00+01:00", "...Z". Anything else gives false.
bool ParseMoment(std::string_view text, Moment& moment);

}  // namespace tenuto
