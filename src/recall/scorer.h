// Ranks a session's archived turns for a message: BM25 over pairs of user and assistant with the
// user's words far above the answer's, then what the words alone do not know: questions are no
// evidence, an answer made from recall points to its sources, a correction comes along, near-
// duplicates come once. Deterministic: equal scores go to the newer turn.
//
// Thread-compatible; holds scratch memory between calls and nothing that a result depends on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "recall/evidence.h"
#include "recall/query.h"

namespace tenuto {

// Which turns may be recalled: ancestors of the head outside of the window. And which are in the
// window: they compete, and are never hits. Ranges ascend and do not overlap.
struct RecallScope {
  std::vector<TurnRange> candidates;
  std::vector<TurnRange> window;
};

struct RecallHit {
  uint32_t turn = 0;
  double score = 0.0;
  std::vector<std::string> terms;  // of the query, found in the turn
  // How many turns would match as well by chance, as a natural logarithm; the gate's measure.
  double log_expected = 0.0;
  double info = 0.0;        // of the matched terms together: what the window is compared by
  uint32_t units = 0;       // matched words of the message
  uint32_t inherited = 0;   // matched words of the last turn
  double apart = 0.0;       // info that is in other sentences than the rest of it
  bool dated = false;       // a day of the message is among them
  bool said_then = false;   // it was said on a day that the message names
  bool proper = false;      // a name of the message is
  bool identifier = false;  // a whole identifier of the message is
  // No turn of the window with a name that it shares with the message says as much.
  bool window_lacks_name = false;
  // It has a name of the message, and some other turn all that it lacks of the message.
  bool named_matter = false;
  bool number = false;         // it has a number, and the message asks for one
  uint32_t tokens = 0;         // words and characters of the turn
  std::vector<uint32_t> with;  // turns that must come along: they correct this one
  // Turns that come along together where there is room: they may correct it.
  std::vector<uint32_t> also;
  // Not 0: it comes because earlier prompts had it. What was said until this turn, the newest of
  // such a prompt, had its chance to come along then, and is a source itself where it did.
  uint32_t since = 0;
  bool source = false;  // not found itself: an answer made from recall came from it
  bool again = false;   // the prompt of an earlier asking of this very question had it
};

struct Ranking {
  std::vector<RecallHit> hits;   // best first
  double window_info = 0.0;      // the best info of a turn in the window
  double window_own_info = 0.0;  // ... by the message's own words
  bool asked_before = false;     // the very same question is among the candidates
  uint32_t own_units = 0;
  uint32_t own_known = 0;
  Cues cues;
};

struct ScorerSettings {
  double k1 = 0.75;
  double b = 0.3;        // turns that are short at the median
  double b_long = 0.75;  // others
  double answer = 0.2;   // weight of the answer's words; 1 when the question asks for them
  double asked = 0.5;    // weight of words in the user's questions
  double tool = 0.05;
  double bare_question = 0.5;  // factor of a turn that only asks
  double other_name = 0.5;     // factor of a turn that has none of the names in the message
  double same_again = 0.88;    // factor for each better hit that has the very same terms
  double number = 1.6;         // factor of a turn with a number when one is asked for
  double smoothing = 0.3;      // share of the neighbours' scores when turns are very short
  double tail_max = 2.0;     // ln by which words that often stand together count for more, at most
  double few_turns = 25.0;   // turns of one episode, whose words come together
  double newer = 0.45;       // share of an older hit's score from which a newer comes along
  double correcting = 0.25;  // ... that corrects
  double coverage = 0.5;     // how much more a turn counts that has all words of the message
};

class RecallScorer {
 public:
  explicit RecallScorer(ScorerSettings settings = {}) : settings_(settings) {}

  // At most `hits_max` hits. REQUIRES: `query` was built from `index` as it is now.
  Ranking Rank(const RecallIndex& index, const Query& query, const RecallScope& scope,
               size_t hits_max);

 private:
  friend class RankRun;
  ScorerSettings settings_;
  PassageEvidence evidence_;  // all zero between calls
};

}  // namespace tenuto
