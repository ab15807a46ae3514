#include "recall/dates.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "base/check.h"
#include "recall/date_words.h"

namespace tenuto {
namespace {

constexpr int32_t kYearMin = 1900;
constexpr int32_t kYearMax = 2199;
constexpr int32_t kBuddhistOffset = 543;
constexpr int64_t kDayS = 86400;

// Days since 1970-01-01 and back (H. Hinnant's civil calendar).
int64_t DaysFromCivil(Day day) {
  const int32_t y = day.year - (day.month <= 2 ? 1 : 0);
  const int64_t era = (y >= 0 ? y : y - 399) / 400;
  const int64_t yoe = y - era * 400;
  const int64_t doy = (153 * (day.month + (day.month > 2 ? -3 : 9)) + 2) / 5 + day.day - 1;
  const int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + doe - 719468;
}

Day CivilFromDays(int64_t days) {
  days += 719468;
  const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const int64_t doe = days - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153;
  const auto day = static_cast<int32_t>(doy - (153 * mp + 2) / 5 + 1);
  const auto month = static_cast<int32_t>(mp < 10 ? mp + 3 : mp - 9);
  return {static_cast<int32_t>(yoe + era * 400) + (month <= 2 ? 1 : 0), month, day};
}

int32_t NumberOf(std::string_view digits) {
  int32_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9' || number > 100000) return -1;
    number = number * 10 + (c - '0');
  }
  return digits.empty() ? -1 : number;
}

// A year as it was written: two digits are 2000 to 2069 and 1970 to 1999, Buddhist years converted.
int32_t YearOf(std::string_view digits, bool buddhist_script) {
  int32_t year = NumberOf(digits);
  if (digits.size() == 2) {
    if (buddhist_script) return 2500 + year - kBuddhistOffset;
    return year < 70 ? 2000 + year : 1900 + year;
  }
  if (digits.size() != 4) return 0;
  if (year >= kYearMin + kBuddhistOffset && year > kYearMax) year -= kBuddhistOffset;
  return year >= kYearMin && year <= kYearMax ? year : 0;
}

class Finder {
 public:
  Finder(std::string_view clean, std::span<const Piece> pieces, Moment now)
      : clean_(clean), pieces_(pieces), today_(DayOf(now)) {
    thai_ = std::any_of(pieces.begin(), pieces.end(),
                        [](const Piece& piece) { return piece.kind == LexKind::kDense; });
  }

  std::vector<DateMention> Run() {
    while (at_ < pieces_.size() && found_.size() < kDateMentionsMax) {
      const Piece& piece = pieces_[at_];
      if (piece.kind == LexKind::kCjk || piece.kind == LexKind::kDense) {
        Dense(piece);
        ++at_;
        continue;
      }
      const size_t taken = Numeric() ? taken_ : Written() ? taken_ : Relative() ? taken_ : 0;
      if (taken == 0) {
        ++at_;
        continue;
      }
      found_.push_back({pieces_[at_].begin, end_ == 0 ? pieces_[at_ + taken - 1].end : end_, day_});
      at_ += taken;
      end_ = 0;
    }
    return std::move(found_);
  }

 private:
  const Piece* Peek(size_t ahead) const {
    return at_ + ahead < pieces_.size() ? &pieces_[at_ + ahead] : nullptr;
  }
  std::string_view Text(size_t ahead) const {
    const Piece* piece = Peek(ahead);
    return piece == nullptr ? std::string_view() : std::string_view(piece->folded);
  }
  bool IsNumber(size_t ahead) const {
    const Piece* piece = Peek(ahead);
    return piece != nullptr && piece->kind == LexKind::kNumber;
  }
  bool Touches(size_t ahead) const { return Peek(ahead)->begin == pieces_[at_ + ahead - 1].end; }
  bool Take(Day day, size_t taken) {
    if (!IsDay(day)) return false;
    day_ = day;
    taken_ = taken;
    return true;
  }

  // A mark that separates the parts of a numeric date: - / .
  bool Separator(size_t ahead) const {
    const std::string_view text = Text(ahead);
    return (text == "-" || text == "/" || text == ".") && Touches(ahead);
  }

