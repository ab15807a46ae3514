#include "serve/http/types.h"

#include <charconv>
#include <ctime>

#include "serve/http/encode.h"

namespace tenuto {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  // A value never ends the line: what came from a request was checked, this is the second lock.
  for (char c : value)
    out += c == '\r' || c == '\n' ? ' ' : c;
  out += "\r\n";
}

void AppendDate(std::string& out, int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  gmtime_r(&time, &utc);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto two = [](int value) {
    std::string digits = std::to_string(value);
    return digits.size() < 2 ? "0" + digits : digits;
  };
  AppendHeader(out, "Date",
               std::string(kDays[utc.tm_wday]) + ", " + two(utc.tm_mday) + " " +
                   kMonths[utc.tm_mon] + " " + std::to_string(utc.tm_year + 1900) + " " +
                   two(utc.tm_hour) + ":" + two(utc.tm_min) + ":" + two(utc.tm_sec) + " GMT");
}

}  // namespace

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (Lower(a[i]) != Lower(b[i])) return false;
  }
  return true;
}

const std::string* HttpRequest::Find(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (EqualsIgnoreCase(header.name, name)) return &header.value;
  }
  return nullptr;
}

size_t HttpRequest::Count(std::string_view name) const {
  size_t n = 0;
  for (const HttpHeader& header : headers)
    n += EqualsIgnoreCase(header.name, name) ? 1 : 0;
  return n;
}

std::string_view HttpReason(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string EncodeResponseHead(const HttpResponse& response, const ResponseFraming& framing) {
  std::string out;
  out.reserve(512);
  out += "HTTP/1.1 ";
  out += std::to_string(response.status);
  out += ' ';
  out += HttpReason(response.status);
  out += "\r\n";
  AppendDate(out, framing.unix_seconds);
  if (response.status != 204) {
    if (!response.content_type.empty()) AppendHeader(out, "Content-Type", response.content_type);
    if (framing.kind == ResponseFraming::kLength) {
      AppendHeader(out, "Content-Length", std::to_string(response.body.size()));
    } else if (framing.kind == ResponseFraming::kChunked) {
      AppendHeader(out, "Transfer-Encoding", "chunked");
    }
  }
  AppendHeader(out, "Cache-Control", "no-store");
  AppendHeader(out, "X-Content-Type-Options", "nosniff");
  for (const HttpHeader& header : response.headers)
    AppendHeader(out, header.name, header.value);
  AppendHeader(out, "Connection", framing.keep_alive ? "keep-alive" : "close");
  out += "\r\n";
  return out;
}

void AppendChunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;  // a chunk of no bytes would end the body
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), bytes.size(), 16).ptr;
  out.append(digits, end);
  out += "\r\n";
  out += bytes;
  out += "\r\n";
}

}  // namespace tenuto
