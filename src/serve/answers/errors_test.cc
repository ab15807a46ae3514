#include "serve/answers/errors.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

namespace tenuto {
namespace {

std::string Member(int status, const char* name) {
  const auto body = boost::json::parse(ErrorBody(status, "no"));
  return std::string(body.at("error").at(name).as_string());
}
std::string TypeOf(int status) {
  return Member(status, "type");
}

TEST(Errors, TheTypeSaysWhoseFaultItIs) {
  for (const int status : {400, 405, 408, 413, 415, 417, 431, 501, 505})
    EXPECT_EQ(TypeOf(status), "invalid_request_error") << status;
  EXPECT_EQ(TypeOf(401), "authentication_error");
  EXPECT_EQ(TypeOf(429), "rate_limit_error");
  EXPECT_EQ(TypeOf(500), "server_error");
  EXPECT_EQ(TypeOf(503), "unavailable_error");
}

TEST(Errors, NoFaultOfTheClientHasTheServersCode) {
  for (const int status : {400, 405, 408, 413, 415, 417, 431, 501, 505})
    EXPECT_NE(Member(status, "code"), "internal") << status;
  EXPECT_EQ(Member(505, "code"), "unsupported_http_version");
  EXPECT_EQ(Member(500, "code"), "internal");
}

std::string RetryAfterOf(const HttpResponse& response) {
  for (const auto& header : response.headers)
    if (header.name == "Retry-After") return header.value;
  return "";
}

TEST(Errors, ALimitSaysItsNameAndWhenToTryAgain) {
  const Error limit =
      Error(Code::kExhausted, "too much").At("limit.tenant_tokens_per_minute").RetryAfter(17);
  const HttpResponse response = ErrorResponse(limit);
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(RetryAfterOf(response), "17");
  const auto error = boost::json::parse(response.body).at("error");
  EXPECT_EQ(error.at("type"), "rate_limit_error");
  EXPECT_EQ(error.at("code"), "rate_limit_exceeded");
  EXPECT_EQ(error.at("param"), "limit.tenant_tokens_per_minute");

  const HttpResponse queue = ErrorResponse(Error(Code::kExhausted, "full").At("queue"));
  EXPECT_EQ(queue.status, 429);
  EXPECT_EQ(RetryAfterOf(queue), "1");
  EXPECT_EQ(boost::json::parse(queue.body).at("error").at("code"), "queue_full");
  EXPECT_EQ(boost::json::parse(queue.body).at("error").at("param"), "queue");
}

}  // namespace
}  // namespace tenuto
