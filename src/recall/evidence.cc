#include "recall/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/check.h"

namespace tenuto {
namespace {

// Scores are sums of floats, bounds sums of doubles: what rounding may make of the difference.
constexpr double kRounding = 1e-5;

// Calls fn(passage) for each bit.
template <typename Fn>
void ForEachBit(size_t word, uint64_t bits, Fn fn) {
  for (; bits != 0; bits &= bits - 1)
    fn(static_cast<uint32_t>(word * kWordBits) + static_cast<uint32_t>(__builtin_ctzll(bits)));
}

uint64_t BitsFrom(uint32_t passage) {
  return ~uint64_t{0} << passage % kWordBits;
}

// The bits of a word that lie in a range.
uint64_t BitsIn(const TurnRange& range, size_t word) {
  uint64_t bits = ~uint64_t{0};
  if (word == range.begin / kWordBits) bits &= BitsFrom(range.begin);
  if (word == range.end / kWordBits) bits &= ~BitsFrom(range.end);
  return bits;
}

size_t WordsOf(uint32_t passages) {
  return (passages + kWordBits - 1) / kWordBits;
}

}  // namespace

bool InRanges(std::span<const TurnRange> ranges, uint32_t number) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), number,
      [](uint32_t wanted, const TurnRange& range) { return wanted < range.begin; });
  return after != ranges.begin() && number < std::prev(after)->end;
}

// One call of Collect.
class PassageEvidence::Pass {
 public:
  Pass(PassageEvidence& out, const RecallIndex& index, const Query& query, const Bm25& bm25,
       size_t best_max)
      : out_(out), index_(index), query_(query), set_(bm25), best_max_(best_max) {
    for (size_t at = 0; at < query.terms.size(); ++at) {
      const QueryTerm& term = query.terms[at];
      if (term.dense != nullptr) common_.push_back({term.dense, at, WeightOf(term)});
    }
  }

  void Run(const PassageScope& scope) {
    const auto passages = static_cast<uint32_t>(index_.passages().size());
    if (out_.cells_.size() < passages) out_.cells_.resize(passages);
    out_.allowed_.assign(WordsOf(passages), 0);
    for (const TurnRange& range : scope.candidates) {
      for (size_t word = range.begin / kWordBits; word < WordsOf(range.end); ++word)
        out_.allowed_[word] |= BitsIn(range, word);
    }
    out_.best_.clear();
    ReadRare();
    for (const TurnRange& range : scope.window)
      ReadWindow(range);
    ReadBest();
    CutBest();
  }

 private:
  // A term that many passages have.
  struct Common {
    const DenseTerm* dense = nullptr;
    size_t at = 0;  // of the query's terms
    double weight = 0.0;
  };

  double WeightOf(const QueryTerm& term) const { return term.weight * term.idf * (set_.k1 + 1.0); }
  double TfOf(TermCounts counts) const {
    return counts.user + set_.asked * counts.asked + set_.answer * counts.answer +
           set_.tool * counts.tool;
  }
  double NormOf(const PassageInfo& info) const {
    return NormOf(info.user_tokens, info.answer_tokens);
  }
  double NormOf(uint32_t user_tokens, uint32_t answer_tokens) const {
    const double tokens = user_tokens + set_.answer * answer_tokens;
    return set_.k1 * (1.0 - set_.b + set_.b * tokens / set_.average);
  }

  // Terms of a cell are added in their order, so that a score does not depend on how it came about.
  void Add(Cell& cell, double norm, size_t at, double weight, TermCounts counts) const {
    const double tf = TfOf(counts);
    cell.score += static_cast<float>(weight * tf / (tf + norm));
    cell.any |= uint32_t{1} << at;
    if (counts.user + counts.asked > 0) cell.user |= uint32_t{1} << at;
  }

  // All passages of the terms that few have.
  void ReadRare() {
    auto& touched = out_.touched_;
    auto& seen = out_.seen_;
    seen.assign(out_.allowed_.size(), 0);
    for (const QueryTerm& term : query_.terms) {
      if (term.dense != nullptr) continue;
      ForEachPosting(*term.postings, [&](uint32_t passage, TermCounts) {
        const uint64_t bit = uint64_t{1} << passage % kWordBits;
        uint64_t& word = seen[passage / kWordBits];
        if ((word & bit) == 0) touched.push_back(passage);
        word |= bit;
      });
    }
    for (size_t at = 0; at < query_.terms.size(); ++at) {
      const QueryTerm& term = query_.terms[at];
      const double weight = WeightOf(term);
      const auto add = [&](uint32_t passage, TermCounts counts) {
        Add(out_.cells_[passage], NormOf(index_.passages()[passage]), at, weight, counts);
      };
      if (term.dense == nullptr) {
        ForEachPosting(*term.postings, add);
        continue;
      }
      for (const uint32_t passage : touched) {
        if (const TermCounts* counts = term.dense->At(passage)) add(passage, *counts);
      }
    }
    for (size_t word = 0; word < seen.size(); ++word) {
      ForEachBit(word, seen[word] & out_.allowed_[word],
                 [&](uint32_t passage) { IsBest(out_.cells_[passage].score, passage); });
      out_.allowed_[word] &= ~seen[word];
    }
  }

