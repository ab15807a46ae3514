// What a query's terms say of the passages of an index: BM25, and which terms a passage has. Worked
// out for the passages that can matter and no others: those in the window, and among the candidates
// all that could be of the best.
//
// Thread-compatible; holds scratch memory between calls and nothing that a result depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "recall/bounds.h"
#include "recall/query.h"

namespace tenuto {

// Half-open range of numbers [begin, end): of turns or of passages.
struct TurnRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};
// REQUIRES: ranges ascend and do not overlap.
bool InRanges(std::span<const TurnRange> ranges, uint32_t number);

// Passages: ranges ascend and do not overlap, and none is in both.
struct PassageScope {
  std::vector<TurnRange> candidates;
  std::vector<TurnRange> window;
};

struct Bm25 {
  double k1 = 0.0;
  double b = 0.0;
  double average = 1.0;  // tokens of a passage
  double answer = 0.0;   // weights of what is not stated by the user
  double asked = 0.0;
  double tool = 0.0;
};

class PassageEvidence {
 public:
  struct Cell {
    float score = 0.0F;
    uint32_t user = 0;  // terms in the user's words, a bit each
    uint32_t any = 0;
  };

  // REQUIRES: Clear was called since the last; best_max > 0.
  void Collect(const RecallIndex& index, const Query& query, const Bm25& bm25,
               const PassageScope& scope, size_t best_max);
  // All zero where a passage has no term. Of those with common terms only it knows the window's and
  // the best.
  const Cell& At(uint32_t passage) const { return cells_[passage]; }
  // Scores and passages of the `best_max` best candidates that have a term, in no order. Of those
  // that score the same the newest are better.
  std::span<const std::pair<float, uint32_t>> best() const { return best_; }
  void Clear();

 private:
  class Pass;
  std::vector<Cell> cells_;  // by passage; all zero between calls
  std::vector<uint32_t> touched_;
  BoundSums bounds_;
  std::vector<uint64_t> allowed_;  // candidates that were not looked at yet, a bit for each passage
  std::vector<uint64_t> seen_;     // passages of rare terms, likewise
  std::vector<std::pair<float, uint32_t>> best_;
};

}  // namespace tenuto
