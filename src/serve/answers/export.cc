#include "serve/answers/export.h"

#include <chrono>
#include <cstdio>

#include "recall/zone.h"
#include "serve/json/writer.h"
#include "session/items.h"

namespace tenuto {

std::string WallTimeText(int64_t unix_ms, int32_t zone_s) {
  using std::chrono::floor;
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(unix_ms) +
                                                              std::chrono::seconds(zone_s)};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  char text[64];
  std::snprintf(
      text, sizeof(text), "%04d-%02u-%02uT%02d:%02d:%02d.%03d", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text + OffsetText(zone_s);
}

Status AppendExport(std::string& lines, const TurnRow& turn) {
  auto items = StoredItemsFromJson(turn.items_json);
  if (!items) return std::move(items).error().With("turn " + turn.id.value);
  // Later turns may repeat the session's system message (never change it).
  size_t begin = 0;
  while (!turn.parent.empty() && begin < items->size() && (*items)[begin].message.role == "system")
    ++begin;
  for (size_t i = begin; i < items->size(); ++i) {
    const StoredItem& item = (*items)[i];
    const ChatMessage& message = item.message;
    const bool answer = i + 1 == items->size() && message.role == "assistant";
    JsonWriter json;
    json.BeginObject().Field("role", message.role).Field("content", message.content);
    if (!message.name.empty()) json.Field("name", message.name);
    if (!message.tool_calls.empty()) json.Key("tool_calls").Raw(message.tool_calls);
    if (!message.tool_call_id.empty()) json.Field("tool_call_id", message.tool_call_id);
    json.Field("time",
               WallTimeText(answer ? turn.completed_unix_ms : turn.created_unix_ms, item.zone_s));
    json.Field("id", item.client_id.empty() ? turn.id.value + "." + std::to_string(i - begin)
                                            : item.client_id);
    json.EndObject();
    lines += json.Take() + "\n";
  }
  return Ok();
}

}  // namespace tenuto
