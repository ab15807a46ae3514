#include "serve/answers/errors.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

namespace tenuto {
namespace {

std::string TypeOf(int status) {
  const auto body = boost::json::parse(ErrorBody(status, "no"));
  return std::string(body.at("error").at("type").as_string());
}

TEST(Errors, TheTypeSaysWhoseFaultItIs) {
  for (const int status : {400, 405, 408, 413, 415, 417, 431, 505})
    EXPECT_EQ(TypeOf(status), "invalid_request_error") << status;
  EXPECT_EQ(TypeOf(401), "authentication_error");
  EXPECT_EQ(TypeOf(429), "rate_limit_error");
  EXPECT_EQ(TypeOf(500), "server_error");
  EXPECT_EQ(TypeOf(503), "unavailable_error");
}

}  // namespace
}  // namespace tenuto
