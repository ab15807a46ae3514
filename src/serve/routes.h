// The one table of what is served. Everything not in it is 404; with an API key, everything in it
// needs the key unless it says so. Tests walk it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/app.h"
#include "serve/target.h"

namespace tenuto {

// What of the path and query a handler gets.
struct RouteCall {
  AppPtr app;
  ExchangePtr exchange;
  std::string_view route;  // the path of the table
  std::string id;          // what stood for {id}, decoded
  std::string turn;        // and for {turn}
  Target target;           // points into exchange->request()
};

struct Route {
  std::string_view method;
  std::string_view path;  // segments; "{id}" and "{turn}" stand for one each
  void (*handler)(const RouteCall&) = nullptr;
  bool open = false;  // needs no key
  // Of a path of Tenuto's own: names of the parameters that its query may have, with a space
  // between; another is 400. Others take any: their clients have their own.
  const char* query = nullptr;
};

std::span<const Route> Routes();

struct RouteMatch {
  const Route* route = nullptr;
  std::string_view path;  // of the table, also where only the method is wrong; "" for no such path
  std::string id;
  std::string turn;
  std::string allow;    // methods of this path, for Allow
  bool bad_id = false;  // {id} or {turn} can't be decoded
};
// HEAD is answered by GET's handler.
RouteMatch MatchRoute(std::string_view method, std::string_view path);

// What is refused before the body is read: access, path, method, media type. nullopt: go on.
std::optional<HttpResponse> CheckRequest(const AppPtr& app, const HttpRequest& request);
// REQUIRES: CheckRequest let it pass.
void HandleRequest(const AppPtr& app, const ExchangePtr& exchange);

}  // namespace tenuto
