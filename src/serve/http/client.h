// A small blocking HTTP/1.1 client for our own commands (`tenuto chat`, `tenuto sessions`): one
// connection per request, over TCP or a Unix socket. No TLS, no redirects, no proxies: it talks to
// a tenuto on this machine or behind a tunnel. Thread-compatible: one request at a time per client;
// another thread may call Abort.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tenuto {

struct ClientResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string
      body;  // of a streamed request: only what was no event stream, an error's JSON for example

  // The value of the first header of that lower-case name, or "".
  std::string_view Header(std::string_view name) const;
};

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  std::string body;  // sent with Content-Type application/json when not empty
  std::vector<std::pair<std::string, std::string>> headers;
};

class HttpClient {
 public:
  // "http://host[:port]" (port 80 when absent), or "unix:/path/to/control.sock". kInvalid: no such
  // form, or https.
  static Result<HttpClient> Open(std::string_view url);

  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Sent as "Authorization: Bearer KEY" with each request when not empty.
  void SetApiKey(std::string key);

  // Any status is a value. kUnavailable: nobody listens, the connection broke, or 600 s of silence;
  // kCorrupt: not HTTP.
  Result<ClientResponse> Request(const ClientRequest& request);

  // Like Request; the `data:` of each server-sent event is handed to `on_event` as it comes
  // ("[DONE]" too), each comment line, without its colon, to `on_comment` (may be empty). on_event
  // returns false to hang up: then the response so far is the value.
  Result<ClientResponse> Stream(const ClientRequest& request,
                                const std::function<bool(std::string_view)>& on_event,
                                const std::function<void(std::string_view)>& on_comment = {});

  // Any thread: breaks off the request at hand, which returns kUnavailable. Without one: no effect.
  void Abort();

 private:
  struct State;
  explicit HttpClient(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace tenuto
