// Turns from elsewhere: items become whole turns of a session without the model, as if they had
// been said here. Their KV is computed when a turn needs it. Blocking; runs on the pool, touches no
// core state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/context.h"
#include "session/prepare.h"

namespace tenuto {

struct ImportItem {
  ChatMessage message;                 // roles system (only in front), user, assistant, tool
  int64_t unix_ms = 0;                 // 0: not given
  std::string client_id;               // the client's own name for it; "" when it has none
  std::optional<int32_t> zone_s = {};  // of who spoke; none: as the session says
};

struct ImportOutcome {
  SessionKey session;
  uint64_t turns = 0;     // added
  uint64_t tokens = 0;    // of them
  bool replayed = false;  // an earlier import, found by its key; nothing was added
};

// What a client names an import by, so that a retry adds nothing. Empty: it does not.
struct ImportKey {
  std::string key;
  std::string request;  // digest of what the key stands for
};

struct ImportPlan {
  std::vector<TurnCommit> commits;  // in order, each on the head of the one before
  ImportOutcome outcome;
};

// A turn is the items up to and with an assistant's that calls no tool; what follows the last
// answer becomes a turn without one, marked incomplete, as do tool calls that nobody answered.
// `loaded` is the session as the log has it. kInvalid, `At` the item as "items[3]": a role that
// can't stand there, an answer to nothing, a result that nobody called for, a system prompt that is
// another than the session's or leaves no room in the window.
Result<ImportPlan> PlanImport(const SessionContext& context, const SessionKey& key,
                              const LoadedSession& loaded, std::vector<ImportItem> items);

// The key and the outcome go with the first turn, so they are there when the turns are.
void KeepKey(ImportPlan& plan, const ImportKey& once);
// What the import with this key did; none: there was none, or its first turn was deleted.
// kConflict: the key was used for another request.
Result<std::optional<ImportOutcome>> FindImport(TokenLog& log, const SessionRow& row,
                                                const ImportKey& once);

}  // namespace tenuto
