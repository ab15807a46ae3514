#include "serve/http/head.h"

#include <algorithm>
#include <charconv>

namespace tenuto {
namespace {

bool IsTokenChar(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

// Cuts the next line off `rest`, without its CRLF. The scan made sure that every line has one.
std::string_view NextLine(std::string_view& rest) {
  const size_t end = rest.find("\r\n");
  if (end == std::string_view::npos) {
    const std::string_view line = rest;
    rest = {};
    return line;
  }
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

bool Refuse(HeadError& error, int status, std::string message) {
  error = HeadError{status, std::move(message)};
  return false;
}

bool ParseRequestLine(std::string_view line, HttpRequest& request, HeadError& error) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return Refuse(error, 400, "the request line is not METHOD TARGET HTTP/1.1");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(method) || method.size() > 32) {
    return Refuse(error, 400, "the request method is malformed");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool other = version.starts_with("HTTP/") && version.size() == 8;
    return Refuse(error, other ? 505 : 400, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  const bool star = target == "*" && method == "OPTIONS";
  if (!star && !target.starts_with('/')) {
    return Refuse(error, 400, "the request target must be a path that starts with '/'");
  }
  for (char c : target) {
    if (c <= ' ' || c >= 0x7f || c == '#') {
      return Refuse(error, 400, "the request target holds a forbidden character");
    }
  }
  request.method = method;
  request.target = target;
  request.version_minor = version.back() - '0';
  return true;
}

bool ParseField(std::string_view line, HttpRequest& request, HeadError& error) {
  if (line.front() == ' ' || line.front() == '\t') {
    return Refuse(error, 400, "folded header lines are refused");
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Refuse(error, 400, "a header line is not NAME: VALUE");
  }
  const std::string_view value = Trim(line.substr(colon + 1));
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      return Refuse(error, 400, "a header value holds a control character");
    }
  }
  request.headers.push_back({std::string(line.substr(0, colon)), std::string(value)});
  return true;
}

// At most one Content-Length, plain digits; at most one Transfer-Encoding, exactly "chunked"; never
// both.
bool ParseFraming(RequestHead& head, HeadError& error) {
  const HttpRequest& request = head.request;
  const size_t lengths = request.Count("Content-Length");
  const size_t encodings = request.Count("Transfer-Encoding");
  if (lengths + encodings > 1) {
    return Refuse(error, 400, "more than one Content-Length or Transfer-Encoding");
  }
  if (encodings == 1) {
    if (request.version_minor == 0) {
      return Refuse(error, 400, "Transfer-Encoding in an HTTP/1.0 request");
    }
    if (!EqualsIgnoreCase(*request.Find("Transfer-Encoding"), "chunked")) {
      return Refuse(error, 400, "the only Transfer-Encoding accepted is chunked");
    }
    head.chunked = true;
  }
  if (lengths == 1) {
    const std::string& text = *request.Find("Content-Length");
    uint64_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc() || end != text.data() + text.size() || text.empty()) {
      return Refuse(error, 400, "Content-Length is not a plain number");
    }
    head.content_length = value;
  }
  return true;
}

bool ParseHost(const HttpRequest& request, HeadError& error) {
  if (request.Count("Host") != 1) {
    return Refuse(error, 400, "a request needs exactly one Host header");
  }
  if (!HostOf(*request.Find("Host"))) {
    return Refuse(error, 400, "the Host header is malformed");
  }
  return true;
}

// Reads the comma-separated list of Connection; the last word on keep-alive is "close".
bool WantsKeepAlive(const HttpRequest& request) {
  bool keep = request.version_minor == 1;
  for (const HttpHeader& header : request.headers) {
    if (!EqualsIgnoreCase(header.name, "Connection")) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      const std::string_view option = Trim(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      if (EqualsIgnoreCase(option, "close")) return false;
      if (EqualsIgnoreCase(option, "keep-alive")) keep = true;
    }
  }
  return keep;
}

bool ParseExpect(RequestHead& head, HeadError& error) {
  const size_t count = head.request.Count("Expect");
  if (count == 0) return true;
  if (count > 1 || !EqualsIgnoreCase(*head.request.Find("Expect"), "100-continue")) {
    return Refuse(error, 417, "the only Expect understood is 100-continue");
  }
  head.expects_continue = head.request.version_minor == 1;
  return true;
}

}  // namespace

HeadScan ScanHead(std::string_view bytes, size_t scanned_before, size_t header_bytes_max) {
  HeadScan scan;
  const size_t limit = std::min(bytes.size(), header_bytes_max);
  for (size_t i = scanned_before; i < limit; ++i) {
    if (bytes[i] == '\0') {
      scan.error = HeadError{400, "a NUL byte in the request head"};
      return scan;
    }
    if (bytes[i] != '\n') continue;
    if (i == 0 || bytes[i - 1] != '\r') {
      scan.error = HeadError{400, "a line of the request head does not end in CRLF"};
      return scan;
    }
    if (i >= 3 && bytes[i - 2] == '\n') {
      scan.end = i + 1;
      return scan;
    }
  }
  if (bytes.size() > header_bytes_max) {
    scan.error = HeadError{
        431, "the request head is larger than " + std::to_string(header_bytes_max) + " bytes"};
  }
  return scan;
}

std::optional<RequestHead> ParseHead(std::string_view head_bytes, const HttpLimits& limits,
                                     HeadError& error) {
  RequestHead head;
  std::string_view rest = head_bytes;
  if (!ParseRequestLine(NextLine(rest), head.request, error)) return std::nullopt;
  while (!rest.empty()) {
    const std::string_view line = NextLine(rest);
    if (line.empty()) break;
    if (line.find('\r') != std::string_view::npos) {
      error = HeadError{400, "a bare CR in the request head"};
      return std::nullopt;
    }
    if (head.request.headers.size() == limits.headers_max) {
      error = HeadError{431, "more than " + std::to_string(limits.headers_max) + " header fields"};
      return std::nullopt;
    }
    if (!ParseField(line, head.request, error)) return std::nullopt;
  }
  if (!ParseHost(head.request, error) || !ParseFraming(head, error) || !ParseExpect(head, error)) {
    return std::nullopt;
  }
  if (head.content_length.value_or(0) > limits.body_bytes_max) {
    error = HeadError{
        413, "the body is larger than " + std::to_string(limits.body_bytes_max) + " bytes"};
    return std::nullopt;
  }
  head.keep_alive = WantsKeepAlive(head.request);
  return head;
}

std::optional<std::string> HostOf(std::string_view host_header) {
  std::string_view host = host_header;
  std::string_view port;
  if (host.starts_with('[')) {
    const size_t close = host.find(']');
    if (close == std::string_view::npos || close < 3) return std::nullopt;
    for (char c : host.substr(1, close - 1)) {
      if (std::string_view("0123456789abcdefABCDEF:.").find(c) == std::string_view::npos) {
        return std::nullopt;
      }
    }
    port = host.substr(close + 1);
    host = host.substr(0, close + 1);
    if (!port.empty() && port.front() != ':') return std::nullopt;
  } else {
    const size_t colon = host.find(':');
    if (colon != std::string_view::npos) {
      port = host.substr(colon);
      host = host.substr(0, colon);
    }
    if (host.empty() || host.size() > 255) return std::nullopt;
    for (char c : host) {
      const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
      if (!fine) return std::nullopt;
    }
  }
  if (!port.empty()) {
    port.remove_prefix(1);
    if (port.size() > 5 || port.empty()) return std::nullopt;
    for (char c : port) {
      if (c < '0' || c > '9') return std::nullopt;
    }
  }
  std::string lower(host);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace tenuto
