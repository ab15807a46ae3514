#include "serve/requests/import.h"

#include <boost/json/object.hpp>
#include <charconv>
#include <chrono>
#include <string>

#include "serve/json/parse.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr size_t kNameBytesMax = 256;
constexpr double kSecondsMax = 253402300799.0;  // the end of the year 9999

// Reads from the front of a text; `good` falls with the first thing that is not there.
struct Reader {
  std::string_view rest;
  bool good = true;

  int Digits(size_t count) {
    int value = 0;
    if (rest.size() < count) good = false;
    for (size_t i = 0; good && i < count; ++i) {
      if (rest[i] < '0' || rest[i] > '9') good = false;
      value = value * 10 + (rest[i] - '0');
    }
    if (good) rest.remove_prefix(count);
    return value;
  }
  bool Take(char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  }
  void Expect(char c) { good = Take(c) && good; }
};

int64_t TimeOfDayMs(Reader& reader) {
  const int hour = reader.Digits(2);
  reader.Expect(':');
  const int minute = reader.Digits(2);
  int second = 0, milliseconds = 0;
  if (reader.Take(':')) second = reader.Digits(2);
  if (reader.Take('.')) {
    if (reader.rest.empty() || reader.rest[0] < '0' || reader.rest[0] > '9') reader.good = false;
    for (int unit = 100; !reader.rest.empty() && reader.rest[0] >= '0' && reader.rest[0] <= '9';
         unit /= 10)
      milliseconds += unit * reader.Digits(1);
  }
  if (hour > 23 || minute > 59 || second > 60) reader.good = false;
  return ((hour * 60 + minute) * 60 + second) * int64_t{1000} + milliseconds;
}

int64_t OffsetMs(Reader& reader) {
  if (reader.Take('Z') || reader.rest.empty()) return 0;
  const bool behind = reader.Take('-');
  if (!behind) reader.Expect('+');
  const int hours = reader.Digits(2);
  reader.Take(':');
  const int minutes = reader.Digits(2);
  if (hours > 23 || minutes > 59) reader.good = false;
  const int64_t offset = (hours * 60 + minutes) * int64_t{60'000};
  return behind ? -offset : offset;
}

Error BadItem(size_t index, std::string_view field, const std::string& what) {
  const std::string at = "items[" + std::to_string(index) + "]";
  const std::string which = "item " + std::to_string(index + 1);
  if (field.empty()) return Error(Code::kInvalid, which + ": " + what).At(at);
  return Error(Code::kInvalid, which + ": '" + std::string(field) + "' " + what)
      .At(at + "." + std::string(field));
}

Result<std::string> ReadText(const json::object& object, std::string_view name, size_t index,
                             size_t bytes_max, bool needed) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr && !needed) return std::string();
  if (value == nullptr || !value->is_string()) return BadItem(index, name, "must be a string");
  if (value->get_string().size() > bytes_max)
    return BadItem(index, name, "must have at most " + std::to_string(bytes_max) + " bytes");
  return std::string(value->get_string());
}

Result<int64_t> ReadTime(const json::object& object, size_t index) {
  const json::value* value = object.if_contains("time");
  if (value == nullptr || value->is_null()) return int64_t{0};
  if (value->is_string()) {
    const auto time = ParseTime(value->get_string());
    if (time && *time > 0) return *time;
  } else if (value->is_number()) {
    const double seconds = value->to_number<double>();
    if (seconds > 0 && seconds <= kSecondsMax) return static_cast<int64_t>(seconds * 1000);
  }
  return BadItem(index, "time", "must be like 2024-05-03T12:30:00Z, or seconds since 1970");
}

Result<ImportItem> ReadItem(std::string_view line, size_t index) {
  auto object = ParseJsonObject(line);
  if (!object.ok()) return BadItem(index, "", "is not JSON: " + object.error().message());
  for (const auto& member : *object) {
    const std::string_view name = member.key();
    if (name != "role" && name != "content" && name != "time" && name != "name" && name != "id")
      return BadItem(index, name.substr(0, 64), "is a field nobody knows");
  }
  ImportItem item;
  TENUTO_ASSIGN(item.message.role, ReadText(*object, "role", index, kNameBytesMax, true));
  if (item.message.role == "developer") item.message.role = "system";
  TENUTO_ASSIGN(item.message.content, ReadText(*object, "content", index, line.size(), true));
  TENUTO_ASSIGN(item.message.name, ReadText(*object, "name", index, kNameBytesMax, false));
  TENUTO_ASSIGN(item.client_id, ReadText(*object, "id", index, kNameBytesMax, false));
  TENUTO_ASSIGN(item.unix_ms, ReadTime(*object, index));
  return item;
}

}  // namespace

std::optional<int64_t> ParseTime(std::string_view text) {
  Reader reader{text};
  const int year = reader.Digits(4);
  reader.Expect('-');
  const auto month = static_cast<unsigned>(reader.Digits(2));
  reader.Expect('-');
  const auto day = static_cast<unsigned>(reader.Digits(2));
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!reader.good || !date.ok()) return std::nullopt;
  using std::chrono::milliseconds;
  int64_t time = milliseconds(std::chrono::sys_days(date).time_since_epoch()).count();
  if (reader.rest.empty()) return time;
  if (!reader.Take('T')) reader.Expect(' ');
  time += TimeOfDayMs(reader);
  time -= OffsetMs(reader);
  if (!reader.good || !reader.rest.empty()) return std::nullopt;
  return time;
}

Result<std::vector<ImportItem>> ParseImportBody(std::string_view body) {
  std::vector<ImportItem> items;
  while (!body.empty()) {
    const size_t end = std::min(body.find('\n'), body.size());
    const std::string_view line = body.substr(0, end);
    body.remove_prefix(std::min(end + 1, body.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (items.size() == kImportItemsMax)
      return BadItem(
          items.size(), "",
          "one too many: a request takes at most " + std::to_string(kImportItemsMax) + " items");
    TENUTO_ASSIGN(ImportItem item, ReadItem(line, items.size()));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace tenuto
