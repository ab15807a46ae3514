#include "serve/json/parse.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/memory_resource.hpp>
#include <boost/json/value_stack.hpp>
#include <cmath>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/utf8.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr size_t kShownBytesMax = 64;  // of a name in an error
constexpr size_t kMembersMax = 65'536;
constexpr size_t kMemoryBytesMax = 192 * kMiB;

// Memory of one document, with an end. Shared by its values, so it lives as long as the last of
// them.
class CountingResource final : public json::memory_resource {
 public:
  explicit CountingResource(size_t limit) : limit_(limit) {}

 private:
  // The library does not give memory back with the alignment it asked for, and asks for none beyond
  // the default.
  void* do_allocate(size_t bytes, size_t) override {
    if (bytes > limit_ - used_) throw std::bad_alloc();
    void* memory = ::operator new(bytes);
    used_ += bytes;
    return memory;
  }
  void do_deallocate(void* memory, size_t bytes, size_t) override {
    used_ -= bytes;
    ::operator delete(memory);  // clang before 19 has the sized one only on demand
  }
  bool do_is_equal(const json::memory_resource& other) const noexcept override {
    return this == &other;
  }

  const size_t limit_;
  size_t used_ = 0;
};

// Builds the value while it checks what the library does not. A handler stops the parser by `false`
// and an error code; `fault` says why in words.
class StrictHandler {
 public:
  static constexpr size_t max_object_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_array_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_key_size = std::numeric_limits<size_t>::max();
  static constexpr size_t max_string_size = std::numeric_limits<size_t>::max();

  StrictHandler(const JsonLimits& limits, const json::storage_ptr& storage)
      : members_max_(limits.members_max), stack_(storage) {
    stack_.reset(storage);
  }

  json::value Release() { return stack_.release(); }
  const std::string& fault() const { return fault_; }
  // Where the parser is: "messages[0].content"; "" at the top. Of at most so many levels.
  std::string Path(size_t levels = SIZE_MAX) const {
    std::string path;
    for (const Level& level : std::span(open_).first(std::min(levels, open_.size()))) {
      if (level.is_array) {
        path += "[" + std::to_string(level.index) + "]";
      } else if (!level.name.empty()) {
        path += (path.empty() ? "" : ".") + level.name.substr(0, kShownBytesMax);
      }
    }
    return path;
  }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    open_.emplace_back();
    return true;
  }
  bool on_object_end(size_t n, json::error_code&) {
    open_.pop_back();
    stack_.push_object(n);
    return EndValue();
  }
  bool on_array_begin(json::error_code&) {
    open_.emplace_back().is_array = true;
    return true;
  }
  bool on_array_end(size_t n, json::error_code&) {
    open_.pop_back();
    stack_.push_array(n);
    return EndValue();
  }
  bool on_key_part(json::string_view part, size_t, json::error_code&) {
    key_.append(part.data(), part.size());
    stack_.push_chars(part);
    return true;
  }
  bool on_key(json::string_view part, size_t, json::error_code& ec) {
    key_.append(part.data(), part.size());
    if (++members_ > members_max_) return Stop(ec, "too many names in its objects");
    Level& level = open_.back();
    level.name = std::exchange(key_, {});
    if (!level.names.insert(level.name).second) {
      return Stop(ec, "the name '" + level.name.substr(0, kShownBytesMax) +
                          "' appears twice in one object");
    }
    stack_.push_key(part);
    return true;
  }
  bool on_string_part(json::string_view part, size_t, json::error_code&) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(json::string_view part, size_t, json::error_code&) {
    stack_.push_string(part);
    return EndValue();
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(int64_t value, json::string_view, json::error_code&) {
    stack_.push_int64(value);
    return EndValue();
  }
  bool on_uint64(uint64_t value, json::string_view, json::error_code&) {
    stack_.push_uint64(value);
    return EndValue();
  }
  bool on_double(double value, json::string_view, json::error_code& ec) {
    if (!std::isfinite(value)) return Stop(ec, "a number is too large");
    stack_.push_double(value);
    return EndValue();
  }
  bool on_bool(bool value, json::error_code&) {
    stack_.push_bool(value);
    return EndValue();
  }
  bool on_null(json::error_code&) {
    stack_.push_null();
    return EndValue();
  }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  // An object or array that is open.
  struct Level {
    bool is_array = false;
    size_t index = 0;                       // of the value at hand, in an array
    std::string name;                       // of the value at hand, in an object; "" between them
    std::unordered_set<std::string> names;  // seen so far
  };

  bool EndValue() {
    if (open_.empty()) return true;
    if (open_.back().is_array) {
      ++open_.back().index;
    } else {
      open_.back().name.clear();  // else it would be taken for the place of a bad name after it
    }
    return true;
  }
  bool Stop(json::error_code& ec, std::string why) {
    fault_ = std::move(why);
    ec = json::error::exception;
    return false;
  }

  const size_t members_max_;
  json::value_stack stack_;
  size_t members_ = 0;
  std::string key_;
  std::vector<Level> open_;
  std::string fault_;
};

