#include "serve/routes.h"

#include <array>
#include <utility>

#include "serve/answers/errors.h"
#include "serve/handlers/handlers.h"

namespace tenuto {
namespace {

constexpr size_t kShownBytesMax = 64;

constexpr std::array kRoutes = {
    Route{"GET", kHealthPath, HandleHealth, true},
    Route{"GET", "/metrics", HandleMetrics},
    Route{"GET", "/props", HandleProps},
    Route{"GET", "/v1/models", HandleModels},
    Route{"GET", "/v1/models/{id}", HandleModel},
    Route{"POST", "/v1/chat/completions", HandleChat},
    Route{"POST", "/v1/completions", HandleCompletions},
    Route{"POST", "/completion", HandleLlamaCompletion},
    Route{"POST", "/completions", HandleLlamaCompletion},
    Route{"POST", "/tokenize", HandleTokenize},
    Route{"POST", "/detokenize", HandleDetokenize},
    Route{"GET", "/v1/sessions", HandleListSessions, false, "limit after user"},
    Route{"GET", "/v1/sessions/{id}", HandleGetSession, false, ""},
    Route{"PATCH", "/v1/sessions/{id}", HandleChangeSettings, false, ""},
    Route{"DELETE", "/v1/sessions/{id}", HandleDeleteSession, false, ""},
    Route{"GET", "/v1/sessions/{id}/turns", HandleGetTurns, false, "limit after order"},
    Route{"GET", "/v1/sessions/{id}/export", HandleExport, false, ""},
    Route{"POST", "/v1/sessions/{id}/import", HandleImport, false, ""},
    Route{"PATCH", "/v1/sessions/{id}/turns/{turn}", HandleChangeTurn, false, ""},
    Route{"DELETE", "/v1/sessions/{id}/turns/{turn}", HandleDeleteTurn, false, ""},
    Route{"GET", "/v1/sessions/{id}/turns/{turn}/explain", HandleExplain, false, ""},
    Route{"POST", "/v1/sessions/{id}/turns/{turn}/replay", HandleReplay, false, ""},
    Route{"POST", "/v1/memory/search", HandleSearch, false, ""},
};

// What of a path stands for the segments in braces, as sent.
struct Named {
  std::string_view id, turn;

