// Any bytes as the head of a request: refused with a status and words, or taken for what a second
// parser takes it for. Each input is tried as it is, with line ends made CRLF, and as the fields
// behind a good request line; and once more as a percent-encoded target.
#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "serve/http/encode.h"
#include "serve/http/head.h"
#include "serve/requests/generate.h"
#include "serve/routes.h"
#include "serve/target.h"

namespace tenuto {
namespace {

namespace http = boost::beast::http;
using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr HttpLimits kUsual;
// So small that inputs reach them.
constexpr HttpLimits kSmall = {.body_bytes_max = 100, .header_bytes_max = 256, .headers_max = 4};

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string LowerCase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

void CheckRefusal(const HeadError& error) {
  constexpr std::array kStatuses = {400, 413, 417, 431, 501, 505};
  TENUTO_CHECK(std::find(kStatuses.begin(), kStatuses.end(), error.status) != kStatuses.end());
  TENUTO_CHECK(!error.message.empty());
}

// By name, and in their order where names are equal.
Fields Sorted(Fields fields) {
  std::stable_sort(fields.begin(), fields.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return fields;
}

// What reads the body reads the head too: where it does not refuse, it must have read the same.
void CheckAgainstBeast(std::string_view bytes, const RequestHead& head, const HttpLimits& limits) {
  http::request_parser<http::string_body> parser;
  parser.eager(true);
  parser.header_limit(static_cast<uint32_t>(limits.header_bytes_max + 1024));
  parser.body_limit(limits.body_bytes_max);
  boost::system::error_code ec;
  const size_t used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), ec);
  if (ec && ec != http::error::need_more) return;
  TENUTO_CHECK(used == bytes.size() && parser.is_header_done());
  const HttpRequest& request = head.request;
  TENUTO_CHECK(parser.get().method_string() == request.method);
  TENUTO_CHECK(parser.get().target() == request.target);
  TENUTO_CHECK(parser.get().version() == 10U + static_cast<unsigned>(request.version_minor));
  Fields theirs;
  for (const auto& field : parser.get()) {
    theirs.emplace_back(LowerCase(std::string(field.name_string())), std::string(field.value()));
  }
  Fields ours;
  for (const HttpHeader& header : request.headers) {
    ours.emplace_back(LowerCase(header.name), header.value);
  }
  TENUTO_CHECK(Sorted(std::move(theirs)) == Sorted(std::move(ours)));
  TENUTO_CHECK(parser.chunked() == head.chunked);
  const auto length = parser.content_length();
  TENUTO_CHECK(length.has_value() == head.content_length.has_value());
  TENUTO_CHECK(!length || *length == *head.content_length);
  TENUTO_CHECK(!head.keep_alive || parser.keep_alive());
}

// The parts written down again read as the same request.
void CheckCanonical(const RequestHead& head, const HttpLimits& limits) {
  const HttpRequest& request = head.request;
  std::string text = request.method + " " + request.target + " HTTP/1." +
                     std::to_string(request.version_minor) + "\r\n";
  for (const HttpHeader& header : request.headers)
    text += header.name + ": " + header.value + "\r\n";
  text += "\r\n";
  HeadError error;
  const auto again = ParseHead(text, limits, error);
  TENUTO_CHECK(again.has_value());
  TENUTO_CHECK(again->request.method == request.method && again->request.target == request.target);
  TENUTO_CHECK(std::equal(request.headers.begin(), request.headers.end(),
                          again->request.headers.begin(), again->request.headers.end(),
                          [](const HttpHeader& a, const HttpHeader& b) {
                            return a.name == b.name && a.value == b.value;
                          }));
  TENUTO_CHECK(again->chunked == head.chunked && again->keep_alive == head.keep_alive);
  TENUTO_CHECK(again->content_length == head.content_length);
}

// What handlers make of an accepted head before there is a body.
void CheckUses(const HttpRequest& request) {
  const auto headers = ReadRequestHeaders(request);
  if (headers.ok()) {
    TENUTO_CHECK(headers->idempotency_key.size() <= kIdempotencyKeyBytesMax);
  } else {
    TENUTO_CHECK(headers.error().code() == Code::kInvalid && !headers.error().message().empty());
  }
  const auto target = ParseTarget(request.target);
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  TENUTO_CHECK(!target || target->path == path);
  const RouteMatch match = MatchRoute(request.method, path);
  TENUTO_CHECK(match.route == nullptr || match.route->path == match.path);
  TENUTO_CHECK(match.path.empty() == match.allow.empty());
  TENUTO_CHECK(match.id.size() <= path.size() && match.id.find('\0') == std::string::npos);
}

void CheckHead(const RequestHead& head, const HttpLimits& limits) {
  const HttpRequest& request = head.request;
  TENUTO_CHECK(!request.method.empty() && request.method.size() <= 32);
  TENUTO_CHECK(request.target.starts_with('/') || request.target == "*");
  TENUTO_CHECK(std::none_of(request.target.begin(), request.target.end(),
                            [](char c) { return c <= ' ' || IsControl(c) || c == '#'; }));
  TENUTO_CHECK(request.version_minor == 0 || request.version_minor == 1);
  TENUTO_CHECK(request.headers.size() <= limits.headers_max && !request.control);
  for (const HttpHeader& header : request.headers) {
    TENUTO_CHECK(!header.name.empty());
    TENUTO_CHECK(std::none_of(header.name.begin(), header.name.end(),
                              [](char c) { return c <= ' ' || IsControl(c) || c == ':'; }));
    TENUTO_CHECK(std::none_of(header.value.begin(), header.value.end(),
                              [](char c) { return IsControl(c) && c != '\t'; }));
  }
  TENUTO_CHECK(request.Count("Host") == 1 && HostOf(*request.Find("Host")).has_value());
  TENUTO_CHECK(request.Count("Content-Length") == (head.content_length ? 1U : 0U));
  TENUTO_CHECK(request.Count("Transfer-Encoding") == (head.chunked ? 1U : 0U));
  TENUTO_CHECK(!head.chunked || (!head.content_length && request.version_minor == 1));
  TENUTO_CHECK(head.content_length.value_or(0) <= limits.body_bytes_max);
  TENUTO_CHECK(!head.expects_continue || request.version_minor == 1);
}

void TryHead(std::string_view bytes, const HttpLimits& limits) {
  const HeadScan scan = ScanHead(bytes, 0, limits.header_bytes_max);
  TENUTO_CHECK(!scan.end || !scan.error);
  // Byte by byte, as a slow client sends it, the end is found at the same place.
  HeadScan slow;
  for (size_t n = 1; n <= bytes.size() && !slow.end && !slow.error; ++n) {
    slow = ScanHead(bytes.substr(0, n), n - 1, limits.header_bytes_max);
  }
  TENUTO_CHECK(slow.end == scan.end && slow.error.has_value() == scan.error.has_value());
  if (scan.error) {
    CheckRefusal(*scan.error);
    TENUTO_CHECK(slow.error->status == scan.error->status);
  }
  if (!scan.end) return;
  TENUTO_CHECK(*scan.end <= std::min(bytes.size(), limits.header_bytes_max));
  bytes = bytes.substr(0, *scan.end);
  TENUTO_CHECK(bytes.ends_with("\r\n\r\n"));

  HeadError error;
  const auto head = ParseHead(bytes, limits, error);
  if (!head) return CheckRefusal(error);
  CheckHead(*head, limits);
  CheckAgainstBeast(bytes, *head, limits);
  CheckCanonical(*head, limits);
  CheckUses(head->request);
}

// Values of headers come from requests at times: whatever they hold, no line is added.
void TryAnswer(std::string_view value) {
  HttpResponse response;
  response.headers.push_back({"X-Request-Id", std::string(value)});
  const std::string with = EncodeResponseHead(response, {});
  response.headers[0].value.clear();
  const std::string without = EncodeResponseHead(response, {});
  TENUTO_CHECK(std::count(with.begin(), with.end(), '\n') ==
               std::count(without.begin(), without.end(), '\n'));
  TENUTO_CHECK(with.find("\r\n\r\n") == with.size() - 4);
}

void TryTarget(std::string_view bytes) {
  const auto plain = PercentDecode(bytes, false);
  TENUTO_CHECK(!plain || plain->size() <= bytes.size());
  TENUTO_CHECK(!plain || plain->find('\0') == std::string::npos);
  if (const auto target = ParseTarget(bytes)) {
    for (const auto& [name, value] : target->query) {
      const std::string* first = target->Find(name);
      TENUTO_CHECK(first != nullptr && name.find('\0') == std::string::npos);
    }
  }
  // Everything but NUL survives being encoded.
  std::string encoded;
  for (const char c : bytes) {
    static constexpr char kHex[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  const bool fine = bytes.find('\0') == std::string_view::npos;
  const auto decoded = PercentDecode(encoded, true);
  TENUTO_CHECK(decoded.has_value() == fine && (!fine || *decoded == bytes));
  const std::string query = "/p?k=" + encoded;
  const auto target = ParseTarget(query);
  TENUTO_CHECK(target.has_value() == fine);
  TENUTO_CHECK(!fine || (target->path == "/p" && *target->Find("k") == bytes));
}

void TryHost(std::string_view bytes) {
  const auto host = HostOf(bytes);
  if (!host) return;
  TENUTO_CHECK(!host->empty() && LowerCase(*host) == *host && host->size() <= bytes.size());
  TENUTO_CHECK(HostOf(*host) == host);
}

std::string WithCrLf(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    if (c == '\n' && !text.ends_with('\r')) text += '\r';
    text += c;
  }
  return text;
}

}  // namespace
}  // namespace tenuto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(data, data + size);
  const std::string lines = tenuto::WithCrLf(bytes);
  const std::string fields = "POST / HTTP/1.1\r\nHost: a\r\n" + lines + "\r\n\r\n";
  for (const std::string& text : {bytes, lines, fields}) {
    tenuto::TryHead(text, tenuto::kUsual);
    tenuto::TryHead(text, tenuto::kSmall);
  }
  tenuto::TryAnswer(bytes);
  tenuto::TryTarget(bytes);
  tenuto::TryHost(bytes);
  return 0;
}
