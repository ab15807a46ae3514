// The state of one turn and of what it runs on, between admission and the end. Plain state, no
// behaviour; belongs to the core runner. Internal to session/ and schedule/.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/chain.h"
#include "session/prepare.h"
#include "session/recall_record.h"
#include "session/residency.h"
#include "session/turn_types.h"
#include "session/window.h"

namespace tenuto {

struct Turn;
using TurnPtr = std::shared_ptr<Turn>;

// A session as this process knows it. Its lease (`busy`) is held by one turn at a time.
struct Session {
  SessionKey key;
  Digest256 owner;
  bool loaded = false;              // row, window and chain are those of the log
  std::optional<SessionRow> row;    // none: no turn committed yet
  SessionWindow window;             // what the next prompt starts with, unless it is cut
  KvChain chain;                    // pieces on disk that cover a prefix of the window
  std::vector<int64_t> stale_rows;  // rows to drop when new pieces are stored
  std::vector<KvReason> lost;       // why stored KV can't be used; told with the next turn
  PayloadFileId file;               // where pieces are appended; 0: a new file
  Resident resident;
  Resident spare;  // KV of spare_window, computed ahead of the next cut
  SessionWindow spare_window;
  RunId spare_run;
  SessionMarks marks;        // its pins are those of `window`
  bool marks_stale = false;  // changed in the log
  bool cut_noted = false;    // waits for idle time
  bool busy = false;
  bool settling = false;      // KV of a finished turn is being stored
  bool settle_again = false;  // another turn ended meanwhile
  bool deleting = false;
  std::deque<TurnPtr> waiting;  // turns that want the lease
  std::vector<std::function<void()>> after_settle;
};
using SessionPtr = std::shared_ptr<Session>;

// KV left behind by a request without a session: reused by the next one of the same identity that
// starts alike.
struct Anonymous {
  std::string identity;
  std::vector<TokenId> tokens;  // what [0, live_end) was computed from
  Resident resident;
};
using AnonymousPtr = std::shared_ptr<Anonymous>;

enum class TurnPhase : uint8_t {
  kWaiting,    // for the session's lease
  kPreparing,  // log read, prompt tokenized
  kReady,      // for a place in the engine
  kRestoring,  // KV is read back
  kRunning,    // prefill and decode
  kCommitting,
  kDone,
};

struct Turn {
  uint64_t id = 0;
  TurnRequest request;
  TurnSink sink;
  TurnPhase phase = TurnPhase::kWaiting;
  SessionPtr session;        // none: a request without a session
  AnonymousPtr anonymous;    // set at admission when there is no session
  bool first = false;        // the session's first turn
  SessionSettings settings;  // what holds for it, from its plan on

  TurnTokens tokens;                 // the turn's own prompt
  std::optional<SessionWindow> cut;  // the session's window without its oldest turns
  RecallSpan span;                   // quoted in `tokens`
  RecallRecord recalled;             // of it, for the log
  std::vector<TokenId> answered;     // sampled before a preemption
  std::string text;                  // of the answer so far
  std::string request_digest;        // of what an idempotency key stands for

  RunId run;
  bool cancelled = false;        // the client is gone
  bool stopping = false;         // the server is going down
  std::optional<Error> refused;  // it waits for nothing any more and is not run
  bool pinned = false;         // holds a pin on its resident: between Admit and the end of its run
  int64_t charged_tokens = 0;  // what its owner was charged so far
  uint64_t admitted_order = 0;
  SeqId copy_from;  // a live sequence that starts alike, whose prefix is shared at the start of the
                    // run
  TokenPos copy_end = 0;

  uint64_t commit_bytes = 0;  // what its commit adds to the session's

  TokenPos taken_ahead = 0;  // KV of the cut window that was there already

  int64_t created_unix_ms = 0;
  int32_t zone_s = 0;  // of who asks, then
  int64_t submitted_ns = 0;
  int64_t admitted_ns = 0;
  int64_t commit_started_ns = 0;
  int32_t preemptions = 0;
  TurnOutcome outcome;

  // The tokens before the turn's own, as the engine gets them. None without a session.
  const SessionWindow* history() const {
    if (session == nullptr) return nullptr;
    return cut ? &*cut : &session->window;
  }
  // The turn's own part of its prompt.
  std::vector<TokenId> prompt() const {
    auto own = WithSpan(tokens.suffix, span);
    own.erase(own.begin(), own.begin() + stray_close());
    return own;
  }
  int32_t prompt_size() const {
    return static_cast<int32_t>(tokens.suffix.size() + span.tokens.size()) - stray_close();
  }
  int32_t stray_close() const {
    const SessionWindow* before = history();
    return before != nullptr && before->closes_nothing() ? static_cast<int32_t>(tokens.close_tokens)
                                                         : 0;
  }
  Resident& resident() { return session ? session->resident : anonymous->resident; }
};

}  // namespace tenuto
