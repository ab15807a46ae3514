// The hits of a ranking: of each of the best turns how surprising its match is, what tells it from
// the others, and what must come along with it. A part of the scorer. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "recall/evidence.h"
#include "recall/matched.h"
#include "recall/scorer.h"

namespace tenuto {

// Of the query, a bit each.
struct MatchedTerms {
  uint32_t user = 0;  // in the user's words
  uint32_t any = 0;
};

struct Pooled {
  uint32_t turn_at = 0;
  uint32_t passage = 0;  // its best one
  double score = 0.0;
  uint32_t user = 0;
  uint32_t any = 0;
  bool source = false;
  bool again = false;
  uint32_t since = 0;     // the newest turn that an answer made from recall had beside it
  uint32_t via_user = 0;  // terms of the answer made from recall that points here
  uint32_t via_any = 0;
};

struct RankedTurns {
  const RecallIndex& index;
  const Query& query;
  const RecallScope& scope;
  const ScorerSettings& settings;
  const PassageEvidence& evidence;
  Matcher& match;
  std::span<const Pooled> best_first;
  std::span<const MatchedTerms> window;  // of turns in the window that state something
};

std::vector<RecallHit> HitsOf(const RankedTurns& ranked, size_t hits_max);

}  // namespace tenuto