  std::string_view* Find(std::string_view segment) {
    if (segment == "{id}") return &id;
    if (segment == "{turn}") return &turn;
    return nullptr;
  }
};

// Segment by segment; one in braces stands for any that is not empty.
bool MatchesPath(std::string_view pattern, std::string_view path, Named& named) {
  while (true) {
    if (pattern.empty() || path.empty()) return pattern.empty() && path.empty();
    if (!pattern.starts_with('/') || !path.starts_with('/')) return false;
    pattern.remove_prefix(1);
    path.remove_prefix(1);
    const std::string_view want = pattern.substr(0, pattern.find('/'));
    const std::string_view have = path.substr(0, path.find('/'));
    if (std::string_view* name = named.Find(want); name != nullptr) {
      if (have.empty()) return false;
      *name = have;
    } else if (want != have) {
      return false;
    }
    pattern.remove_prefix(want.size());
    path.remove_prefix(have.size());
  }
}

// JSON by any of the names it goes by; curl's -d says it is a form.
bool IsAcceptedMediaType(std::string_view value) {
  const std::string_view type = value.substr(0, value.find_first_of("; \t"));
  if (EqualsIgnoreCase(type, "application/x-www-form-urlencoded")) return true;
  if (EqualsIgnoreCase(type, "application/x-ndjson") || EqualsIgnoreCase(type, "application/jsonl"))
    return true;
  return EqualsIgnoreCase(type, "application/json") || EqualsIgnoreCase(type, "text/json") ||
         EqualsIgnoreCase(type, "text/plain");
}

std::optional<HttpResponse> CheckMediaType(const HttpRequest& request) {
  if (request.method != "POST" && request.method != "PATCH") return std::nullopt;
  if (request.Find("Content-Encoding") != nullptr) {
    return ErrorResponse(415, "Content-Encoding is not supported: send the JSON as it is");
  }
  const std::string* type = request.Find("Content-Type");
  if (type != nullptr && !IsAcceptedMediaType(*type)) {
    return ErrorResponse(415, "the body must be application/json");
  }
  return std::nullopt;
}

// What is misspelt would silently ask for something else.
std::optional<HttpResponse> CheckQuery(const Route& route, const Target& target) {
  if (route.query == nullptr) return std::nullopt;
  for (const auto& [name, value] : target.query) {
    const std::string known = " " + std::string(route.query) + " ";
    if (!name.empty() && known.find(" " + name + " ") != std::string::npos) continue;
    const std::string shown = name.substr(0, kShownBytesMax);
    return ErrorResponse(
        Error(Code::kInvalid,
              "the query parameter '" + shown + "' is not known here; " +
                  (known.size() > 2 ? "there are:" + known.substr(0, known.size() - 1)
                                    : std::string("this path takes none")))
            .At(shown));
  }
  return std::nullopt;
}

std::optional<HttpResponse> CheckRoute(const HttpRequest& request, const RouteMatch& match,
                                       const std::optional<Target>& target) {
  if (match.path.empty()) {
    return ErrorResponse(404, "there is nothing at this path; docs/api.md has the list");
  }
  if (request.method == "OPTIONS") {
    HttpResponse response;
    response.status = 204;
    response.headers.push_back({"Allow", match.allow});
    return response;
  }
  if (match.route == nullptr) {
    HttpResponse response =
        ErrorResponse(405, "method " + request.method + " is not allowed at this path");
    response.headers.push_back({"Allow", match.allow});
    return response;
  }
  if (match.bad_id || !target) {
    return ErrorResponse(400, "the request target is not well percent-encoded");
  }
  if (auto refusal = CheckQuery(*match.route, *target)) return refusal;
  return CheckMediaType(request);
}

}  // namespace

std::span<const Route> Routes() {
  return kRoutes;
}

RouteMatch MatchRoute(std::string_view method, std::string_view path) {
  RouteMatch match;
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : kRoutes) {
    Named named;
    if (!MatchesPath(route.path, path, named)) continue;
    match.path = route.path;
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += route.method;
    if (route.method == "GET") match.allow += ", HEAD";
    if (route.method != wanted) continue;
    match.route = &route;
    auto id = PercentDecode(named.id, false);
    auto turn = PercentDecode(named.turn, false);
    match.bad_id = !id || !turn;
    match.id = std::move(id).value_or("");
    match.turn = std::move(turn).value_or("");
  }
  if (!match.allow.empty()) match.allow += ", OPTIONS";
  return match;
}

std::optional<HttpResponse> CheckRequest(const AppPtr& app, const HttpRequest& request) {
  const std::optional<Target> target = ParseTarget(request.target);
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  const RouteMatch match = MatchRoute(request.method, path);
  const bool open = match.route != nullptr && match.route->open;
  std::optional<HttpResponse> refusal = app->access.Check(request, open);
  if (!refusal) refusal = CheckRoute(request, match, target);
  if (refusal) {
    refusal->headers.push_back({"X-Request-Id", RequestIdOf(request)});
    app->Count(match.path, refusal->status);
  }
  return refusal;
}

void HandleRequest(const AppPtr& app, const ExchangePtr& exchange) {
  const HttpRequest& request = exchange->request();
  std::optional<Target> target = ParseTarget(request.target);
  if (!target) return app->Reply(exchange, "", ErrorResponse(400, "the request target is broken"));
  RouteMatch match = MatchRoute(request.method, target->path);
  if (match.route == nullptr) return app->Reply(exchange, "", ErrorResponse(404, "no such path"));
  match.route->handler(RouteCall{app, exchange, match.path, std::move(match.id),
                                 std::move(match.turn), std::move(*target)});
}

}  // namespace tenuto
