// The recall record: what a turn quoted, stored with it as TurnRow::recall_json
// (docs/formats/recall_record.md). It names turns and parts of them, it holds none of their text:
// what is deleted is gone from here as well. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "recall/excerpt.h"
#include "session/recall_types.h"

namespace tenuto {

inline constexpr uint32_t kRecallRecordVersion = 1;
inline constexpr size_t kRecallQuotesMax = 32;
inline constexpr size_t kRecallCandidatesMax = 32;

// A turn by its number in the session, from 1, and its id.
struct NumberedTurn {
  uint64_t line = 0;
  TurnId turn;
};

// A turn that is quoted, or parts of what its user, its answer and its tools said.
struct RecallQuote {
  TurnId turn;
  uint64_t line = 0;  // its number in the session, from 1
  TextRange user;     // of ArchivedText::user
  TextRange answer;   // of ArchivedText::answer
  TextRange tool;     // of ArchivedText::tool
};

struct RecallRecord {
  // Of the window of this turn's prompt: the first turn whose recall span it still held, and the
  // pinned turns in front.
  uint64_t spans_since = 1;
  std::vector<NumberedTurn> front;
  uint32_t prompt_tokens = 0;  // of the whole prompt
  // A turn of the window was deleted before this one: then the record is kept, so that one can tell
  // whether another was deleted after it. Not stored.
  bool beside_deleted = false;
  std::string mark;  // of the frame around quotes; "": nothing was quoted yet
  uint32_t at = 0;   // where in the prompt the span stands
  uint32_t tokens = 0;
  std::string digest;               // of the span's text: is it still the same?
  std::vector<RecallQuote> quotes;  // in the order of time
  RecallOutcome outcome;
};

// "" for a record that says nothing.
std::string RecordToJson(const RecallRecord& record);
// "" gives an empty record. kCorrupt: not what this module writes.
Result<RecallRecord> RecordFromJson(const std::string& json);

}  // namespace tenuto
