// Which field of which endpoint does what: one table each, so that nothing is ignored silently. A
// field is honoured; or accepted where its value asks for nothing; or refused by name; or unknown.
// Pure.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tenuto {

// What a field that we don't do may hold and still be accepted.
enum class Inert : uint8_t {
  kNever,         // no value but null
  kFalse,         // false
  kTrue,          // true
  kZero,          // 0
  kOne,           // 1
  kZeroOrMinus,   // 0 or -1
  kMinusOne,      // -1
  kEmpty,         // "", [] or {}
  kAnyBool,       // means nothing without what it belongs to
  kAnyString,     // a mark for the operator's own books
  kStringMap,     // an object of strings: likewise
  kEmptyOrNone,   // [] or "none" or "auto": nothing to choose from
  kTextFormat,    // {"type": "text"}
  kAutoTier,      // "auto" or "default"
  kNone,          // "none"
  kMedium,        // "medium"
  kTextModality,  // ["text"]
};

struct FieldRule {
  std::string_view name;
  enum class Use : uint8_t { kHonoured, kUnlessInert } use = Use::kHonoured;
  Inert inert = Inert::kNever;
  std::string_view why = "";  // of a refusal, after "field 'x' is not supported yet"
};

// null is inert for every field. A number is inert by value: 1 and 1.0 are the same.
bool IsInert(const boost::json::value& value, Inert inert);

// The tables, for the parsers, for the docs and for the tests that walk them.
enum class Endpoint : uint8_t {
  kChat,
  kCompletions,
  kLlamaCompletion,
  kTokenize,
  kDetokenize,
  kSearch,
  kReplay,
  kTurnChange,
};
inline constexpr Endpoint kEndpoints[] = {
    Endpoint::kChat,     Endpoint::kCompletions, Endpoint::kLlamaCompletion,
    Endpoint::kTokenize, Endpoint::kDetokenize,  Endpoint::kSearch,
    Endpoint::kReplay,   Endpoint::kTurnChange,
};
std::span<const FieldRule> FieldRules(Endpoint endpoint);

// How many names a request's `ignored` keeps: what is sent is bounded, what comes back as well.
inline constexpr size_t kIgnoredFieldsMax = 32;

// kInvalid at the first field that is refused. Unknown names are added to `ignored`, sorted, cut to
// 64 bytes, at most kIgnoredFieldsMax of them; with `strict` the first is kInvalid instead.
Status CheckFields(const boost::json::object& object, Endpoint endpoint, bool strict,
                   std::vector<std::string>& ignored);
// The same for one unknown member of an inner object; `path` names it whole.
Status IgnoreField(std::string path, bool strict, std::vector<std::string>& ignored);

}  // namespace tenuto
