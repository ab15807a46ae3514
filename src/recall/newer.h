// What was said later about the same as a turn, in its own rare words, whatever a question asks:
// an old fact is never shown without the newest, nor without what is closest where there is room.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "recall/index.h"
#include "recall/scorer.h"
#include "recall/text.h"

namespace tenuto {

struct OlderTurn {
  uint32_t turn = 0;
  Moment time;
  std::string_view user;  // only the first kNewerBytesMax are looked at
};

inline constexpr size_t kNewerBytesMax = 8192;

// Turns after an older one in which the user states what the user stated there.
// Each with the few words that were said right behind it.
struct LaterTurns {
  std::vector<uint32_t> newest;  // that has two or more of its rare words: few passages have them
  std::vector<uint32_t>
      closest;  // that shares most with it: a correction often says what it corrects
};
// Costs the analysis of the text and a read of some short postings.
LaterTurns LaterOnTheSame(Analyser& analyser, const RecallIndex& index, const OlderTurn& older);
// Makes those come along with the hit that are candidates, and did not in their time.
void AddLater(Analyser& analyser, const RecallIndex& index, std::span<const TurnRange> candidates,
              const OlderTurn& older, RecallHit& hit);

// By index into turns(), -1: none. A short turn right behind that takes something back.
int64_t CorrectedBy(const RecallIndex& index, uint32_t turn_at);
// ... or one of a few words, which go with it whatever the language: "no, the other one".
int64_t BriefBehind(const RecallIndex& index, uint32_t turn_at);

}  // namespace tenuto
