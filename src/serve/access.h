// Who may ask: the API key, the Host and Origin of a server that has none. Pure.
#pragma once

#include <optional>
#include <string>

#include "crypto/hash.h"
#include "serve/http/types.h"

namespace tenuto {

// Thread-safe after construction.
class AccessRules {
 public:
  // `host`: what the server was told to listen on. An empty key asks nobody for one.
  AccessRules(const std::string& host, const std::string& api_key);

  // The refusal, or nullopt. `open_route`: needs no key. A request over the control socket is
  // always let through. Without a key only loopback names are good as Host and Origin, so that a
  // web page that points its own name here (DNS rebinding), or posts across sites, gets 403.
  std::optional<HttpResponse> Check(const HttpRequest& request, bool open_route) const;

 private:
  bool IsOwnHost(const std::string& host) const;
  std::optional<HttpResponse> CheckKey(const HttpRequest& request) const;

  const std::string host_;  // lower case, an IPv6 address in brackets
  const bool needs_key_;
  const Digest256
      key_;  // keys are compared by digest: no length, no common prefix shows in the time
};

}  // namespace tenuto
