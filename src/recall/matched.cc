#include "recall/matched.h"

#include <algorithm>

namespace tenuto {
namespace {

constexpr double kSingleShare = 0.6;  // one Han character says less than a word
constexpr double kOverlap = 0.3;      // of a pair of which one half was counted before
constexpr double kAnswerShare = 0.5;  // what stands only in the answer says less

void AddStrong(double info, uint32_t bit, MatchInfo& found) {
  if (bit == 0 || info < kStrongInfo) return;
  found.strong |= bit;
  found.strong_info += info;
}

}  // namespace

// The matched terms of one unit.
struct Matcher::Unit {
  double whole = 0.0;  // the best word, identifier, number or day
  uint32_t whole_bit = 0;
  std::vector<double> parts;
  double single = 0.0;
  bool here = false;
  bool inherited = false;
  uint32_t next_pair = 0;  // pairs before this position overlap with one that counted
  double pairs = 0.0;
  uint32_t pair_count = 0;
};

Matcher::Matcher(const Query& query) : query_(query) {
  for (size_t i = 0; i < query.terms.size(); ++i)
    by_position_.push_back(i);
  std::sort(by_position_.begin(), by_position_.end(),
            [&](size_t a, size_t b) { return query.terms[a].position < query.terms[b].position; });
  for (const QueryTerm& term : query.terms)
    units_.push_back(term.unit);
  std::sort(units_.begin(), units_.end());
  units_.erase(std::unique(units_.begin(), units_.end()), units_.end());
}

const MatchInfo& Matcher::InfoOf(uint32_t user, uint32_t any) {
  const auto [known, fresh] = known_.try_emplace(uint64_t{user} << 32 | any);
  if (fresh) known->second = Work(user, any);
  return known->second;
}

MatchInfo Matcher::Work(uint32_t user, uint32_t any) const {
  MatchInfo found;
  std::vector<Unit> units(units_.size());
  for (const size_t i : by_position_) {
    const auto bit = uint32_t{1} << i;
    if ((any & bit) == 0) continue;
    const QueryTerm& term = query_.terms[i];
    // A character of a longer run is not the word.
    if (term.sort == TermSort::kStamp || term.inside) continue;
    const double share = query_.cues.asks_assistant ? 1.0 : kAnswerShare;
    const double info = (user & bit) != 0 ? term.info_user : share * term.info_any;
    const auto at = std::lower_bound(units_.begin(), units_.end(), term.unit) - units_.begin();
    Unit& unit = units[static_cast<size_t>(at)];
    unit.here = true;
    unit.inherited = term.inherited;
    AddTerm(term, info, (user & bit), unit, found);
  }
  for (Unit& unit : units)
    if (unit.here) Close(unit, found);
  return found;
}

// `bit`: 0 when the term is not in the user's words.
void Matcher::AddTerm(const QueryTerm& term, double info, uint32_t bit, Unit& unit,
                      MatchInfo& found) {
  switch (term.sort) {
    case TermSort::kPart:
      unit.parts.push_back(info);
      return;
    case TermSort::kSingle:
      unit.single = std::max(unit.single, kSingleShare * info);
      return;
    case TermSort::kPair:
    case TermSort::kRunWord:
      AddToRun(term, info, bit, unit, found);
      return;
    default:
      if (info > unit.whole) {
        unit.whole = info;
        unit.whole_bit = bit;
      }
  }
}

void Matcher::AddToRun(const QueryTerm& term, double info, uint32_t bit, Unit& unit,
                       MatchInfo& found) {
  const uint32_t length = term.sort == TermSort::kPair ? 2 : 1;
  if (unit.pair_count > 0 && term.position < unit.next_pair) {
    unit.pairs += std::min(kOverlap * info, term.info_after[0]);
    return;
  }
  const bool touches = unit.pair_count > 0 && term.position == unit.next_pair;
  unit.next_pair = term.position + length;
  const bool word = term.sort == TermSort::kRunWord && term.info_after[0] >= kStrongInfo;
  if (touches && !word) {  // perhaps the rest of the same word
    unit.pairs += std::min(info, term.info_after[length - 1]);
    return;
  }
  unit.pairs += info;
  ++unit.pair_count;
  AddStrong(info, bit, found);
}

void Matcher::Close(Unit& unit, MatchInfo& found) {
  uint32_t count = 1;
  if (unit.whole > 0.0) {
    found.info += unit.whole;
    AddStrong(unit.whole, unit.whole_bit, found);
  } else if (unit.pair_count > 0) {
    found.info += unit.pairs;
    count = unit.pair_count;
  } else {
    std::sort(unit.parts.rbegin(), unit.parts.rend());
    double share = 1.0;
    for (const double part : unit.parts) {
      found.info += share * part;
      share *= 0.5;
    }
    if (unit.parts.empty()) found.info += unit.single;
  }
  (unit.inherited ? found.inherited : found.units) += count;
}

}  // namespace tenuto
