// Reads typed members of a JSON object within ranges. null and absent are the same. Pure. Every
// error is kInvalid at the field's name, and says what was expected.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace tenuto {

// Both ends included.
struct IntRange {
  int64_t low;
  int64_t high;
};
struct NumberRange {
  double low;
  double high;
};

// nullptr when absent or null.
const boost::json::value* Member(const boost::json::object& object, std::string_view name);

Result<std::optional<bool>> ReadBool(const boost::json::object& object, std::string_view name);
// A double with a whole value counts as an integer.
Result<std::optional<int64_t>> ReadInt(const boost::json::object& object, std::string_view name,
                                       IntRange range);
Result<std::optional<double>> ReadNumber(const boost::json::object& object, std::string_view name,
                                         NumberRange range);
Result<std::optional<std::string>> ReadString(const boost::json::object& object,
                                              std::string_view name);

// One value as an integer in `range`; `where` names it in errors: "logit_bias[3]".
Result<int64_t> ToInt(const boost::json::value& value, const std::string& where, IntRange range);
Result<double> ToNumber(const boost::json::value& value, const std::string& where,
                        NumberRange range);
// An array of ids of the vocabulary.
Result<std::vector<TokenId>> ToTokens(const boost::json::array& array, const std::string& where,
                                      int32_t vocabulary_size);

// "[3]"
std::string Index(size_t i);

Error InvalidAt(std::string where, std::string message);

}  // namespace tenuto
