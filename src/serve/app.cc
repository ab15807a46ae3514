#include "serve/app.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "io/clock.h"
#include "serve/answers/errors.h"

namespace tenuto {
namespace {

constexpr int kWorkThreads = 2;
constexpr size_t kNotedMax = 256;
constexpr size_t kRequestIdBytesMax = 128;

RequestContext ContextOf(const ServeSettings& settings, const Service& service,
                         const std::string& model) {
  const EngineInfo& info = service.engine_info();
  return {info.vocabulary_size, service.window_tokens(), info.token_bytes_max, settings.strict,
          model};
}

std::string ModelName(const ServeSettings& settings, const Service& service) {
  return settings.model_alias.empty() ? service.engine_info().model_name : settings.model_alias;
}

}  // namespace

App::App(ServeSettings settings_in, Service& service_in, Metrics& metrics_in)
    : settings(std::move(settings_in)),
      service(service_in),
      metrics(metrics_in),
      access(settings.host, settings.api_key),
      model(ModelName(settings, service)),
      context(ContextOf(settings, service, model)),
      started_unix_s(SystemClock().UnixMs() / 1000),
      work("http-work", kWorkThreads) {}

void App::Reply(const ExchangePtr& exchange, std::string_view route, HttpResponse response) {
  Count(route, response.status);
  response.headers.push_back({"X-Request-Id", RequestIdOf(exchange->request())});
  exchange->Reply(response);
}

void App::ReplyError(const ExchangePtr& exchange, std::string_view route, const Error& error) {
  Reply(exchange, route, ErrorResponse(error));
}

void App::Count(std::string_view route, int status) {
  // No braces inside a label: simple readers of the text take the first '}' for its end.
  std::string name(route.empty() ? "none" : route);
  std::replace(name.begin(), name.end(), '{', ':');
  std::erase(name, '}');
  const std::string labels =
      MetricLabel("route", name) + "," + MetricLabel("status", std::to_string(status));
  metrics.GetCounter("tenuto_http_requests_total", "Answers by route and status", labels).Add();
  // Whoever polls /health expects a 503 while the server comes or goes.
  const bool warn = status >= 500 && route != kHealthPath;
  Log(warn ? LogLevel::kWarn : LogLevel::kDebug, "http.answered",
      {{"route", route}, {"status", status}});
}

void App::ReplyFromPool(const ExchangePtr& exchange, std::string_view route,
                        std::function<HttpResponse()> make) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->SetGone([gone](bool) { *gone = true; });
  work.Post([app = shared_from_this(), exchange, route, gone, make = std::move(make)] {
    if (*gone) return;
    HttpResponse response = app->stopping ? ErrorResponse(503, kStoppingText) : make();
    exchange->Post([app, exchange, route, response = std::move(response)] {
      app->Reply(exchange, route, response);
    });
  });
}

void App::NoteIgnored(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    {
      MutexLock lock(mutex_);
      if (noted_.size() >= kNotedMax || !noted_.insert(name).second) continue;
    }
    Log(LogLevel::kWarn, "request.field_ignored", {{"field", name}});
  }
}

std::string RandomId(std::string_view prefix) {
  static constexpr char kAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
  std::array<std::byte, 24> entropy;
  SystemRandom().Fill(entropy);
  std::string id(prefix);
  for (const std::byte byte : entropy)
    id += kAlphabet[std::to_integer<size_t>(byte) & 31];
  return id;
}

std::string RequestIdOf(const HttpRequest& request) {
  const std::string* given = request.Find("X-Request-Id");
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (given != nullptr && !given->empty() && given->size() <= kRequestIdBytesMax &&
      std::all_of(given->begin(), given->end(), fine)) {
    return *given;
  }
  return RandomId("req_");
}

}  // namespace tenuto