  bool Numeric() {
    if (!IsNumber(0)) return false;
    if (Text(1) == "\u5e74" || MonthMark(1)) return FarEast();
    if (Peek(4) == nullptr || !Separator(1) || !IsNumber(2) || !Touches(2) || !Separator(3) ||
        Text(3) != Text(1) || !IsNumber(4) || !Touches(4)) {
      return false;
    }
    const std::string_view first = Text(0);
    const int32_t middle = NumberOf(Text(2));
    if (first.size() == 4) {
      return Take({YearOf(first, thai_), middle, NumberOf(Text(4))}, 5);
    }
    const int32_t year = YearOf(Text(4), thai_);
    if (year == 0) return false;
    const Day day_first = {year, middle, NumberOf(first)};
    const Day month_first = {year, NumberOf(first), middle};
    // 5/3/2024 may be either; the day comes first in most of the world.
    return Take(IsDay(day_first) ? day_first : month_first, 5);
  }

  bool MonthMark(size_t ahead) const {
    const std::string_view text = Text(ahead);
    return text == "\u6708" || text == "\uc6d4";
  }

  // 2024 Y 5 M 3 D, or 5 M 3 D, in Han or Hangul; a run behind the day may go on.
  bool FarEast() {
    size_t at = 0;
    int32_t year = 0;
    if (Text(1) == "\u5e74" || Text(1) == "\ub144") {
      year = NumberOf(Text(0));
      if (year < 100 && at_ > 0) year += EraBefore();
      at = 2;
    }
    if (!IsNumber(at) || !MonthMark(at + 1) || !IsNumber(at + 2)) return false;
    const std::string_view after = Text(at + 3);
    size_t mark = 0;
    for (const std::string_view day_mark : {"\u65e5", "\u53f7", "\u865f", "\uc77c"}) {
      if (after.starts_with(day_mark)) mark = day_mark.size();
    }
    if (mark == 0) return false;
    if (!Take({year, NumberOf(Text(at)), NumberOf(Text(at + 2))}, at + 3)) return false;
    end_ = Peek(at + 3)->begin + static_cast<uint32_t>(mark);
    return true;
  }

  int32_t EraBefore() const {
    const std::string_view before = pieces_[at_ - 1].folded;
    if (before.ends_with("\u4ee4\u548c")) return 2018;
    if (before.ends_with("\u5e73\u6210")) return 1988;
    return 0;
  }

  // A day of the month: "3", "3rd", "1er".
  static int32_t DayNumber(const Piece* piece) {
    if (piece == nullptr) return -1;
    const std::string_view text = piece->folded;
    size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9')
      ++digits;
    if (digits == 0 || digits > 2) return -1;
    if (digits < text.size() && !IsOrdinalSuffix(text.substr(digits))) return -1;
    return NumberOf(text.substr(0, digits));
  }

  // A day of the month from piece `at` on, which goes behind it: digits, or "ninth",
  // "twenty-first". -1: none; `at` stays.
  int32_t DayAt(size_t& at) const {
    const int32_t number = DayNumber(Peek(at));
    size_t last = at;
    const int32_t tens = number > 0 ? 0 : TensWord(Text(at));
    if (tens > 0) last += Text(at + 1) == "-" ? 2 : 1;
    const int32_t word = number > 0 ? number : OrdinalDay(Text(last)).value_or(-1);
    if (word < 0 || (tens > 0 && word > 9)) return -1;
    at = last + 1;
    return tens + word;
  }

  // The year behind a date, perhaps after a comma or a word; adds the pieces it takes.
  int32_t YearBehind(size_t& at) const {
    size_t look = at;
    if (Text(look) == "," || IsOfWord(Text(look)) || Text(look) == ".") ++look;
    if (!IsNumber(look)) return 0;
    const std::string_view text = Text(look);
    if (text.size() != 4 && !(thai_ && text.size() == 2)) return 0;
    const int32_t year = YearOf(text, thai_);
    if (year > 0) at = look + 1;
    return year;
  }

  std::optional<int32_t> MonthAt(size_t ahead) const {
    const Piece* piece = Peek(ahead);
    if (piece == nullptr || piece->kind == LexKind::kMark) return std::nullopt;
    return MonthOf(piece->folded);
  }

