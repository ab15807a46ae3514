#include "recall/evidence.h"

#include <algorithm>
#include <cmath>
#include <functional>

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

// One call of Collect.
class PassageEvidence::Pass {
 public:
  Pass(PassageEvidence& out, const RecallIndex& index, const Query& query, const Bm25& bm25)
      : out_(out), index_(index), query_(query), set_(bm25) {
    for (size_t at = 0; at < query.terms.size(); ++at) {
      if (query.terms[at].dense != nullptr) common_.push_back(at);
    }
  }

  void Run(const PassageScope& scope, size_t best_max) {
    const auto passages = static_cast<uint32_t>(index_.passages().size());
    if (out_.cells_.size() < passages) out_.cells_.resize(passages);
    out_.allowed_.assign(WordsOf(passages), 0);
    for (const TurnRange& range : scope.candidates) {
      for (size_t word = range.begin / kWordBits; word < WordsOf(range.end); ++word)
        out_.allowed_[word] |= BitsIn(range, word);
    }
    out_.candidates_ = out_.allowed_;
    out_.least_ = 0.0F;
    ReadRare();
    for (const TurnRange& range : scope.window)
      ReadWindow(range);
    ReadBest(best_max);
  }

 private:
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
  void Add(Cell& cell, double norm, size_t at, TermCounts counts) const {
    const double tf = TfOf(counts);
    cell.score += static_cast<float>(WeightOf(query_.terms[at]) * tf / (tf + norm));
    cell.any |= uint32_t{1} << at;
    if (counts.user + counts.asked > 0) cell.user |= uint32_t{1} << at;
  }

  // All passages of the terms that few have.
  void ReadRare() {
    auto& touched = out_.touched_;
    for (const QueryTerm& term : query_.terms) {
      if (term.dense != nullptr) continue;
      ForEachPosting(*term.postings,
                     [&](uint32_t passage, TermCounts) { touched.push_back(passage); });
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (size_t at = 0; at < query_.terms.size(); ++at) {
      const QueryTerm& term = query_.terms[at];
      const auto add = [&](uint32_t passage, TermCounts counts) {
        Add(out_.cells_[passage], NormOf(index_.passages()[passage]), at, counts);
      };
      if (term.dense == nullptr) {
        ForEachPosting(*term.postings, add);
        continue;
      }
      for (const uint32_t passage : touched) {
        if (const TermCounts* counts = term.dense->At(passage)) add(passage, *counts);
      }
    }
    for (const uint32_t passage : touched)
      out_.allowed_[passage / kWordBits] &= ~(uint64_t{1} << passage % kWordBits);
  }

  // A passage that has common terms only, and was not looked at before.
  void ReadCommon(uint32_t passage) {
    Cell& cell = out_.cells_[passage];
    const double norm = NormOf(index_.passages()[passage]);
    for (const size_t at : common_) {
      const TermCounts* counts = query_.terms[at].dense->At(passage);
      if (counts != nullptr) Add(cell, norm, at, *counts);
    }
    out_.touched_.push_back(passage);
  }

  void ReadWindow(const TurnRange& range) {
    for (size_t word = range.begin / kWordBits; word < WordsOf(range.end); ++word) {
      uint64_t bits = 0;
      for (const size_t at : common_) {
        const auto term = query_.terms[at].dense->bits();
        if (word < term.size()) bits |= term[word];
      }
      ForEachBit(word, bits & BitsIn(range, word), [&](uint32_t passage) {
        if (out_.cells_[passage].any == 0) ReadCommon(passage);
      });
    }
  }

  // First as many as are wanted of those that could score most; what the worst of them scores is
  // what any other must be able to reach.
  void ReadBest(size_t best_max) {
    const double unit = AddBounds();
    if (unit == 0.0) return;
    const uint32_t level = out_.bounds_.LevelOf(out_.allowed_, best_max);
    ReadFrom(std::max(1u, level));
    if (level <= 1) return;
    out_.least_ = ScoreOfBest(best_max);
    const double sum = std::ceil(out_.least_ * (1.0 - kRounding) / unit);
    ReadFrom(static_cast<uint32_t>(std::max(1.0, sum)));
  }

  // What a sum of 1 stands for; 0: no term is common.
  double AddBounds() {
    std::vector<std::pair<const DenseTerm*, double>> bounds;
    double sum = 1e-9;
    for (const size_t at : common_) {
      const QueryTerm& term = query_.terms[at];
      double tf = 0.0;
      for (const TermCounts& counts : term.dense->kinds())
        tf = std::max(tf, TfOf(counts));
      const double norm = NormOf(term.dense->user_tokens_min(), term.dense->answer_tokens_min());
      bounds.emplace_back(term.dense, WeightOf(term) * tf / (tf + norm));
      sum += bounds.back().second;
    }
    if (bounds.empty()) return 0.0;
    const double unit = sum / static_cast<double>(BoundSums::kMax - bounds.size());
    out_.bounds_.Reset(out_.allowed_.size());
    for (const auto& [dense, most] : bounds)
      out_.bounds_.Add(dense->bits(), std::max(1u, static_cast<uint32_t>(std::ceil(most / unit))));
    return unit;
  }

  void ReadFrom(uint32_t level) {
    if (level > BoundSums::kMax) return;
    for (size_t word = 0; word < out_.allowed_.size(); ++word) {
      uint64_t& allowed = out_.allowed_[word];
      if (allowed == 0) continue;
      const uint64_t bits = allowed & out_.bounds_.AtLeast(word, level);
      allowed &= ~bits;
      ForEachBit(word, bits, [&](uint32_t passage) {
        if (out_.cells_[passage].any == 0) ReadCommon(passage);
      });
    }
  }

  // Of the candidates looked at so far; 0 where they are fewer.
  float ScoreOfBest(size_t best_max) {
    auto& scores = out_.scores_;
    scores.clear();
    for (const uint32_t passage : out_.touched_) {
      if (out_.IsCandidate(passage)) scores.push_back(out_.cells_[passage].score);
    }
    if (scores.size() < best_max) return 0.0F;
    const auto last = scores.begin() + static_cast<std::ptrdiff_t>(best_max - 1);
    std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
    return *last;
  }

  PassageEvidence& out_;
  const RecallIndex& index_;
  const Query& query_;
  const Bm25& set_;
  std::vector<size_t> common_;  // terms that many passages have
};

void PassageEvidence::Collect(const RecallIndex& index, const Query& query, const Bm25& bm25,
                              const PassageScope& scope, size_t best_max) {
  Pass(*this, index, query, bm25).Run(scope, best_max);
}

void PassageEvidence::Clear() {
  for (const uint32_t passage : touched_)
    cells_[passage] = {};
  touched_.clear();
}

}  // namespace tenuto
