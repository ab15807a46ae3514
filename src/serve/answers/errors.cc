#include "serve/answers/errors.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "serve/json/writer.h"

namespace tenuto {
namespace {

constexpr int64_t kRetryAfterSeconds = 1;
constexpr std::string_view kRateLimit = "rate_limit_exceeded";  // OpenAI's code for it
constexpr std::string_view kQuota = "insufficient_quota";       // OpenAI's type and code for it

std::string_view TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 409:
      return "conflict_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    case 501:  // the request's own transfer coding
    case 505:  // and version of HTTP
      return "invalid_request_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string_view CodeOf(int status) {
  switch (status) {
    case 401:
      return "invalid_api_key";
    case 403:
      return "denied";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 408:
      return "timeout";
    case 413:
      return "too_large";
    case 415:
      return "unsupported_media_type";
    case 429:
      return "queue_full";
    case 431:
      return "headers_too_large";
    case 501:
      return "unsupported_transfer_coding";
    case 503:
      return "unavailable";
    case 505:
      return "unsupported_http_version";
    default:
      return status >= 500 ? "internal" : "invalid";
  }
}

std::string Body(std::string_view type, std::string_view message, std::string_view param,
                 std::string_view code) {
  JsonWriter writer;
  writer.BeginObject().Key("error").BeginObject();
  writer.Field("message", message).Field("type", type).Key("param");
  if (param.empty()) {
    writer.Null();
  } else {
    writer.String(param);
  }
  writer.Field("code", code).EndObject().EndObject();
  return writer.Take();
}

bool IsQuota(const Error& error) {
  return error.code() == Code::kExhausted && error.field().starts_with("quota.");
}

bool IsLimit(const Error& error) {
  return error.code() == Code::kExhausted &&
         (error.field() == "queue" || error.field().starts_with("limit."));
}

HttpResponse Response(int status, std::string body, int64_t retry_after_s = 0) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  if (status == 429 || status == 503) {
    response.headers.push_back(
        {"Retry-After", std::to_string(std::max(retry_after_s, kRetryAfterSeconds))});
  }
  if (status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace

int StatusOf(const Error& error) {
  switch (error.code()) {
    case Code::kNotFound:
      return 404;
    case Code::kInvalid:
      return 400;
    case Code::kConflict:
      return 409;
    case Code::kExhausted:
      return IsLimit(error) || IsQuota(error) ? 429 : 503;
    case Code::kUnavailable:
      return 503;
    case Code::kDenied:
      return 403;
    case Code::kCorrupt:
    case Code::kIo:
      return 500;
  }
  return 500;
}

std::string ErrorBody(const Error& error) {
  if (IsQuota(error)) return Body(kQuota, error.message(), error.field(), kQuota);
  const int status = StatusOf(error);
  if (IsLimit(error))
    return Body(TypeOf(status), error.message(), error.field(),
                error.field() == "queue" ? CodeOf(status) : kRateLimit);
  return Body(TypeOf(status), error.message(), error.field(), CodeName(error.code()));
}

std::string ErrorBody(int status, std::string_view message) {
  return Body(TypeOf(status), message, "", CodeOf(status));
}

HttpResponse ErrorResponse(const Error& error) {
  if (!IsQuota(error)) return Response(StatusOf(error), ErrorBody(error), error.retry_after_s());
  // OpenAI's clients try a 429 again by themselves unless this header says no.
  HttpResponse response;
  response.status = StatusOf(error);
  response.body = ErrorBody(error);
  response.headers.push_back({"X-Should-Retry", "false"});
  return response;
}

HttpResponse ErrorResponse(int status, std::string_view message) {
  return Response(status, ErrorBody(status, message));
}

}  // namespace tenuto