std::string WhatIsWrong(const json::error_code& ec) {
  if (ec == json::error::too_deep) return "it is nested too deeply";
  if (ec == json::error::incomplete) return "it ends too early";
  if (ec == json::error::extra_data) return "something follows the value";
  // The library's words are short and name no input: "syntax error", "illegal control character".
  return ec.message();
}

// Offset of the first byte that is no UTF-8.
size_t FirstBadUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = Utf8Length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

// Whether text.substr(at) begins with the escape of a surrogate's first half.
bool IsHighSurrogateAt(std::string_view text, size_t at) {
  const auto one_of = [](char c, std::string_view set) { return set.find(c) != set.npos; };
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  if (!text.substr(at).starts_with("\\u") || !one_of(text[at + 2], "dD") ||
      !one_of(text[at + 3], "89abAB") || !one_of(text[at + 4], kHex) || !one_of(text[at + 5], kHex))
    return false;
  // A backslash that is itself escaped begins nothing.
  size_t begin = at;
  while (begin > 0 && text[begin - 1] == '\\')
    --begin;
  return (at - begin) % 2 == 0;
}

// The library calls it a syntax error when the half before `used`, or before a backslash there, is
// not followed by the other.
bool EndsInHalfSurrogate(std::string_view text, size_t used) {
  constexpr size_t kEscapeBytes = 6;
  if (used >= kEscapeBytes && IsHighSurrogateAt(text, used - kEscapeBytes)) return true;
  return used > kEscapeBytes && text[used - 1] == '\\' &&
         IsHighSurrogateAt(text, used - 1 - kEscapeBytes);
}

// What stopped the parser after `used` bytes.
Error ErrorOf(const StrictHandler& handler, const json::error_code& ec, std::string_view text,
              size_t used, std::string_view what) {
  const auto invalid = [what](const std::string& why, size_t byte) {
    return Error(Code::kInvalid, std::string(what) + " is no valid JSON: " + why + " (byte " +
                                     std::to_string(byte) + ")");
  };
  if (!handler.fault().empty()) return invalid(handler.fault(), used).At(handler.Path());
  // The whole path would be as deep as it may be.
  if (ec == json::error::too_deep) return invalid(WhatIsWrong(ec), used).At(handler.Path(1));
  if (ec == json::error::illegal_leading_surrogate ||
      ec == json::error::illegal_trailing_surrogate || ec == json::error::expected_utf16_escape) {
    return invalid(WhatIsWrong(ec), used).At(handler.Path());
  }
  if (ec == json::error::syntax && EndsInHalfSurrogate(text, used)) {
    return invalid("a surrogate lacks its other half", used).At(handler.Path());
  }
  // The library calls it a syntax error, at one of the bytes of what is no character.
  constexpr size_t kCharacterBytesMax = 4;
  if (const size_t bad = FirstBadUtf8(text);
      bad < text.size() && used <= bad + kCharacterBytesMax && bad <= used + kCharacterBytesMax) {
    return invalid("it is not UTF-8", bad).At(handler.Path());
  }
  return invalid(WhatIsWrong(ec), used);  // of a broken text no field is at fault
}

}  // namespace

JsonLimits RequestJsonLimits() {
  return {kJsonDepthMax, kMembersMax, kMemoryBytesMax};
}

Result<json::value> ParseJson(std::string_view text, const JsonLimits& limits,
                              std::string_view what) {
  json::parse_options options;
  options.max_depth = limits.depth_max;
  // The memory limit throws through the parser, which holds nothing that a throw would leak.
  try {
    const json::storage_ptr storage =
        json::make_shared_resource<CountingResource>(limits.memory_bytes_max);
    json::basic_parser<StrictHandler> parser(options, limits, storage);
    json::error_code ec;
    const size_t used = parser.write_some(false, text.data(), text.size(), ec);
    if (!ec && used < text.size()) ec = json::error::extra_data;
    if (ec) return ErrorOf(parser.handler(), ec, text, used, what);
    return parser.handler().Release();
  } catch (const std::bad_alloc&) {
    return Error(Code::kInvalid, std::string(what) + " holds too many JSON values");
  }
}

Result<json::object> ParseJsonObject(std::string_view text, std::string_view what) {
  TENUTO_ASSIGN(json::value value, ParseJson(text, RequestJsonLimits(), what));
  if (!value.is_object())
    return Error(Code::kInvalid, std::string(what) + " must be a JSON object");
  return std::move(value.get_object());
}

}  // namespace tenuto
