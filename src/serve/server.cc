#include "serve/server.h"

#include <utility>

#include "base/log.h"
#include "serve/answers/errors.h"
#include "serve/app.h"
#include "serve/http/listener.h"
#include "serve/routes.h"

namespace tenuto {

struct HttpServer::State {
  AppPtr app;
  std::unique_ptr<HttpListener> listener;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  Stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::Open(ServeSettings settings, Service& service,
                                                     Metrics& metrics) {
  auto state = std::make_unique<State>();
  state->app = std::make_shared<App>(std::move(settings), service, metrics);
  const AppPtr& app = state->app;
  HttpHandlers handlers;
  handlers.check = [app](const HttpRequest& head) { return CheckRequest(app, head); };
  handlers.handle = [app](const ExchangePtr& exchange) { HandleRequest(app, exchange); };
  handlers.refuse = [app](int status, std::string_view message) {
    HttpResponse response = ErrorResponse(status, message);
    response.headers.push_back({"X-Request-Id", RandomId("req_")});
    app->Count("", status);
    return response;
  };
  handlers.overload = ErrorResponse(503, "too many connections; try again");
  handlers.overload.headers.push_back({"X-Request-Id", RandomId("req_")});
  TENUTO_ASSIGN(state->listener, HttpListener::Open(app->settings, std::move(handlers)));
  app->listener = state->listener.get();
  Log(LogLevel::kInfo, "http.listening",
      {{"host", app->settings.host}, {"port", int64_t{state->listener->port()}}});
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

Status HttpServer::CheckAddress(const ServeSettings& settings) {
  return HttpListener::CheckAddress(settings);
}

uint16_t HttpServer::port() const {
  return state_->listener->port();
}

void HttpServer::BeginShutdown() {
  state_->app->stopping = true;
  state_->listener->BeginShutdown();
}

void HttpServer::Stop() {
  BeginShutdown();
  state_->listener->Stop();
  state_->app->work.DrainAndStop();
}

}  // namespace tenuto
