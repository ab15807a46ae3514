// What a message asks the index for: its own terms, and with less weight those of the last turn.
// Pure values; nothing here reads more than the index's statistics.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recall/index.h"
#include "recall/text.h"

namespace tenuto {

// A message of more words of its own stands by itself.
inline constexpr uint32_t kLeaningUnitsMax = 1;
inline constexpr size_t kQueryTermsMax = 32;  // the rarest; a bit each in a hit's mask

// A message that is about to be answered.
struct Question {
  std::string_view text;
  Moment time;
  std::string_view last_user;  // the turn before; empty: none
  std::string_view last_answer;
};

struct QueryTerm {
  const Postings* postings = nullptr;  // never nullptr; valid while the index is unchanged
  const DenseTerm* dense = nullptr;    // the same unpacked; nullptr: few passages have it
  TermKey key = 0;
  std::string text;
  TermSort sort = TermSort::kWord;
  bool inherited = false;  // from the last turn
  bool inside = false;     // a single character of a longer run
  bool named = false;      // looks like somebody's or something's name
  bool proper = false;     // ... in a language that capitalises nothing else
  bool form = false;  // another form of the word before it, as a turn of another language has it
  uint32_t unit = 0;  // terms of one word, run or day share it
  uint32_t position = 0;   // of the text it comes from, in tokens
  uint32_t passages = 0;   // that have it in any of its forms
  double weight = 0.0;     // of its source and sort
  double idf = 0.0;        // Lucene's
  double info_user = 0.0;  // -ln of the chance that a passage has it in the user's words
  double info_any = 0.0;   // ... anywhere
  // What the term adds where the term 1 or 2 positions before it in its run is there as well:
  // pieces of one word come together.
  std::array<double, 2> info_after = {1e9, 1e9};
};

struct Query {
  std::vector<QueryTerm> terms;  // at most kQueryTermsMax
  uint32_t own_units = 0;        // words of the message with content, known to the index or not
  uint32_t own_known = 0;        // of these: in the index, and not in many turns
  uint32_t inherited_units = 0;
  uint32_t digest = 0;  // as TurnInfo::user_digest
  Cues cues;
};

Query BuildQuery(Analyser& analyser, const RecallIndex& index, const Question& question);

}  // namespace tenuto
