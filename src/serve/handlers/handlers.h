// The handlers of the route table, by file: basic.cc, export.cc, memory.cc, sessions.cc, turns.cc.
// All run on the loop of their exchange and answer it once, now or later.
#pragma once

namespace tenuto {

struct RouteCall;

// basic.cc
void HandleHealth(const RouteCall& call);
void HandleMetrics(const RouteCall& call);
void HandleProps(const RouteCall& call);
void HandleModels(const RouteCall& call);
void HandleModel(const RouteCall& call);
void HandleTokenize(const RouteCall& call);
void HandleDetokenize(const RouteCall& call);

// export.cc
void HandleExport(const RouteCall& call);

// turns.cc
void HandleChat(const RouteCall& call);
void HandleCompletions(const RouteCall& call);
void HandleLlamaCompletion(const RouteCall& call);

// sessions.cc
void HandleListSessions(const RouteCall& call);
void HandleGetSession(const RouteCall& call);
void HandleChangeSettings(const RouteCall& call);
void HandleDeleteSession(const RouteCall& call);
void HandleGetTurns(const RouteCall& call);
void HandleImport(const RouteCall& call);

// memory.cc
void HandleSearch(const RouteCall& call);
void HandleExplain(const RouteCall& call);
void HandleReplay(const RouteCall& call);
void HandleChangeTurn(const RouteCall& call);
void HandleDeleteTurn(const RouteCall& call);

}  // namespace tenuto
