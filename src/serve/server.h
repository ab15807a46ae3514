// The HTTP face of the program: OpenAI's and llama-server's APIs and the session API over Service,
// on a TCP port and on the store's control socket. docs/api.md has the routes; routes.h the table
// of them. Thread-safe. Owns its threads; no Boost type passes through here.
#pragma once

#include <cstdint>
#include <memory>

#include "base/metrics.h"
#include "base/result.h"
#include "schedule/service.h"
#include "serve/settings.h"

namespace tenuto {

class HttpServer {
 public:
  // Listens when it returns. `service` and `metrics` outlive the server; callbacks of `service`
  // that come after the server is gone do nothing. kDenied: host beyond loopback without an
  // api_key; kConflict: the port or the socket is taken; kInvalid: the host is no address of this
  // machine; kIo.
  static Result<std::unique_ptr<HttpServer>> Open(ServeSettings settings, Service& service,
                                                  Metrics& metrics);
  // Open's errors of host and port, for who wants to know before there is a service; nothing
  // listens afterwards.
  static Status CheckAddress(const ServeSettings& settings);
  ~HttpServer();  // Stop()

  uint16_t port() const;

  // No new connections; /health says 503; each answer from now on closes its connection.
  // Idempotent, any thread. Order of a clean end: BeginShutdown, Service::Shutdown (running turns
  // end and answer), Stop.
  void BeginShutdown();
  // Waits until what is being answered was sent, at most drain_timeout_ms, closes every connection,
  // joins the threads. Idempotent. Not from a callback of Service.
  void Stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tenuto
