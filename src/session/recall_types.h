// What recall did for a turn, and what is asked of a session's memory apart from turns: values that
// serve/ and session/ say to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace tenuto {

enum class RecallMode : uint8_t { kAuto, kOff, kForced };

// An archived turn that was looked at for a message.
struct RecallCandidate {
  TurnId turn;
  double score = 0.0;
  std::vector<std::string> terms;  // of the message, found in the turn
  bool injected = false;
  std::string why;  // RecallWhyName
  // So many turns outside of the window say the same, and this is the newest of them.
  uint32_t newest_of = 1;
};

struct RecallOutcome {
  std::string decision = "off";             // "injected", "gated", "empty", "off"
  int32_t tokens = 0;                       // of the recall span, frame included
  std::vector<RecallCandidate> candidates;  // best first
  // Turns that had to be indexed within this turn since there was no idle time before it.
  uint64_t indexed_now = 0;
};

// A search in one session, or in all of a user's.
struct MemorySearch {
  std::optional<SessionKey> session;
  std::string tenant, user;  // without a session
  std::string query;
  std::string timezone = {};  // of who asks; "": as the session says
  size_t limit = 10;          // <= 100
};
struct MemoryHit {
  SessionKey session;
  TurnId turn;
  std::string client_id;  // of the turn's first item that has one
  double score = 0.0;
  std::vector<std::string> terms;
  int64_t unix_ms = 0;
  std::string text;      // "user: ...\ntool: ...\nassistant: ...", those there are
  bool excerpt = false;  // of a longer turn, around the words that match
};
struct MemoryAnswer {
  std::vector<MemoryHit> hits;  // best first
  std::string decision;         // what the gate would do: "injected", "gated", "empty"
};

// A part of a turn's prompt, in order.
struct PromptSpan {
  std::string kind;  // "head", "pinned", "turn", "recall", "message"
  TurnId turn;       // whose; the turn itself for its recall and message
  int32_t tokens = 0;
  std::vector<TurnId> quoted;  // of a recall span
};
struct TurnExplanation {
  TurnId turn;
  uint64_t line = 0;  // number of the turn in its session, from 1
  std::vector<PromptSpan> spans;
  int32_t prompt_tokens = 0;
  RecallOutcome recall;
  // False: what was quoted then can't be quoted now (a turn was deleted since), so the prompt is
  // not quite what it was.
  bool same_prompt = true;
};

// The prompt that a turn had, for running it again.
struct TurnPrompt {
  TurnId turn;
  std::vector<TokenId> tokens;  // the whole prompt, recall spans included
  std::vector<TokenId> answer;  // as the log has it
  std::string text;             // of that answer
  // Why it is not the prompt that was run: "without" (since that was asked for), or as
  // StoredPrompt::differs. "": it is.
  std::string differs;
};

// What a client says about a turn. Absent: unchanged.
struct TurnChange {
  std::optional<bool> pinned;
  std::optional<bool> recall;           // false: never recalled
  std::optional<TurnId> superseded_by;  // empty id: by nothing any more
};
struct TurnState {
  TurnId turn;
  bool pinned = false;
  bool recall = true;
  TurnId superseded_by;
};

struct TurnDeletion {
  TurnId turn;
  std::vector<TurnId> used_by;  // turns whose prompts held it, whole or quoted
};

}  // namespace tenuto
