#include "engine/embedded/stop_matcher.h"

#include <algorithm>

namespace tenuto {
namespace {

// The failure function of Knuth, Morris and Pratt.
std::vector<uint32_t> Fallback(const std::string& text) {
  std::vector<uint32_t> fallback(text.size(), 0);
  uint32_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[i] != text[border])
      border = fallback[border - 1];
    if (text[i] == text[border]) ++border;
    fallback[i] = border;
  }
  return fallback;
}

}  // namespace

StopMatcher::StopMatcher(std::span<const std::string> stops) {
  patterns_.reserve(stops.size());
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) continue;
    patterns_.push_back({stops[i], i, Fallback(stops[i]), 0});
  }
}

std::optional<StopMatcher::Match> StopMatcher::Feed(std::string_view bytes) {
  if (patterns_.empty()) {
    fed_ += bytes.size();
    return std::nullopt;
  }
  for (const char byte : bytes) {
    ++fed_;
    held_ = 0;
    const Pattern* complete = nullptr;
    for (Pattern& pattern : patterns_) {
      size_t& matched = pattern.matched;
      while (matched > 0 && byte != pattern.text[matched])
        matched = pattern.fallback[matched - 1];
      if (byte == pattern.text[matched]) ++matched;
      held_ = std::max(held_, matched);
      if (matched == pattern.text.size() &&
          (complete == nullptr || matched > complete->text.size())) {
        complete = &pattern;
      }
    }
    if (complete != nullptr) return Match{fed_ - complete->text.size(), fed_, complete->index};
  }
  return std::nullopt;
}

}  // namespace tenuto
