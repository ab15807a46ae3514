// The identifiers that every layer speaks, and the one parser of a session's name. Plain values and
// pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tenuto {

using TokenId = int32_t;   // index into the model's vocabulary
using TokenPos = int32_t;  // position in a window, from 0

// Half-open range of positions [begin, end).
struct TokenRange {
  TokenPos begin = 0;
  TokenPos end = 0;
  TokenPos size() const { return end - begin; }
  auto operator<=>(const TokenRange&) const = default;
};

// A sequence of the executor: one set of KV cells. Chosen by the session layer, 0 <= value <
// sequences_max.
struct SeqId {
  int32_t value = -1;
  auto operator<=>(const SeqId&) const = default;
};

// Who owns a session. All four parts are always set.
struct SessionKey {
  std::string tenant = "default";
  std::string user = "me";
  std::string agent = "default";
  std::string session;

  auto operator<=>(const SessionKey&) const = default;
  // "tenant::user::agent::session": unique, and what digests of the owner are made of.
  std::string Full() const;
  // The shortest form that parses back to this key.
  std::string Short() const;
};

inline constexpr size_t kSessionPartBytesMax = 128;

// "x" (me::x), "user::x" or "tenant::user::agent::x"; parts of [A-Za-z0-9_.-], 1 to 128 bytes, not
// starting with '.', without "..". Anything else is kInvalid with a message that names the rule.
Result<SessionKey> ParseSessionKey(std::string_view text);

// A turn's id: 26 characters of Crockford base32, time first, so that ids sort by creation. Not a
// secret.
struct TurnId {
  std::string value;  // empty: no turn (the root of a session)
  bool empty() const { return value.empty(); }
  auto operator<=>(const TurnId&) const = default;
};

// `unix_ms` fills the first 48 bits, `entropy` (at least 10 bytes) the other 80.
TurnId MakeTurnId(int64_t unix_ms, std::string_view entropy);

}  // namespace tenuto

template <>
struct std::hash<tenuto::SeqId> {
  size_t operator()(tenuto::SeqId id) const noexcept { return static_cast<size_t>(id.value); }
};
