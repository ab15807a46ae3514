#include "serve/access.h"

#include <string_view>

#include "serve/answers/errors.h"
#include "serve/http/head.h"

namespace tenuto {
namespace {

std::string Normalized(const std::string& host) {
  std::string result;
  const bool bare_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  if (bare_v6) result += '[';
  for (const char c : host)
    result += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (bare_v6) result += ']';
  return result;
}

bool SameDigest(const Digest256& a, const Digest256& b) {
  std::byte difference{0};
  for (size_t i = 0; i < a.bytes.size(); ++i)
    difference |= a.bytes[i] ^ b.bytes[i];
  return difference == std::byte{0};
}

// The host of "scheme://host[:port]"; "" for "null" and whatever else.
std::string OriginHost(std::string_view origin) {
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return "";
  return HostOf(origin.substr(scheme + 3)).value_or("");
}

}  // namespace

AccessRules::AccessRules(const std::string& host, const std::string& api_key)
    : host_(Normalized(host)),
      needs_key_(!api_key.empty()),
      key_(Sha256Of(std::string_view(api_key))) {}

bool AccessRules::IsOwnHost(const std::string& host) const {
  if (host.empty()) return false;
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == host_;
}

std::optional<HttpResponse> AccessRules::CheckKey(const HttpRequest& request) const {
  if (request.Count("Authorization") > 1) {
    return ErrorResponse(400, "header Authorization is given more than once");
  }
  const std::string* header = request.Find("Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (header == nullptr || !EqualsIgnoreCase(header->substr(0, kScheme.size()), kScheme)) {
    return ErrorResponse(401, "this server needs an API key: Authorization: Bearer KEY");
  }
  const std::string_view given = std::string_view(*header).substr(kScheme.size());
  if (!SameDigest(Sha256Of(given), key_)) return ErrorResponse(401, "the API key is wrong");
  return std::nullopt;
}

std::optional<HttpResponse> AccessRules::Check(const HttpRequest& request, bool open_route) const {
  if (request.control) return std::nullopt;
  if (needs_key_) return open_route ? std::nullopt : CheckKey(request);
  const std::string* host = request.Find("Host");
  if (host == nullptr || !IsOwnHost(HostOf(*host).value_or(""))) {
    return ErrorResponse(403,
                         "this server answers to localhost only; name it so, or give it an "
                         "--api-key");
  }
  if (request.Count("Origin") > 1) {
    return ErrorResponse(400, "header Origin is given more than once");
  }
  const std::string* origin = request.Find("Origin");
  if (origin != nullptr && !IsOwnHost(OriginHost(*origin))) {
    return ErrorResponse(403, "requests of web pages from other hosts are refused");
  }
  return std::nullopt;
}

}  // namespace tenuto
