// What every handler works with. One per server, shared by all of its requests; lives until the
// last of them is over. Thread-safe: constant after construction, but for what says otherwise.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/metrics.h"
#include "base/mutex.h"
#include "io/runner.h"
#include "schedule/service.h"
#include "serve/access.h"
#include "serve/http/exchange.h"
#include "serve/requests/generate.h"
#include "serve/settings.h"

namespace tenuto {

class HttpListener;

inline constexpr std::string_view kHealthPath = "/health";
inline constexpr std::string_view kStoppingText = "the server is shutting down";

struct App : std::enable_shared_from_this<App> {
  App(ServeSettings settings_in, Service& service_in, Metrics& metrics_in);

  const ServeSettings settings;
  Service& service;
  Metrics& metrics;
  const AccessRules access;
  const std::string model;       // its name in answers
  const RequestContext context;  // for parsers
  const int64_t started_unix_s;
  PoolRunner work;  // tokenizing: blocking, so never on a loop
  std::atomic<bool> stopping{false};
  std::atomic<const HttpListener*> listener{
      nullptr};  // null until Open is through; gone when no handler runs

  // Answers and counts. `route` is the path of the table, "" for none.
  void Reply(const ExchangePtr& exchange, std::string_view route, HttpResponse response);
  void ReplyError(const ExchangePtr& exchange, std::string_view route, const Error& error);
  void Count(std::string_view route, int status);
  // Answers with what `make` returns, which runs on the pool: a text of megabytes must not hold up
  // a loop. It is not called when the client has left before its turn came, nor while the server
  // stops (503).
  void ReplyFromPool(const ExchangePtr& exchange, std::string_view route,
                     std::function<HttpResponse()> make);
  // Logs each unknown field name once, and only so many.
  void NoteIgnored(const std::vector<std::string>& names);

 private:
  Mutex mutex_;
  std::set<std::string> noted_ TENUTO_GUARDED_BY(mutex_);
};

using AppPtr = std::shared_ptr<App>;

// `prefix` and 24 random characters.
std::string RandomId(std::string_view prefix);
// The client's own X-Request-Id where it is well formed, else a new one.
std::string RequestIdOf(const HttpRequest& request);

}  // namespace tenuto
