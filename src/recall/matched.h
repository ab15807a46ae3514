// What the terms of a query that a turn has say together. Terms of one word, identifier or run come
// and go together, so they don't count like terms of several. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "recall/query.h"

namespace tenuto {

// A term of less is common: it counts, and proves nothing.
inline constexpr double kStrongInfo = 2.0;

struct MatchInfo {
  double info = 0.0;       // -ln of the chance that a passage has them all
  uint32_t units = 0;      // matched words of the message
  uint32_t inherited = 0;  // ... of the last turn
  double strong_info = 0.0;
  uint32_t strong = 0;  // the terms that counted, stand in the user's words and are not common
};

class Matcher {
 public:
  // REQUIRES: `query` outlives it.
  explicit Matcher(const Query& query);

  // `user`, `any`: the terms in the user's words and anywhere, a bit each.
  // Remembered: many turns have the same terms.
  const MatchInfo& InfoOf(uint32_t user, uint32_t any);

 private:
  struct Unit;
  MatchInfo Work(uint32_t user, uint32_t any) const;
  static void AddTerm(const QueryTerm& term, double info, uint32_t bit, Unit& unit,
                      MatchInfo& found);
  static void AddToRun(const QueryTerm& term, double info, uint32_t bit, Unit& unit,
                       MatchInfo& found);
  static void Close(Unit& unit, MatchInfo& found);

  const Query& query_;
  std::vector<size_t> by_position_;  // terms in the order of their positions
  std::vector<uint32_t> units_;      // of the query, ascending
  std::unordered_map<uint64_t, MatchInfo> known_;
};

}  // namespace tenuto
