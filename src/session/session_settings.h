// What one session does otherwise than its server: a closed set of fields, kept in the log as JSON.
// A session may ask for less than the server gives, never for more. Pure.
#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tenuto {

struct SessionSettings;

enum class SettingId : uint8_t {
  kWindowTokens,
  kWindowHigh,  // percent
  kWindowLow,   // percent
  kWindowGridTokens,
  kWindowAnswerTokens,
  kRecallMode,  // a RecallMode
  kRecallTokens,
  kRecallShare,  // percent
  kTtl,          // seconds
  kTurnsMax,
  kBytesMax,
};
inline constexpr size_t kSettingsCount = 11;

// By SettingId. Absent: as the server says.
struct SessionOverrides {
  std::array<std::optional<int64_t>, kSettingsCount> values;
  std::string timezone;  // "": none of its own

  std::optional<int64_t>& operator[](SettingId id) { return values[static_cast<size_t>(id)]; }
  const std::optional<int64_t>& operator[](SettingId id) const {
    return values[static_cast<size_t>(id)];
  }
  bool operator==(const SessionOverrides&) const = default;
};

// A change of some: absent is unchanged, an empty one takes a setting back.
struct SettingsPatch {
  std::array<std::optional<std::optional<int64_t>>, kSettingsCount> changes;
  std::optional<std::string> timezone;  // "" takes it back
};

// {"window": {"tokens", "high", "low", "grid_tokens", "answer_tokens"}, "recall": {"mode",
// "tokens", "share"}, "ttl_s", "turns_max", "bytes_max", "timezone"}, any of them; null takes back
// a setting or a whole group. kInvalid, `At` the field as "window.tokens": an unknown name, a wrong
// type, no such zone, nothing to change.
Result<SettingsPatch> SettingsPatchFrom(const boost::json::object& object);

// kInvalid, `At` the field with what is allowed: a value out of range, low water not below high.
Result<SessionOverrides> PatchSettings(SessionOverrides before, const SettingsPatch& patch,
                                       const SessionSettings& server);

// What holds for a session. Where the server gives less than when the session's were set, that is
// the most.
SessionSettings EffectiveSettings(const SessionSettings& server, const SessionOverrides& session);

// In the form above, as the log keeps it and clients see it.
std::string OverridesToJson(const SessionOverrides& session);
// Names that this version does not know are those of a newer one, and left out. kCorrupt.
Result<SessionOverrides> OverridesFromJson(const std::string& text);

// "window.tokens" and all others.
std::vector<std::string> SettingNames();

}  // namespace tenuto
