// The prompt that a turn of the log had, put together again. Blocking.
#pragma once

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
  bool same = true;                   // all quotes are what they were

  std::vector<TokenId> tokens() const;
  // Of turn.prompt: what would close a turn that is not there.
  int32_t stray_close() const {
    return window.closes_nothing() ? static_cast<int32_t>(turn.close_tokens) : 0;
  }
};

// kNotFound: no such turn, or a deleted one. kInvalid, at "without": the turn did not quote that
// one, which is to be left out (empty: none).
Result<StoredPrompt> ReadStoredPrompt(TokenLog& log, const TokenizeText& tokenize,
                                      const SessionRow& row, const TurnId& turn,
                                      const TurnId& without);

// Where each token of the prompt came from.
TurnExplanation Explain(const SessionRow& row, const StoredPrompt& prompt);

}  // namespace tenuto
