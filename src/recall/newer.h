// What was said later about the same as a turn, in its own rare words, whatever a question asks:
// an old fact is never shown without the newest. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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

// The newest turn after `older` in which the user states two or more of the rare words that the
// user stated there; 0: none. Rare: few passages have them. Costs the analysis of the text and a
// read of some short postings.
uint32_t NewestOnTheSame(Analyser& analyser, const RecallIndex& index, const OlderTurn& older);

// Makes it come along with the hit, where it is a candidate.
void AddNewer(Analyser& analyser, const RecallIndex& index, std::span<const TurnRange> candidates,
              const OlderTurn& older, RecallHit& hit);

}  // namespace tenuto
