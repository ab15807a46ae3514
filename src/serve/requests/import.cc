#include "serve/requests/import.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <chrono>
#include <initializer_list>
#include <string>

#include "base/limits.h"
#include "serve/json/parse.h"
#include "session/tool_text.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr size_t kNameBytesMax = 256;
constexpr size_t kToolCallsMax = 128;           // of one item
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

// Seconds; nullopt: none is given.
std::optional<int32_t> Offset(Reader& reader) {
  if (reader.Take('Z') || reader.rest.empty()) return std::nullopt;
  const bool behind = reader.Take('-');
  if (!behind) reader.Expect('+');
  const int hours = reader.Digits(2);
  reader.Take(':');
  const int minutes = reader.Digits(2);
  if (hours > 23 || minutes > 59) reader.good = false;
  const int32_t offset = (hours * 60 + minutes) * 60;
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

Status OnlyKnown(const json::object& object, std::initializer_list<std::string_view> names,
                 size_t index, const std::string& path) {
  for (const auto& member : object) {
    const std::string_view name = member.key();
    if (std::ranges::find(names, name) == names.end())
      return BadItem(index, path + std::string(name.substr(0, 64)), "is a field nobody knows");
  }
  return Ok();
}

Result<ToolCall> ReadToolCall(const json::value& value, size_t index, const std::string& path) {
  const json::object* object = value.if_object();
  if (object == nullptr) return BadItem(index, path, "must be an object");
  TENUTO_TRY(OnlyKnown(*object, {"id", "type", "function"}, index, path + "."));
  const auto text = [&](const json::object& of, std::string_view name, const std::string& at,
                        size_t bytes_max) -> Result<std::string> {
    const json::value* member = of.if_contains(name);
    if (member != nullptr && member->is_string() && member->get_string().size() <= bytes_max)
      return std::string(member->get_string());
    return BadItem(index, at + std::string(name),
                   "must be a string of at most " + std::to_string(bytes_max) + " bytes");
  };
  TENUTO_ASSIGN(const std::string type, text(*object, "type", path + ".", kNameBytesMax));
  if (type != "function") return BadItem(index, path + ".type", "must be \"function\"");
  const json::value* function = object->if_contains("function");
  if (function == nullptr || !function->is_object())
    return BadItem(index, path + ".function", "must be an object");
  const json::object& called = function->get_object();
  TENUTO_TRY(OnlyKnown(called, {"name", "arguments"}, index, path + ".function."));
  ToolCall call;
  TENUTO_ASSIGN(call.id, text(*object, "id", path + ".", kNameBytesMax));
  TENUTO_ASSIGN(call.name, text(called, "name", path + ".function.", kNameBytesMax));
  TENUTO_ASSIGN(call.arguments,
                text(called, "arguments", path + ".function.", kRequestBodyBytesMax));
  if (call.id.empty()) return BadItem(index, path + ".id", "must not be empty");
  return call;
}

// What an assistant calls, and what the result of a tool belongs to. Null and [] are no calls.
Status ReadTools(const json::object& object, size_t index, ChatMessage& message) {
  const json::value* value = object.if_contains("tool_calls");
  if (value != nullptr && !value->is_null()) {
    if (message.role != "assistant")
      return BadItem(index, "tool_calls", "is for items of an assistant");
    const json::array* array = value->if_array();
    if (array == nullptr || array->size() > kToolCallsMax)
      return BadItem(index, "tool_calls",
                     "must be an array of at most " + std::to_string(kToolCallsMax) + " calls");
    std::vector<ToolCall> calls;
    for (size_t i = 0; i < array->size(); ++i) {
      TENUTO_ASSIGN(ToolCall call,
                    ReadToolCall((*array)[i], index, "tool_calls[" + std::to_string(i) + "]"));
      calls.push_back(std::move(call));
    }
    if (!calls.empty()) message.tool_calls = ToolCallsToJson(calls);
  }
  const bool result = message.role == "tool";
  if (!result && object.contains("tool_call_id"))
    return BadItem(index, "tool_call_id", "is for items of a tool");
  TENUTO_ASSIGN(message.tool_call_id,
                ReadText(object, "tool_call_id", index, kNameBytesMax, result));
  return Ok();
}

Status ReadTime(const json::object& object, size_t index, ImportItem& item) {
  const json::value* value = object.if_contains("time");
  if (value == nullptr || value->is_null()) return Ok();
  if (value->is_string()) {
    item.unix_ms = ParseTime(value->get_string(), &item.zone_s).value_or(0);
    if (item.unix_ms > 0) return Ok();
  } else if (value->is_number()) {
    const double seconds = value->to_number<double>();
    item.unix_ms = static_cast<int64_t>(seconds > 0 && seconds <= kSecondsMax ? seconds * 1000 : 0);
    if (seconds > 0 && seconds <= kSecondsMax) return Ok();
  }
  return BadItem(index, "time", "must be like 2024-05-03T12:30:00Z, or seconds since 1970");
}

Result<ImportItem> ReadItem(std::string_view line, size_t index) {
  auto object = ParseJsonObject(line, "its line");
  if (!object.ok()) return BadItem(index, "", object.error().message());
  TENUTO_TRY(OnlyKnown(
      *object, {"role", "content", "time", "name", "id", "tool_calls", "tool_call_id"}, index, ""));
  ImportItem item;
  TENUTO_ASSIGN(item.message.role, ReadText(*object, "role", index, kNameBytesMax, true));
  if (item.message.role == "developer") item.message.role = "system";
  TENUTO_TRY(ReadTools(*object, index, item.message));
  // Who only calls tools says nothing.
  const json::value* content = object->if_contains("content");
  const bool silent =
      !item.message.tool_calls.empty() && (content == nullptr || content->is_null());
  if (!silent) {
    TENUTO_ASSIGN(item.message.content, ReadText(*object, "content", index, line.size(), true));
  }
  TENUTO_ASSIGN(item.message.name, ReadText(*object, "name", index, kNameBytesMax, false));
  TENUTO_ASSIGN(item.client_id, ReadText(*object, "id", index, kNameBytesMax, false));
  TENUTO_TRY(ReadTime(*object, index, item));
  return item;
}

}  // namespace

std::optional<int64_t> ParseTime(std::string_view text, std::optional<int32_t>* zone_s) {
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
  const std::optional<int32_t> offset = Offset(reader);
  if (!reader.good || !reader.rest.empty()) return std::nullopt;
  time -= offset.value_or(0) * int64_t{1000};
  if (zone_s != nullptr) *zone_s = offset;
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
