// The target of a request taken apart: path and query, percent-decoded. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenuto {

// nullopt: a '%' without two hex digits, or a NUL byte.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space);

struct Target {
  std::string_view path;  // as sent; points into what was parsed
  std::vector<std::pair<std::string, std::string>> query;

  // The value of the first parameter of that name.
  const std::string* Find(std::string_view name) const;
};

// nullopt: the query can't be decoded.
std::optional<Target> ParseTarget(std::string_view target);

}  // namespace tenuto
