// What a turn needs before it can be planned: the session from the log, the answer to a retry, the
// prompt's tokens. Blocking; runs on the pool, touches no core state.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "session/chain.h"
#include "session/context.h"
#include "session/items.h"
#include "session/session_settings.h"
#include "session/turn_types.h"
#include "session/window.h"

namespace tenuto {

// What clients have said about a session and its turns.
struct SessionMarks {
  SessionOverrides overrides;
  std::vector<PinnedTurn> pins;             // by line
  std::vector<uint64_t> never_recalled;     // lines, sorted
  std::map<uint64_t, uint64_t> superseded;  // the line that holds instead, by line
};

// kConflict: the session was written by a model with another vocabulary.
Status CheckVocabulary(const SessionContext& context, const SessionRow& row);

// Blocking.
Result<SessionMarks> LoadMarks(TokenLog& log, const SessionRow& row);

// The session's part of the log.
struct LoadedSession {
  std::optional<SessionRow> row;  // none: the log does not know it
  SessionWindow window;
  SessionMarks marks;
  ChainBuild build;
};

// kCorrupt: the log is damaged there. kConflict: written by a model with another vocabulary.
Result<LoadedSession> LoadSession(const SessionContext& context, const SessionKey& key);

struct PrepareInput {
  const TurnRequest& request;
  bool load = false;              // the session is not in memory
  bool load_marks = false;        // it is, and they changed
  std::optional<SessionRow> row;  // when it is
  std::string request_digest;
};

struct Prepared {
  std::optional<LoadedSession> loaded;
  std::optional<SessionMarks> marks;
  std::optional<TurnOutcome> replay;  // the turn was acknowledged before
  TurnTokens tokens;
  std::string raw_prompt;  // text of a token prompt, for the log
};

// kInvalid with the field at fault: system message changed, prompt that can't fit, template
// trouble, token ids out of range. kConflict: an idempotency key used for another request.
Result<Prepared> Prepare(const SessionContext& context, const PrepareInput& input);

}  // namespace tenuto