  bool Written() {
    size_t at = 0;
    const int32_t day = DayAt(at);
    if (day > 0) {
      const bool in_words = DayNumber(Peek(0)) <= 0;
      if (Text(at) == "." || Text(at) == "\u00ba") ++at;
      const bool of = IsOfWord(Text(at));
      if (of) ++at;
      const auto month = MonthAt(at);
      if (!month) return false;
      // "Second, may I ask": with a word for the day such months need an "of".
      if (in_words && !of && (Text(at) == "may" || Text(at) == "march")) return false;
      ++at;
      const int32_t year = YearBehind(at);
      return Take({year, *month, day}, at);
    }
    const auto month = MonthAt(0);
    if (!month) return false;
    at = 1;
    if (Text(at) == ".") ++at;
    const bool the = Text(at) == "the";
    if (the) ++at;
    // "April first" is a day, "may first" need not be.
    if (!the && DayNumber(Peek(at)) <= 0 && (Text(0) == "may" || Text(0) == "march")) return false;
    const int32_t behind = DayAt(at);
    if (behind <= 0) return false;
    const int32_t year = YearBehind(at);
    return Take({year, *month, behind}, at);
  }

  bool Relative() {
    for (const RelativePhrase* phrase = RelativePhrases(); !phrase->words.empty(); ++phrase) {
      const size_t taken = MatchWords(phrase->words);
      if (taken > 0) return Take(PlusDays(today_, phrase->days), taken);
    }
    return Ago() || Weekday();
  }

  // Pieces that the words at the front of the text take; marks between them don't count.
  size_t MatchWords(std::string_view words) const {
    size_t at = 0;
    while (!words.empty()) {
      const size_t end = std::min(words.find(' '), words.size());
      if (at > 0 && (Text(at) == "'" || Text(at) == "-")) ++at;
      if (Text(at) != words.substr(0, end)) return 0;
      ++at;
      words.remove_prefix(std::min(end + 1, words.size()));
    }
    return at;
  }

  // "3 days ago", "vor drei Tagen", "il y a 3 jours".
  bool Ago() {
    size_t at = 0;
    bool before = false;
    const size_t french = std::max(MatchWords("il y a"), MatchWords("y a"));
    if (french > 0) {
      at = french;
      before = true;
    } else if (IsAgoBefore(Text(0)) && DaysOfUnit(Text(1)) == 0 && DaysOfUnit(Text(2)) > 0) {
      at = 1;
      before = true;
    }
    const auto number = SmallNumber(Text(at));
    const int32_t unit = DaysOfUnit(Text(at + 1));
    if (!number || unit == 0 || *number > 400) return false;
    if (!before && !IsAgoAfter(Text(at + 2))) return false;
    return Take(PlusDays(today_, -*number * unit), at + (before ? 2 : 3));
  }

  bool Weekday() {
    const auto first = WeekdayWord(Text(0));
    if (first) {  // "mardi dernier"; a bare weekday is too vague
      if (!IsLastWord(Text(1))) return false;
      return Take(Before(*first), 2);
    }
    if (!IsLastWord(Text(0))) return false;
    const auto second = WeekdayWord(Text(1));
    return second && Take(Before(*second), 2);
  }

  Day Before(int32_t weekday) const {
    const int32_t back = (WeekdayOf(today_) - weekday + 6) % 7 + 1;
    return PlusDays(today_, -back);
  }

  // Relative days inside a run, and "N days ago" where N is a number before it.
  void Dense(const Piece& piece) {
    if (Number3Ago(piece)) return;
    size_t at = 0;
    const std::string_view text = piece.folded;
    while (at < text.size() && found_.size() < kDateMentionsMax) {
      const auto relative = DenseRelativeAt(text.substr(at));
      if (!relative) {
        ++at;
        while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u)
          ++at;
        continue;
      }
      const Day day =
          relative->weekday >= 0 ? Before(relative->weekday) : PlusDays(today_, relative->days);
      const auto begin = piece.begin + static_cast<uint32_t>(at);
      found_.push_back({begin, begin + static_cast<uint32_t>(relative->bytes), day});
      at += relative->bytes;
    }
  }

