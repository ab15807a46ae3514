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
#include "session/import_draft.h"
#include "session/prepare.h"

namespace tenuto {

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

// Puts a tokenized draft on the end of the session as the log has it, `loaded`. What no answer
// ended is marked incomplete. kInvalid, `At` the first item: the system prompt leaves no room in
// the window.
Result<ImportPlan> PlanImport(const SessionContext& context, const SessionKey& key,
                              const LoadedSession& loaded, ImportDraft draft);

// The key and the outcome go with the first turn, so they are there when the turns are.
void KeepKey(ImportPlan& plan, const ImportKey& once);
// What the import with this key did; none: there was none, or its first turn was deleted.
// kConflict: the key was used for another request.
Result<std::optional<ImportOutcome>> FindImport(TokenLog& log, const SessionRow& row,
                                                const ImportKey& once);

}  // namespace tenuto
