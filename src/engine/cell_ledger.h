// Counts KV cells: which sequence holds how many, and which are shared by CopyPrefix. An executor
// keeps one beside its real memory, so that it can say "not enough" before anything is changed.
// Thread-compatible (an executor's own thread). Positions of a sequence are 0, 1, 2, ... without
// gaps.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace tenuto {

class CellLedger {
 public:
  CellLedger(int32_t cells, int32_t sequences);

  bool HasSequence(SeqId seq) const;
  // REQUIRES for all below: HasSequence(seq).
  TokenPos length(SeqId seq) const;
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  // The cell at a position. REQUIRES: 0 <= pos < length(seq).
  int32_t cell(SeqId seq, TokenPos pos) const;

  // Takes a free cell for the next position and returns it. REQUIRES: free() > 0.
  int32_t Append(SeqId seq);
  // Gives back the cells of positions >= end that no other sequence holds.
  void Truncate(SeqId seq, TokenPos end);
  // REQUIRES: length(to) == 0, 0 <= end <= length(from).
  void Share(SeqId from, SeqId to, TokenPos end);

 private:
  std::vector<std::vector<int32_t>> held_;  // cells of each sequence, by position
  std::vector<int32_t> users_;              // how many sequences hold a cell
  std::vector<int32_t> free_;               // a stack
};

}  // namespace tenuto
