// Finds stop strings in the bytes of an answer as they come, and says how many of the last bytes
// may still turn out to be the beginning of one. Bytes go in one by one, so how tokens cut the text
// makes no difference. The match that is complete first wins; of those complete at the same byte,
// the longest (which begins earliest). Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenuto {

class StopMatcher {
 public:
  struct Match {
    size_t begin = 0;  // offset in all bytes fed so far; [begin, end)
    size_t end = 0;
    size_t index = 0;  // of the stop string, as given
  };

  // Empty strings are ignored: they would match everywhere.
  explicit StopMatcher(std::span<const std::string> stops);

  // Feeds `bytes` up to the end of the first match and returns it. REQUIRES: no match so far.
  std::optional<Match> Feed(std::string_view bytes);

  // Trailing bytes of what was fed that may begin a stop string: not to be shown yet.
  size_t held() const { return held_; }

 private:
  struct Pattern {
    std::string text;
    size_t index = 0;
    std::vector<uint32_t> fallback;  // [i]: longest proper border of text[0, i]
    size_t matched = 0;              // longest prefix of text that ends what was fed
  };

  std::vector<Pattern> patterns_;
  size_t fed_ = 0;
  size_t held_ = 0;
};

}  // namespace tenuto