  // Of a passage that has common terms only.
  Cell CommonOf(uint32_t passage) const {
    Cell cell;
    const double norm = NormOf(index_.passages()[passage]);
    for (const Common& term : common_) {
      const TermCounts* counts = term.dense->At(passage);
      if (counts != nullptr) Add(cell, norm, term.at, term.weight, *counts);
    }
    return cell;
  }

  void Keep(uint32_t passage, const Cell& cell) {
    out_.cells_[passage] = cell;
    out_.touched_.push_back(passage);
  }

  void ReadWindow(const TurnRange& range) {
    for (size_t word = range.begin / kWordBits; word < WordsOf(range.end); ++word) {
      uint64_t bits = 0;
      for (const Common& term : common_) {
        const auto all = term.dense->bits();
        if (word < all.size()) bits |= all[word];
      }
      ForEachBit(word, bits & BitsIn(range, word) & ~out_.seen_[word],
                 [&](uint32_t passage) { Keep(passage, CommonOf(passage)); });
    }
  }

  // Whether a candidate is of the best so far; notes it. Of those that score the same the newest is
  // better.
  bool IsBest(float score, uint32_t passage) {
    const std::pair<float, uint32_t> candidate(score, passage);
    if (candidate < worst_) return false;
    out_.best_.push_back(candidate);
    if (out_.best_.size() / 2 >= best_max_) CutBest();
    return true;
  }

  // Leaves as many as are wanted; where they are so many, the worst of them is what others must
  // beat.
  void CutBest() {
    auto& best = out_.best_;
    if (best.size() < best_max_) return;
    const auto last = best.begin() + static_cast<std::ptrdiff_t>(best_max_ - 1);
    std::nth_element(best.begin(), last, best.end(), std::greater<>());
    worst_ = *last;
    best.resize(best_max_);
  }

  // First as many as are wanted of those that could score most; what the worst of them scores is
  // what any other must be able to reach.
  void ReadBest() {
    const double unit = AddBounds();
    if (unit == 0.0) return;
    const uint32_t level = std::max(1u, out_.bounds_.LevelOf(out_.allowed_, best_max_));
    ReadFrom(level);
    CutBest();
    const double sum = std::ceil(worst_.first * (1.0 - kRounding) / unit);
    if (sum < level) ReadFrom(static_cast<uint32_t>(std::max(1.0, sum)));
  }

  // At most what a term adds to the score of any passage that has it: in no more than an answer or
  // a tool's output, in what the user asks, in what the user states. Below 0: no passage is so.
  std::array<double, 3> MostOf(const Common& term) const {
    std::array<double, 3> most = {-1.0, -1.0, -1.0};
    for (const DenseTerm::Kind& kind : term.dense->kinds()) {
      const double tf = TfOf(kind.counts);
      const double norm = NormOf(kind.user_tokens_min, kind.answer_tokens_min);
      double& part = most[kind.counts.user > 0 ? 2 : kind.counts.asked > 0 ? 1 : 0];
      part = std::max(part, term.weight * tf / (tf + norm));
    }
    return most;
  }

  // What a sum of 1 stands for; 0: no term is common.
  double AddBounds() {
    if (common_.empty()) return 0.0;
    double sum = 1e-9;
    for (const Common& term : common_)
      sum += std::max(0.0, std::ranges::max(MostOf(term)));
    const double unit = sum / static_cast<double>(BoundSums::kMax - common_.size());
    out_.bounds_.Reset(out_.allowed_.size());
    for (const Common& term : common_) {
      const std::array<std::span<const uint64_t>, 3> bits = {
          term.dense->bits(), term.dense->user_bits(), term.dense->stated_bits()};
      const auto most = MostOf(term);
      uint32_t added = 0;
      for (size_t part = 0; part < bits.size(); ++part) {
        if (most[part] < 0.0) continue;  // the next has the same passages
        const auto amount = std::max(1u, static_cast<uint32_t>(std::ceil(most[part] / unit)));
        if (amount > added) out_.bounds_.Add(bits[part], amount - added);
        added = std::max(added, amount);
      }
    }
    return unit;
  }

  // The newest first: of many that score the same most are not kept.
  void ReadFrom(uint32_t level) {
    for (size_t block = out_.bounds_.blocks(); block-- > 0;) {
      const auto reaching = out_.bounds_.AtLeast(block, level);
      const size_t first = block * BoundSums::kLanes;
      for (size_t word = std::min(first + reaching.size(), out_.allowed_.size()); word-- > first;) {
        uint64_t& allowed = out_.allowed_[word];
        const uint64_t bits = allowed & reaching[word - first];
        allowed &= ~bits;
        ForEachBit(word, bits, [&](uint32_t passage) {
          const Cell cell = CommonOf(passage);
          if (IsBest(cell.score, passage)) Keep(passage, cell);
        });
      }
    }
  }

  PassageEvidence& out_;
  const RecallIndex& index_;
  const Query& query_;
  const Bm25& set_;
  const size_t best_max_;
  std::pair<float, uint32_t> worst_;  // of the best, once they are as many as are wanted
  std::vector<Common> common_;
};

void PassageEvidence::Collect(const RecallIndex& index, const Query& query, const Bm25& bm25,
                              const PassageScope& scope, size_t best_max) {
  TENUTO_CHECK(best_max > 0);
  Pass(*this, index, query, bm25, best_max).Run(scope);
}

void PassageEvidence::Clear() {
  for (const uint32_t passage : touched_)
    cells_[passage] = {};
  touched_.clear();
}

}  // namespace tenuto
