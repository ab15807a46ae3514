// In how many episodes of a session terms stand together: turns that are near one another are one,
// since what is talked about comes up again at once. Not thread-safe; for one query.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "recall/evidence.h"

namespace tenuto {

class EpisodeCounts {
 public:
  // REQUIRES: all three outlive it, and `evidence` was collected for `query`.
  EpisodeCounts(const RecallIndex& index, const Query& query, const PassageEvidence& evidence)
      : index_(index), query_(query), evidence_(evidence) {}

  // Episodes that have all terms of `mask`, a bit each, in the user's words, counted up to `most`.
  // REQUIRES: mask != 0. Remembered: many turns have the same terms.
  uint32_t Count(uint32_t mask, uint32_t most);

 private:
  template <typename Fn>
  void ForEachWithAll(uint32_t mask, Fn fn) const;

  const RecallIndex& index_;
  const Query& query_;
  const PassageEvidence& evidence_;
  std::unordered_map<uint64_t, uint32_t> known_;  // by mask and `most`
};

}  // namespace tenuto
