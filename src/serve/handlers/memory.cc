// A session's memory: search, what a turn's prompt was made of, running it again, and what a client
// says about a turn.
#include "serve/answers/memory.h"

#include <utility>

#include "serve/handlers/handlers.h"
#include "serve/handlers/reply.h"
#include "serve/requests/memory.h"

namespace tenuto {
namespace {

// {id} and {turn} of the path.
struct TurnPlace {
  SessionKey session;
  TurnId turn;
};

// nullopt: they name nothing that can be, and the request is answered.
std::optional<TurnPlace> PlaceOf(const RouteCall& call) {
  auto key = KeyOf(call);
  if (!key) return std::nullopt;
  if (LooksLikeTurnId(call.turn)) return TurnPlace{std::move(*key), TurnId{call.turn}};
  call.app->ReplyError(call.exchange, call.route,
                       Error(Code::kNotFound, "this is no turn's id").At("turn"));
  return std::nullopt;
}

}  // namespace

void HandleSearch(const RouteCall& call) {
  auto headers = ReadRequestHeaders(call.exchange->request());
  if (!headers) return call.app->ReplyError(call.exchange, call.route, headers.error());
  auto request = ParseSearchRequest(call.exchange->TakeBody(), *headers, call.app->settings.strict);
  if (!request) return call.app->ReplyError(call.exchange, call.route, request.error());
  call.app->NoteIgnored(request->ignored);
  call.app->service.Search(std::move(request->search), [call, ignored = request->ignored](
                                                           const Result<MemoryAnswer>& answer) {
    PostResult(call, answer, [&](const MemoryAnswer& a) { return SearchBody(a, ignored); });
  });
}

void HandleExplain(const RouteCall& call) {
  const auto place = PlaceOf(call);
  if (!place) return;
  call.app->service.Explain(
      place->session, place->turn,
      [call, key = place->session](const Result<TurnExplanation>& explanation) {
        PostResult(call, explanation,
                   [&](const TurnExplanation& e) { return ExplanationBody(key, e); });
      });
}

void HandleReplay(const RouteCall& call) {
  const auto place = PlaceOf(call);
  if (!place) return;
  auto body = ParseReplayRequest(call.exchange->TakeBody(), call.app->settings.strict);
  if (!body) return call.app->ReplyError(call.exchange, call.route, body.error());
  call.app->NoteIgnored(body->ignored);
  const TurnTicket ticket = call.app->service.Replay(
      place->session, place->turn, std::move(body->request),
      [call, key = place->session, ignored = body->ignored](const Result<ReplayOutcome>& outcome) {
        PostResult(call, outcome,
                   [&](const ReplayOutcome& o) { return ReplayAnswerBody(key, o, ignored); });
      });
  call.exchange->SetGone([app = call.app, ticket](bool) { app->service.Cancel(ticket); });
}

void HandleChangeTurn(const RouteCall& call) {
  const auto place = PlaceOf(call);
  if (!place) return;
  auto request = ParseTurnChange(call.exchange->TakeBody(), call.app->settings.strict);
  if (!request) return call.app->ReplyError(call.exchange, call.route, request.error());
  call.app->NoteIgnored(request->ignored);
  call.app->service.ChangeTurn(
      place->session, place->turn, std::move(request->change),
      [call, key = place->session, ignored = request->ignored](const Result<TurnState>& state) {
        PostResult(call, state, [&](const TurnState& s) { return TurnStateBody(key, s, ignored); });
      });
}

void HandleDeleteTurn(const RouteCall& call) {
  const auto place = PlaceOf(call);
  if (!place) return;
  call.app->service.DeleteTurn(place->session, place->turn,
                               [call](const Result<TurnDeletion>& deletion) {
                                 PostResult(call, deletion, TurnDeletedBody);
                               });
}

}  // namespace tenuto