  // "3" and a run that starts with "days ago": the same words as behind "three".
  bool Number3Ago(const Piece& piece) {
    if (at_ == 0 || pieces_[at_ - 1].kind != LexKind::kNumber) return false;
    const int32_t number = NumberOf(pieces_[at_ - 1].folded);
    const auto one = DenseRelativeAt("\u4e00" + piece.folded);
    if (!one || one->weekday >= 0 || one->days >= 0 || number < 0 || number > 400) return false;
    const auto bytes = static_cast<uint32_t>(one->bytes - 3);
    if (bytes == 0) return false;
    found_.push_back(
        {pieces_[at_ - 1].begin, piece.begin + bytes, PlusDays(today_, number * one->days)});
    return true;
  }

  std::string_view clean_;
  std::span<const Piece> pieces_;
  Day today_;
  bool thai_ = false;
  std::vector<DateMention> found_;
  size_t at_ = 0;
  size_t taken_ = 0;
  uint32_t end_ = 0;  // where the mention ends inside its last piece; 0: at that piece's end
  Day day_;
};

}  // namespace

Day DayOf(Moment moment) {
  const int64_t local = moment.unix_s + moment.zone_s;
  const int64_t days = local >= 0 ? local / kDayS : -((-local + kDayS - 1) / kDayS);
  return CivilFromDays(days);
}

Day PlusDays(Day day, int32_t days) {
  return CivilFromDays(DaysFromCivil(day) + days);
}

int32_t WeekdayOf(Day day) {
  TENUTO_CHECK(day.year > 0);
  return static_cast<int32_t>(((DaysFromCivil(day) + 3) % 7 + 7) % 7);
}

bool IsDay(Day day) {
  constexpr std::array<int32_t, 12> kDays = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (day.month < 1 || day.month > 12 || day.day < 1) return false;
  if (day.day > kDays[static_cast<size_t>(day.month - 1)]) return false;
  if (day.year == 0) return true;
  if (day.year < kYearMin || day.year > kYearMax) return false;
  return CivilFromDays(DaysFromCivil(day)) == day;  // 29 February
}

Day LatestYear(Day day, Day now) {
  if (day.year != 0) return day;
  for (int32_t year = now.year; year > now.year - 8; --year) {
    const Day full = {year, day.month, day.day};
    if (IsDay(full) && DaysFromCivil(full) <= DaysFromCivil(now)) return full;
  }
  return day;
}

std::vector<DateMention> FindDates(std::string_view clean, std::span<const Piece> pieces,
                                   Moment now) {
  return Finder(clean, pieces, now).Run();
}

std::string DayText(Day day) {
  std::array<char, 40> buffer{};
  const int length =
      day.year > 0 ? std::snprintf(buffer.data(), buffer.size(), "%04d-%02d-%02d", day.year,
                                   day.month, day.day)
                   : std::snprintf(buffer.data(), buffer.size(), "%02d-%02d", day.month, day.day);
  return {buffer.data(), static_cast<size_t>(std::max(length, 0))};
}

bool ParseMoment(std::string_view text, Moment& moment) {
  // 0123456789012345678
  // 2024-05-03T07:00:00
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() < kShape.size()) return false;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == 'd' ? !digit : text[i] != kShape[i]) return false;
  }
  const auto part = [&](size_t at, size_t count) { return NumberOf(text.substr(at, count)); };
  const Day day = {part(0, 4), part(5, 2), part(8, 2)};
  if (!IsDay(day) || part(11, 2) > 23 || part(14, 2) > 59 || part(17, 2) > 60) return false;
  std::string_view zone = text.substr(kShape.size());
  if (zone.starts_with(".")) {
    zone.remove_prefix(1);
    while (!zone.empty() && zone[0] >= '0' && zone[0] <= '9')
      zone.remove_prefix(1);
  }
  int32_t zone_s = 0;
  if (zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') && zone[3] == ':') {
    const int32_t hours = NumberOf(zone.substr(1, 2));
    const int32_t minutes = NumberOf(zone.substr(4, 2));
    if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59) return false;
    zone_s = (hours * 60 + minutes) * 60 * (zone[0] == '-' ? -1 : 1);
  } else if (zone != "Z" && !zone.empty()) {
    return false;
  }
  const int64_t of_day = (int64_t{part(11, 2)} * 60 + part(14, 2)) * 60 + part(17, 2);
  moment = {DaysFromCivil(day) * kDayS + of_day - zone_s, zone_s};
  return true;
}

}  // namespace tenuto
