// A request as it came and an answer to it. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenuto {

struct HttpHeader {
  std::string name;  // as sent; compared without case
  std::string value;
};

// ASCII only: header names have no other letters.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

struct HttpRequest {
  std::string method;
  std::string target;  // as sent, starts with '/', or "*"
  int version_minor = 1;
  std::vector<HttpHeader> headers;  // in order; fields after a chunked body are dropped
  std::string body;
  bool control = false;  // came over the control socket: its file mode is the credential

  // The value of the first header of that name, or nullptr.
  const std::string* Find(std::string_view name) const;
  size_t Count(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers;  // beyond Content-Type, Content-Length, Connection
  std::string body;
};

std::string_view HttpReason(int status);

}  // namespace tenuto
