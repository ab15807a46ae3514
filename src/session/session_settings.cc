#include "session/session_settings.h"

#include <algorithm>
#include <boost/json.hpp>
#include <limits>
#include <string_view>
#include <utility>

#include "recall/zone.h"
#include "session/context.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr int64_t kWindowTokensMin = 64;  // smaller ones hold no turn
constexpr int64_t kShareOfAnswer = 4;     // see SessionSettings::Limits
constexpr int64_t kTtlMax = int64_t{100} * 366 * 24 * 3600;
constexpr int64_t kCountMax = (int64_t{1} << 53) - 1;  // what every JSON reader holds
constexpr std::string_view kTimezone = "timezone";     // the one setting that is no number
constexpr std::array<std::string_view, 3> kModeNames = {"auto", "off", "force"};
static_assert(static_cast<int>(RecallMode::kOff) == 1 &&
              static_cast<int>(RecallMode::kForced) == 2);

struct Range {
  int64_t least, most;
};

int64_t OrMost(uint64_t limit, int64_t most) {
  return limit == 0 ? most : static_cast<int64_t>(std::min<uint64_t>(limit, kCountMax));
}

struct Field {
  SettingId id;
  std::string_view group, name;
  // What is allowed for a session with a window of `window` tokens.
  Range (*range)(const SessionSettings& server, int64_t window);
};

using Server = SessionSettings;

// Those of a group stand together.
constexpr std::array<Field, kSettingsCount> kFields = {{
    {SettingId::kWindowTokens, "window", "tokens",
     [](const Server& server, int64_t) {
       return Range{std::min<int64_t>(kWindowTokensMin, server.window_tokens),
                    server.window_tokens};
     }},
    {SettingId::kWindowHigh, "window", "high",
     [](const Server&, int64_t) {
       return Range{20, 100};
     }},
    {SettingId::kWindowLow, "window", "low",
     [](const Server&, int64_t) {
       return Range{10, 90};
     }},
    {SettingId::kWindowGridTokens, "window", "grid_tokens",
     [](const Server&, int64_t window) {
       return Range{1, window};
     }},
    {SettingId::kWindowAnswerTokens, "window", "answer_tokens",
     [](const Server&, int64_t window) {
       return Range{1, window / kShareOfAnswer};
     }},
    {SettingId::kRecallMode, "recall", "mode",
     [](const Server&, int64_t) {
       return Range{0, kModeNames.size() - 1};
     }},
    {SettingId::kRecallTokens, "recall", "tokens",
     [](const Server&, int64_t window) {
       return Range{1, window};
     }},
    {SettingId::kRecallShare, "recall", "share",
     [](const Server&, int64_t) {
       return Range{1, 50};
     }},
    {SettingId::kTtl, "", "ttl_s",
     [](const Server& server, int64_t) {
       return Range{1, OrMost(server.ttl_s, kTtlMax)};
     }},
    {SettingId::kTurnsMax, "", "turns_max",
     [](const Server& server, int64_t) {
       return Range{1, OrMost(server.quotas.session_turns_max, kCountMax)};
     }},
    {SettingId::kBytesMax, "", "bytes_max",
     [](const Server& server, int64_t) {
       return Range{1, OrMost(server.quotas.session_bytes_max, kCountMax)};
     }},
}};

std::string PathOf(const Field& field) {
  return field.group.empty() ? std::string(field.name)
                             : std::string(field.group) + "." + std::string(field.name);
}

Error Invalid(std::string path, const std::string& message) {
  std::string text = "'" + path + "' " + message;
  return Error(Code::kInvalid, std::move(text)).At(std::move(path));
}

const Field* Find(std::string_view group, std::string_view name) {
  const auto found = std::ranges::find_if(
      kFields, [&](const Field& field) { return field.group == group && field.name == name; });
  return found == kFields.end() ? nullptr : &*found;
}

bool IsGroup(std::string_view name) {
  return std::ranges::find(kFields, name, &Field::group) != kFields.end() && !name.empty();
}

Result<int64_t> NumberFrom(const Field& field, const json::value& value) {
  if (field.id == SettingId::kRecallMode) {
    const json::string* text = value.if_string();
    const auto found =
        text == nullptr ? kModeNames.end() : std::ranges::find(kModeNames, std::string_view(*text));
    if (found == kModeNames.end())
      return Invalid(PathOf(field), "must be \"auto\", \"off\" or \"force\"");
    return found - kModeNames.begin();
  }
  boost::system::error_code error;
  // Also of a double with a whole value.
  const auto number = value.is_number() ? value.to_number<int64_t>(error) : 0;
  if (!value.is_number() || error) return Invalid(PathOf(field), "must be a whole number");
  return number;
}

