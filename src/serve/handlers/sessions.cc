// /v1/sessions: list, look, turns, delete.
#include "serve/answers/sessions.h"

#include <charconv>
#include <utility>

#include "serve/answers/errors.h"
#include "serve/handlers/handlers.h"
#include "serve/requests/import.h"
#include "serve/routes.h"

namespace tenuto {
namespace {

constexpr size_t kListDefault = 20;
constexpr size_t kListMax = 100;
constexpr size_t kTurnsDefault = 100;
constexpr size_t kTurnsMax = 1000;

HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

// Hands a service's answer back to the loop of the exchange.
void PostReply(const RouteCall& call, HttpResponse response) {
  call.exchange->Post([app = call.app, exchange = call.exchange, route = call.route,
                       response = std::move(response)] { app->Reply(exchange, route, response); });
}

Result<size_t> ReadLimit(const Target& target, size_t otherwise, size_t most) {
  const std::string* text = target.Find("limit");
  if (text == nullptr) return otherwise;
  size_t limit = 0;
  const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (ec != std::errc() || end != text->data() + text->size() || limit < 1 || limit > most) {
    return Error(Code::kInvalid, "'limit' must be from 1 to " + std::to_string(most)).At("limit");
  }
  return limit;
}

Result<TurnPageRequest> ReadTurnPage(const Target& target) {
  TurnPageRequest page;
  TENUTO_ASSIGN(page.limit, ReadLimit(target, kTurnsDefault, kTurnsMax));
  if (const std::string* after = target.Find("after"); after != nullptr) page.after = *after;
  if (const std::string* order = target.Find("order"); order != nullptr) {
    if (*order != "asc" && *order != "desc")
      return Error(Code::kInvalid, "'order' must be asc or desc").At("order");
    page.newest_first = *order == "desc";
  }
  return page;
}

// Parses the {id} of the path; answers the request itself when that fails.
std::optional<SessionKey> KeyOf(const RouteCall& call) {
  auto key = ParseSessionKey(call.id);
  if (key) return std::move(key).value();
  call.app->ReplyError(call.exchange, call.route, std::move(key).error().At("session_id"));
  return std::nullopt;
}

}  // namespace

void HandleListSessions(const RouteCall& call) {
  const auto limit = ReadLimit(call.target, kListDefault, kListMax);
  if (!limit) return call.app->ReplyError(call.exchange, call.route, limit.error());
  std::string after;
  if (const std::string* text = call.target.Find("after"); text != nullptr && !text->empty()) {
    const auto key = ParseSessionKey(*text);
    if (!key) {
      return call.app->ReplyError(call.exchange, call.route, Error(key.error()).At("after"));
    }
    after = key->Full();
  }
  // Until there are credentials, whoever reaches the server may name any user: no user named lists
  // all.
  const std::string* user = call.target.Find("user");
  const bool all = user == nullptr || user->empty();
  call.app->service.ListSessions(all ? "" : "default", all ? "" : *user, std::move(after), *limit,
                                 [call](Result<SessionListing> listing) {
                                   PostReply(call, listing ? JsonResponse(SessionListBody(*listing))
                                                           : ErrorResponse(listing.error()));
                                 });
}

void HandleGetSession(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  call.app->service.GetSession(*key, [call](Result<SessionInfo> session) {
    PostReply(call, session ? JsonResponse(SessionBody(*session)) : ErrorResponse(session.error()));
  });
}

void HandleGetTurns(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  auto page = ReadTurnPage(call.target);
  if (!page) return call.app->ReplyError(call.exchange, call.route, page.error());
  call.app->service.GetTurns(*key, std::move(page).value(), [call](Result<TurnPage> turns) {
    PostReply(call, turns ? JsonResponse(TurnListBody(*turns)) : ErrorResponse(turns.error()));
  });
}

void HandleImport(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  // Megabytes of JSON: not on the loop.
  call.app->work.Post([call, key = *key] {
    auto items = ParseImportBody(call.exchange->request().body);
    if (!items) return PostReply(call, ErrorResponse(items.error()));
    call.app->service.ImportItems(
        key, std::move(items).value(), [call](Result<ImportOutcome> outcome) {
          PostReply(call,
                    outcome ? JsonResponse(ImportBody(*outcome)) : ErrorResponse(outcome.error()));
        });
  });
}

void HandleDeleteSession(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  call.app->service.DeleteSession(*key, [call, key = *key](const Status& status) {
    PostReply(call, status ? JsonResponse(SessionDeletedBody(key)) : ErrorResponse(status.error()));
  });
}

}  // namespace tenuto
