// What a session remembers beyond its window: the index of its turns, kept up with the log, and the
// choice of what is quoted for a message. Blocking; used on the pool, thread-safe. Nothing here is
// the truth: an index that is missing, damaged or behind is brought up from the log first, so the
// result never depends on how far indexing had come (INV-1, INV-8).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/suffix.h"
#include "recall/gate.h"
#include "session/index_cache.h"
#include "session/quote.h"
#include "session/recall_types.h"
#include "tokenlog/log.h"

namespace tenuto {

struct RecallSettings {
  double share_max = 0.15;              // of the window, all spans in it together
  int32_t tokens_max = 512;             // of one span
  uint32_t hits_max = 5;                // turns of one span, those that correct others aside
  RecallMode mode = RecallMode::kAuto;  // of requests that do not say
};

// A message about to be answered.
struct RecallQuestion {
  SessionRow row;
  Digest256 owner;
  RecallScope scope;
  // Older turns that the prompt holds all the same, quoted or pinned: of the scope's window.
  std::vector<TurnRange> present;
  std::map<uint64_t, uint64_t> superseded;  // by line: the line that a client says holds instead
  std::string message;
  int64_t now_unix_ms = 0;
  int32_t zone_s = 0;  // of who asks
  bool forced = false;
  bool in_conversation = true;  // false: a search, which leans on nothing said before
  int32_t tokens_max = 0;       // of the span, frame included
  std::string mark;             // of the session's frames so far
};

struct RecallChoice {
  RecallOutcome outcome;
  std::vector<RecallQuote> quotes;
  std::string mark;
  std::string digest;
  RecallSpan span;  // `at` is not set
  // The gate let more through than the budget held, or held whole.
  bool budget_short = false;
};

class RecallMemory {
 public:
  // All outlive it.
  RecallMemory(TokenLog& log, IndexCache& indexes, TokenizeText tokenize,
               const RecallSettings& settings);

  // Errors are those of the log.
  Result<RecallChoice> Choose(const RecallQuestion& question);
  // Off the response path: the index takes in what was committed since.
  Status CatchUp(const SessionRow& row, const Digest256& owner);
  // Of the whole line, the window included.
  Result<MemoryAnswer> Search(const SessionRow& row, const Digest256& owner,
                              const MemorySearch& search, int64_t now_unix_ms, int32_t zone_s);

 private:
  // What is locked while an index is used: brings it up, ranks.
  struct Ranked {
    Ranking ranking;
    std::map<uint32_t, TurnId> ids;  // of hits, by line, where they are known without the log
    std::map<uint32_t, uint32_t> newest_of;  // of hits, by line, where others say the same
    uint64_t indexed_now = 0;
  };
  Result<ArchivedText> LastText(const SessionRow& row);
  GateSettings GateFor(const RecallQuestion& question) const;
  Status Complete(const IndexedSession& entry, Analyser& analyser, const RecallQuestion& question,
                  Ranked& ranked) TENUTO_REQUIRES(entry.mutex);
  // What is quoted of the scope's candidates, and why not.
  Status ChooseArchived(const RecallQuestion& question, RecallChoice& choice);
  // Names what matches and is in the prompt already.
  Status NamePresent(const RecallQuestion& question, RecallChoice& choice);
  struct RankFor {
    size_t hits_max = 0;
    bool to_quote = false;  // with what must come along, and which is the newest of several
  };
  Result<Ranked> Rank(const RecallQuestion& question, const RankFor& what);
  Result<uint64_t> BringUp(IndexedSession& entry, Analyser& analyser, const SessionRow& row)
      TENUTO_REQUIRES(entry.mutex);

  TokenLog& log_;
  IndexCache& indexes_;
  TokenizeText tokenize_;
  RecallSettings settings_;
};

}  // namespace tenuto
