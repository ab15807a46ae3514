// The one door to everything behind HTTP: turns, sessions, counters. Which turn runs when is
// decided in admission.h. Thread-safe: each call posts to the core runner and answers by callback
// on the core runner. Callbacks must not block; HTTP threads post on to their own loop from there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/metrics.h"
#include "base/result.h"
#include "chat/message.h"
#include "engine/types.h"
#include "io/runner.h"
#include "schedule/admission.h"
#include "schedule/limits.h"
#include "session/import.h"
#include "session/recall_types.h"
#include "session/session_settings.h"
#include "session/turn_types.h"

namespace tenuto {

class SessionManager;

struct ServiceSettings {
  AdmissionSettings admission{};
  TurnLimitSettings limits{};
};

// Names a submitted turn, for Cancel.
struct TurnTicket {
  uint64_t value = 0;
};

// How a turn is to be run again.
struct ReplayRequest {
  TurnId without;                     // a turn that the prompt is not to quote; empty: none
  std::optional<int32_t> max_tokens;  // none: as many as the stored answer has
};
struct ReplayOutcome {
  TurnId turn, without;
  std::string text;         // what the prompt gives now, greedily
  std::string stored_text;  // the answer in the log
  bool equal = false;       // the same tokens, as far as max_tokens reaches
  std::string differs;      // why another prompt was run than then, as TurnPrompt; "": the same
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  std::string finish_reason;
};

class Service {
 public:
  Service(ServiceSettings settings, SessionManager& sessions, Runner& core, Metrics& metrics);
  ~Service();

  const EngineInfo& engine_info() const;
  int32_t window_tokens() const;      // most tokens of one session
  int32_t turns_running_max() const;  // turns that run at once

  // Any thread, blocking, for /tokenize, /detokenize and the like.
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special,
                                        bool parse_special) const;
  std::string TokenText(TokenId token, bool special) const;

  // sink.on_done comes exactly once, also after Cancel or an error.
  TurnTicket Submit(TurnRequest request, TurnSink sink);
  // The client is gone: the turn ends at the next step; what was generated is committed as an
  // incomplete turn. A replay just ends.
  void Cancel(TurnTicket ticket);

  void ListSessions(std::string tenant, std::string user, std::string after, size_t limit,
                    std::function<void(Result<SessionListing>)> done);
  void GetSession(SessionKey key, std::function<void(Result<SessionInfo>)> done);
  void GetTurns(SessionKey key, TurnPageRequest page, std::function<void(Result<TurnPage>)> done);
  // As SessionManager::Import. kUnavailable while the server stops.
  void ImportItems(SessionKey key, std::vector<ImportItem> items,
                   std::function<void(Result<ImportOutcome>)> done, ImportKey once = {});
  void ReadLine(SessionKey key, LineCursor from, std::function<void(Result<LinePage>)> done);
  // kConflict while a turn of it runs.
  void DeleteSession(SessionKey key, std::function<void(Status)> done);

  // As the session manager's. kUnavailable while the server stops.
  void Search(MemorySearch search, std::function<void(Result<MemoryAnswer>)> done);
  void Explain(SessionKey key, TurnId turn, std::function<void(Result<TurnExplanation>)> done);
  void ChangeTurn(SessionKey key, TurnId turn, TurnChange change,
                  std::function<void(Result<TurnState>)> done);
  void ChangeSettings(SessionKey key, SettingsPatch patch,
                      std::function<void(Result<SessionInfo>)> done);
  void DeleteTurn(SessionKey key, TurnId turn, std::function<void(Result<TurnDeletion>)> done);
  // Runs the prompt that a turn had once more, greedily; admitted like any turn, and leaves
  // nothing. Errors of SessionManager::ReadPrompt and of Submit. `done` comes also after Cancel.
  TurnTicket Replay(SessionKey key, TurnId turn, ReplayRequest request,
                    std::function<void(Result<ReplayOutcome>)> done);

  // Refuses new turns (kUnavailable), ends running ones at a token boundary, commits them, waits
  // for exports; then `done`. Streams get their last chunk before it.
  void Shutdown(std::function<void()> done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tenuto
