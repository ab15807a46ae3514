#include <charconv>

#include "base/ids.h"
#include "config.h"

namespace tenuto {
namespace {

constexpr int32_t kWeightMax = 1000;

Error Invalid(const std::string& what) {
  return {Code::kInvalid, "--tenant-weights: " + what + "; give NAME=N, ... with N from 1 to " +
                              std::to_string(kWeightMax) + ", such as acme=4,lab=2"};
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

Result<std::map<std::string, int32_t>> ParseTenantWeights(std::string_view text) {
  std::map<std::string, int32_t> weights;
  if (Trimmed(text).empty()) return weights;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = Trimmed(text.substr(0, comma));
    const std::string quoted = "'" + std::string(entry.substr(0, 160)) + "'";
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) return Invalid(quoted + " has no '='");
    const std::string name(Trimmed(entry.substr(0, equals)));
    const std::string_view number = Trimmed(entry.substr(equals + 1));
    const auto as_key = ParseSessionKey(name);
    if (!as_key || as_key->session != name) return Invalid(quoted + " names no tenant");
    int32_t weight = 0;
    const auto [end, failed] =
        std::from_chars(number.data(), number.data() + number.size(), weight);
    if (failed != std::errc() || end != number.data() + number.size() || weight < 1 ||
        weight > kWeightMax)
      return Invalid(quoted + " is no such number");
    if (!weights.emplace(name, weight).second) return Invalid(name + " is there twice");
    if (comma == text.size()) return weights;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace tenuto
