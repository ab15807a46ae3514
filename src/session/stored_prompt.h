// The prompt that a turn of the log had, put together again. Blocking.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/suffix.h"
#include "session/quote.h"
#include "session/recall_types.h"
#include "tokenlog/log.h"

namespace tenuto {

struct StoredPrompt {
  uint64_t line = 0;  // the turn's number, from 1
  TurnRow turn;
  RecallRecord record;                // of the turn
  StoredSpan span;                    // what it quoted
  std::vector<TurnRow> before;        // turns of the window in front of it
  std::vector<RecallRecord> records;  // theirs
  SessionWindow window;               // what the prompt began with
  bool same = true;                   // it is what it was
  // Why it is not: "deleted" (a turn that was in it), "wording" (of the frame or of what stood in
  // it); "" where it is the same.
  std::string differs;

  std::vector<TokenId> tokens() const;
  // Of turn.prompt: what would close a turn that is not there.
  int32_t stray_close() const {
    return window.closes_nothing() ? static_cast<int32_t>(turn.close_tokens) : 0;
  }
};

// `without`: a turn that is left out, quoted, pinned or whole, as if deleted (empty: none).
// kNotFound: no such turn, or a deleted one. kInvalid, at "without": the prompt does not hold it.
Result<StoredPrompt> ReadStoredPrompt(TokenLog& log, const TokenizeText& tokenize,
                                      const SessionRow& row, const TurnId& turn,
                                      const TurnId& without);

// Turns whose prompts held `turn`, whole or quoted, in order: the answers that may tell of it.
// Imported and deleted ones do not count: no prompt of theirs was run, or nothing is left of it.
// Reads the line from the turn on.
Result<std::vector<TurnId>> ReadUsers(TokenLog& log, const SessionRow& row, const TurnId& turn);

// Where each token of the prompt came from.
TurnExplanation Explain(const SessionRow& row, const StoredPrompt& prompt);

}  // namespace tenuto
