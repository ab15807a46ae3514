// Sockets, connections and event loops: bytes in, Exchanges out. Knows HTTP, and nothing of what is
// served. Thread-safe. Each connection belongs to one loop (one thread) for its whole life.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http/exchange.h"
#include "serve/http/types.h"
#include "serve/settings.h"

namespace tenuto {

// All are called on loops, so from several threads at once.
struct HttpHandlers {
  // Sees a request before its body is read; an answer refuses it.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> check;
  // The whole request is there. Must not block.
  std::function<void(ExchangePtr)> handle;
  // The answer to bytes that were no good request.
  std::function<HttpResponse(int status, std::string_view message)> refuse;
  // The answer to a connection too many.
  HttpResponse overload;
};

// How many connections may be open where a process may have `descriptors` files open: `wished`, or
// what is left when the rest of the program has its own. Without the cap the log could fail to open
// its files as soon as enough clients connect.
size_t ConnectionsFor(size_t wished, uint64_t descriptors);

class HttpListener {
 public:
  // See HttpServer::Open for errors.
  static Result<std::unique_ptr<HttpListener>> Open(const ServeSettings& settings,
                                                    HttpHandlers handlers);
  // Whether Open would get its host and port now; the control socket is left alone.
  static Status CheckAddress(ServeSettings settings);
  ~HttpListener();

  uint16_t port() const;
  size_t connections() const;

  void BeginShutdown();
  void Stop();

 private:
  struct State;
  explicit HttpListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tenuto