std::string KnownNames() {
  std::string names;
  for (const Field& field : kFields)
    names += PathOf(field) + ", ";
  return names + std::string(kTimezone);
}

Status ReadField(std::string_view group, std::string_view name, const json::value& value,
                 SettingsPatch& patch) {
  const Field* field = Find(group, name);
  if (field == nullptr) {
    const std::string path = (group.empty() ? "" : std::string(group) + ".") + std::string(name);
    return Invalid(path.substr(0, 64), "is no setting of a session; there are " + KnownNames());
  }
  auto& change = patch.changes[static_cast<size_t>(field->id)].emplace();
  if (value.is_null()) return Ok();
  TENUTO_ASSIGN(change, NumberFrom(*field, value));
  return Ok();
}

Result<std::string> ReadTimezone(const json::value& value) {
  if (value.is_null()) return std::string();
  const json::string* zone = value.if_string();
  if (zone == nullptr || !ZoneOffset(*zone, 0))
    return Invalid(
        std::string(kTimezone),
        "must be a time zone such as \"Europe/Berlin\", or an offset such as \"+09:00\"");
  return std::string(*zone);
}

Status ReadGroup(std::string_view group, const json::value& value, SettingsPatch& patch) {
  if (value.is_null()) {
    for (const Field& field : kFields)
      if (field.group == group) patch.changes[static_cast<size_t>(field.id)].emplace();
    return Ok();
  }
  const json::object* members = value.if_object();
  if (members == nullptr) {
    const std::string example = group == "recall" ? R"({"mode": "off"})" : R"({"tokens": 2048})";
    return Invalid(std::string(group), "must be an object such as " + example + ", or null");
  }
  for (const auto& member : *members)
    TENUTO_TRY(ReadField(group, member.key(), member.value(), patch));
  return Ok();
}

std::string Allowed(const Field& field, Range range, const SessionSettings& server) {
  std::string text =
      "must be from " + std::to_string(range.least) + " to " + std::to_string(range.most);
  const bool servers = (field.id == SettingId::kWindowTokens) ||
                       (field.id == SettingId::kTtl && server.ttl_s > 0) ||
                       (field.id == SettingId::kTurnsMax && server.quotas.session_turns_max > 0) ||
                       (field.id == SettingId::kBytesMax && server.quotas.session_bytes_max > 0);
  if (servers) return text + ", the server's own limit";
  return range.most == 100 || field.group.empty() ? text : text + " in this session's window";
}

int32_t Int32Or(const std::optional<int64_t>& value, int32_t otherwise) {
  return value
             ? static_cast<int32_t>(std::min<int64_t>(*value, std::numeric_limits<int32_t>::max()))
             : otherwise;
}

double ShareOr(const std::optional<int64_t>& percent, double otherwise) {
  return percent ? static_cast<double>(*percent) / 100.0 : otherwise;
}

// 0 is no limit.
uint64_t Tighter(uint64_t server, const std::optional<int64_t>& session) {
  if (!session) return server;
  const auto own = static_cast<uint64_t>(*session);
  return server == 0 ? own : std::min(server, own);
}

Error Corrupt() {
  return {Code::kCorrupt, "the stored settings of the session are not what this version writes"};
}

}  // namespace

Result<SettingsPatch> SettingsPatchFrom(const json::object& object) {
  SettingsPatch patch;
  for (const auto& member : object) {
    const std::string_view name = member.key();
    if (name == kTimezone) {
      TENUTO_ASSIGN(patch.timezone, ReadTimezone(member.value()));
    } else if (IsGroup(name)) {
      TENUTO_TRY(ReadGroup(name, member.value(), patch));
    } else {
      TENUTO_TRY(ReadField("", name, member.value(), patch));
    }
  }
  const bool changes =
      std::ranges::any_of(patch.changes, [](const auto& change) { return change.has_value(); });
  if (!changes && !patch.timezone)
    return Error(Code::kInvalid, "nothing to change; there are " + KnownNames());
  return patch;
}

