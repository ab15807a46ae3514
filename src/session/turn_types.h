// A turn as it is asked for and as it is answered: what serve/ and session/ say to each other.
// Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "chat/message.h"
#include "engine/types.h"
#include "session/recall_types.h"
#include "tokenlog/log.h"

namespace tenuto {

// Interactive turns are admitted before batch ones.
enum class TurnPriority : uint8_t { kInteractive, kBatch };

struct TurnRequest {
  // None: the request leaves nothing on disk and may reuse a live prefix of the same `identity`.
  std::optional<SessionKey> session;
  std::string identity = "default::me::default";  // tenant::user::agent
  TurnPriority priority = TurnPriority::kInteractive;

  // Exactly one of these three is the input.
  enum class Kind : uint8_t { kChat, kText, kTokens };
  Kind kind = Kind::kChat;
  std::vector<ChatMessage>
      messages;  // with a session: the new turn only, perhaps led by the first turn's system items
  std::string text;  // raw text, tokenized with special tokens parsed
  std::vector<TokenId> tokens;

  SamplingParams sampling;
  bool seed_given = false;            // else a random one is drawn and reported
  std::optional<int32_t> max_tokens;  // none: until the window is full; 0 allowed: prefill only
  std::vector<std::string> stop;
  bool ignore_end = false;
  std::string idempotency_key;       // needs a session
  std::optional<RecallMode> recall;  // none: as the settings say
  std::string timezone;              // of who asks, as in ZoneOffset; "": as the settings say
  std::string params_json = "{}";    // as resolved, for the log
};

// Why tokens of a prompt were computed again. The closed list is in docs/reasons.md.
struct KvReason {
  std::string code;  // new tail missing corrupt io fingerprint config prefix owner version state
                     // policy window
  int32_t tokens = 0;
  std::string detail;
};

struct TurnTimes {  // milliseconds
  double queue = 0, restore = 0, prefill = 0, decode = 0, commit = 0;
};

struct TurnOutcome {
  std::optional<SessionKey> session;
  TurnId turn;
  std::string text;             // the whole answer
  std::vector<TokenId> tokens;  // the answer's tokens
  std::string finish_reason;    // "stop", "length", "cancelled", "shutdown"
  std::string stop_string;
  bool replayed = false;  // an earlier answer, found by its idempotency key
  bool incomplete = false;
  uint64_t seed = 0;

  int32_t prompt_tokens = 0;  // the whole window before the answer
  int32_t completion_tokens = 0;
  int32_t reused = 0, restored = 0, recomputed = 0;  // their sum is prompt_tokens
  std::vector<KvReason> reasons;

  int32_t window_turns = 0, window_tokens = 0, window_limit = 0, archived_turns = 0,
          trimmed_turns = 0;
  RecallOutcome recall;
  TurnTimes times;
};

// Callbacks on the core runner; none after on_done.
struct TurnSink {
  std::function<void(const RunChunk&)> on_chunk;  // text of the answer as it comes
  std::function<void(int32_t prefilled, int32_t total)> on_prefill;  // progress; may be empty
  std::function<void(Result<TurnOutcome>)> on_done;                  // after the commit (INV-2)
};

struct SessionInfo {
  struct Window {
    int32_t tokens = 0;
    uint64_t archived_turns = 0;
  };

  SessionRow row;
  std::optional<Window> window;  // not in a listing
  int32_t live_tokens = 0;       // KV in the engine now
  int32_t stored_tokens = 0;     // KV on disk that matches the log
  uint64_t stored_bytes = 0;
  bool running = false;
};

struct TurnPageRequest {
  std::string after;  // id of the last turn that was seen; empty: from the end of the line
  size_t limit = 0;
  bool newest_first = false;  // pages cost what is on them; oldest first costs the whole line
};
struct TurnPage {
  std::vector<TurnRow> turns;
  std::vector<TurnMarks> marks;  // of the session's turns, on this page or not
  bool more = false;
};

// A place in a session's line, for reading all of it in pages.
struct LineCursor {
  TurnId head;         // whose line; empty: the session's as it is then
  uint64_t turns = 0;  // of that line
  uint64_t line = 1;   // the next turn's number
};
struct LinePage {
  std::vector<TurnRow> turns;  // in order
  LineCursor next;
  bool more = false;
};

struct SessionListing {
  std::vector<SessionInfo> sessions;
  bool more = false;
};

}  // namespace tenuto
