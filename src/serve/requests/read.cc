#include "serve/requests/read.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>
#include <utility>

namespace tenuto {
namespace {

namespace json = boost::json;

std::string Shortest(double value) {
  char digits[40];
  return {digits, std::to_chars(digits, digits + sizeof(digits), value).ptr};
}

std::optional<int64_t> WholeNumber(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;  // a uint64 here is past the range of int64
  const double number = value.get_double();
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(number) != number || std::fabs(number) > kExact) return std::nullopt;
  return static_cast<int64_t>(number);
}

bool IsAnyNumber(const json::value& value) {
  return value.is_int64() || value.is_uint64() || value.is_double();
}

}  // namespace

Error InvalidAt(std::string where, std::string message) {
  std::string text = "'" + where + "' " + std::move(message);
  return Error(Code::kInvalid, std::move(text)).At(std::move(where));
}

std::string Index(size_t i) {
  return "[" + std::to_string(i) + "]";
}

const json::value* Member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::optional<bool>> ReadBool(const json::object& object, std::string_view name) {
  const json::value* value = Member(object, name);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_bool()) return InvalidAt(std::string(name), "must be true or false");
  return std::optional<bool>(value->get_bool());
}

Result<int64_t> ToInt(const json::value& value, const std::string& where, IntRange range) {
  if (!IsAnyNumber(value)) return InvalidAt(where, "must be an integer");
  const std::optional<int64_t> number = WholeNumber(value);
  const bool whole = number.has_value() || value.is_uint64();
  if (!whole && std::trunc(value.get_double()) != value.get_double()) {
    return InvalidAt(where, "must be an integer");
  }
  if (!number || *number < range.low || *number > range.high) {
    return InvalidAt(where, "must be an integer from " + std::to_string(range.low) + " to " +
                                std::to_string(range.high));
  }
  return *number;
}

Result<std::optional<int64_t>> ReadInt(const json::object& object, std::string_view name,
                                       IntRange range) {
  const json::value* value = Member(object, name);
  if (value == nullptr) return std::optional<int64_t>();
  TENUTO_ASSIGN(const int64_t number, ToInt(*value, std::string(name), range));
  return std::optional<int64_t>(number);
}

Result<double> ToNumber(const json::value& value, const std::string& where, NumberRange range) {
  if (!IsAnyNumber(value)) return InvalidAt(where, "must be a number");
  double number = 0;
  if (value.is_int64()) {
    number = static_cast<double>(value.get_int64());
  } else if (value.is_uint64()) {
    number = static_cast<double>(value.get_uint64());
  } else {
    number = value.get_double();
  }
  if (!(number >= range.low && number <= range.high)) {
    return InvalidAt(where, "must be from " + Shortest(range.low) + " to " + Shortest(range.high));
  }
  return number;
}

Result<std::optional<double>> ReadNumber(const json::object& object, std::string_view name,
                                         NumberRange range) {
  const json::value* value = Member(object, name);
  if (value == nullptr) return std::optional<double>();
  TENUTO_ASSIGN(const double number, ToNumber(*value, std::string(name), range));
  return std::optional<double>(number);
}

Result<std::optional<std::string>> ReadString(const json::object& object, std::string_view name) {
  const json::value* value = Member(object, name);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return InvalidAt(std::string(name), "must be a string");
  return std::optional<std::string>(std::string(value->get_string()));
}

Result<std::vector<TokenId>> ToTokens(const json::array& array, const std::string& where,
                                      int32_t vocabulary_size) {
  std::vector<TokenId> tokens;
  tokens.reserve(array.size());
  const IntRange range{0, int64_t{vocabulary_size} - 1};
  for (size_t i = 0; i < array.size(); ++i) {
    // The name of the place is made only where it is needed.
    if (array[i].is_int64() && array[i].get_int64() >= range.low &&
        array[i].get_int64() <= range.high) {
      tokens.push_back(static_cast<TokenId>(array[i].get_int64()));
      continue;
    }
    TENUTO_ASSIGN(const int64_t token, ToInt(array[i], where + Index(i), range));
    tokens.push_back(static_cast<TokenId>(token));
  }
  return tokens;
}

}  // namespace tenuto