Result<SessionOverrides> PatchSettings(SessionOverrides before, const SettingsPatch& patch,
                                       const SessionSettings& server) {
  SessionOverrides after = std::move(before);
  for (size_t i = 0; i < kSettingsCount; ++i)
    if (patch.changes[i]) after.values[i] = *patch.changes[i];
  if (patch.timezone) after.timezone = *patch.timezone;
  const SessionSettings holds = EffectiveSettings(server, after);
  for (const Field& field : kFields) {
    const auto& value = after[field.id];
    const Range range = field.range(server, holds.window_tokens);
    // What was set before, when the server allowed it, stands in nobody's way.
    const bool windows_own = !field.group.empty() && patch.changes[0].has_value();
    if (!value || (!patch.changes[static_cast<size_t>(field.id)] && !windows_own)) continue;
    if (*value < range.least || *value > range.most)
      return Invalid(PathOf(field), Allowed(field, range, server));
  }
  if (holds.window_low >= holds.window_high) {
    const bool own_low = after[SettingId::kWindowLow].has_value();
    const auto percent = [](double share) {
      return std::to_string(static_cast<int>(share * 100 + .5));
    };
    if (own_low || after[SettingId::kWindowHigh])
      return own_low ? Invalid("window.low",
                               "must be below window.high, which is " + percent(holds.window_high))
                     : Invalid("window.high",
                               "must be above window.low, which is " + percent(holds.window_low));
  }
  return after;
}

SessionSettings EffectiveSettings(const SessionSettings& server, const SessionOverrides& session) {
  SessionSettings holds = server;
  holds.window_tokens = std::min(server.window_tokens,
                                 Int32Or(session[SettingId::kWindowTokens], server.window_tokens));
  holds.window_high = ShareOr(session[SettingId::kWindowHigh], server.window_high);
  holds.window_low = ShareOr(session[SettingId::kWindowLow], server.window_low);
  holds.window_grid_tokens =
      Int32Or(session[SettingId::kWindowGridTokens], server.window_grid_tokens);
  holds.window_answer_tokens =
      Int32Or(session[SettingId::kWindowAnswerTokens], server.window_answer_tokens);
  if (const auto mode = session[SettingId::kRecallMode])
    holds.recall.mode = static_cast<RecallMode>(*mode);
  holds.recall.tokens_max = Int32Or(session[SettingId::kRecallTokens], server.recall.tokens_max);
  holds.recall.share_max = ShareOr(session[SettingId::kRecallShare], server.recall.share_max);
  if (!session.timezone.empty()) holds.timezone = session.timezone;
  holds.ttl_s = Tighter(server.ttl_s, session[SettingId::kTtl]);
  holds.quotas.session_turns_max =
      Tighter(server.quotas.session_turns_max, session[SettingId::kTurnsMax]);
  holds.quotas.session_bytes_max =
      Tighter(server.quotas.session_bytes_max, session[SettingId::kBytesMax]);
  return holds;
}

std::string OverridesToJson(const SessionOverrides& session) {
  json::object object;
  for (const Field& field : kFields) {
    const auto& number = session[field.id];
    if (!number) continue;
    json::value value = *number;
    if (field.id == SettingId::kRecallMode) value = kModeNames[static_cast<size_t>(*number)];
    if (field.group.empty()) {
      object[field.name] = std::move(value);
      continue;
    }
    json::value& group = object[field.group];
    if (!group.is_object()) group.emplace_object();
    group.get_object()[field.name] = std::move(value);
  }
  if (!session.timezone.empty()) object[kTimezone] = session.timezone;
  return json::serialize(object);
}

Result<SessionOverrides> OverridesFromJson(const std::string& text) {
  SessionOverrides session;
  boost::system::error_code error;
  const json::value stored = json::parse(text, error);
  if (error || !stored.is_object()) return Corrupt();
  for (const Field& field : kFields) {
    const json::object* object = &stored.get_object();
    if (!field.group.empty()) {
      const json::value* group = object->if_contains(field.group);
      if (group == nullptr) continue;
      object = group->if_object();
      if (object == nullptr) return Corrupt();
    }
    const json::value* value = object->if_contains(field.name);
    if (value == nullptr) continue;
    const auto number = NumberFrom(field, *value);
    if (!number.ok() || *number < 0) return Corrupt();
    session[field.id] = *number;
  }
  if (const json::value* zone = stored.get_object().if_contains(kTimezone)) {
    if (!zone->is_string()) return Corrupt();
    session.timezone = zone->get_string();
  }
  return session;
}

std::vector<std::string> SettingNames() {
  std::vector<std::string> names;
  for (const Field& field : kFields)
    names.push_back(PathOf(field));
  names.emplace_back(kTimezone);
  return names;
}

}  // namespace tenuto
