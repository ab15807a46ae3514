// /v1/sessions: list, look, settings, turns, delete.
#include "serve/answers/sessions.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "crypto/hash.h"
#include "serve/handlers/handlers.h"
#include "serve/handlers/reply.h"
#include "serve/json/parse.h"
#include "serve/requests/generate.h"
#include "serve/requests/import.h"

namespace tenuto {
namespace {

// A setting that nobody knows is refused, strict or not: a limit misspelt would hold nothing.
Result<SettingsPatch> ParseSettingsPatch(std::string_view body) {
  TENUTO_ASSIGN(const boost::json::object object, ParseJsonObject(body));
  return SettingsPatchFrom(object);
}

constexpr size_t kListDefault = 20;
constexpr size_t kListMax = 100;
constexpr size_t kTurnsDefault = 100;
constexpr size_t kTurnsMax = 1000;

// Which of two would be meant is anybody's guess.
Status GivenOnce(const Target& target, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto count =
        std::count_if(target.query.begin(), target.query.end(),
                      [&](const auto& parameter) { return parameter.first == name; });
    if (count > 1) {
      return Error(Code::kInvalid, "'" + std::string(name) + "' is given more than once")
          .At(std::string(name));
    }
  }
  return Ok();
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
  TENUTO_TRY(GivenOnce(target, {"limit", "after", "order"}));
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

}  // namespace

void HandleListSessions(const RouteCall& call) {
  if (const Status once = GivenOnce(call.target, {"limit", "after", "user"}); !once)
    return call.app->ReplyError(call.exchange, call.route, once.error());
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
                                 [call](const Result<SessionListing>& listing) {
                                   PostResult(call, listing, SessionListBody);
                                 });
}

void HandleGetSession(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  call.app->service.GetSession(
      *key, [call](const Result<SessionInfo>& session) { PostResult(call, session, SessionBody); });
}

void HandleGetTurns(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  auto page = ReadTurnPage(call.target);
  if (!page) return call.app->ReplyError(call.exchange, call.route, page.error());
  call.app->service.GetTurns(*key, std::move(page).value(), [call](const Result<TurnPage>& turns) {
    PostResult(call, turns, TurnListBody);
  });
}

void HandleImport(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  auto headers = ReadRequestHeaders(call.exchange->request());
  if (!headers) return call.app->ReplyError(call.exchange, call.route, headers.error());
  // Megabytes of JSON: not on the loop.
  call.app->work.Post([call, key = *key, once = std::move(headers->idempotency_key)] {
    const std::string& body = call.exchange->request().body;
    auto items = ParseImportBody(body);
    if (!items) return PostReply(call, ErrorResponse(items.error()));
    call.app->service.ImportItems(
        key, std::move(items).value(),
        [call](const Result<ImportOutcome>& outcome) { PostResult(call, outcome, ImportBody); },
        {once, once.empty() ? "" : Sha256Of(body).Hex()});
  });
}

void HandleChangeSettings(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  const auto patch = ParseSettingsPatch(call.exchange->TakeBody());
  if (!patch) return call.app->ReplyError(call.exchange, call.route, patch.error());
  call.app->service.ChangeSettings(*key, *patch, [call](const Result<SessionInfo>& session) {
    PostResult(call, session, SessionBody);
  });
}

void HandleDeleteSession(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  call.app->service.DeleteSession(*key, [call, key = *key](const Status& status) {
    PostResult(call, status, [&](Unit) { return SessionDeletedBody(key); });
  });
}

}  // namespace tenuto
