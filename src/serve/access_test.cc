#include "serve/access.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

HttpRequest Request(std::vector<HttpHeader> headers) {
  HttpRequest request;
  request.method = "GET";
  request.target = "/v1/models";
  request.headers = std::move(headers);
  return request;
}

int Status(const AccessRules& rules, std::vector<HttpHeader> headers, bool open = false) {
  const auto refusal = rules.Check(Request(std::move(headers)), open);
  return refusal ? refusal->status : 200;
}

TEST(Access, WithoutAKeyOnlyLoopbackNamesAreGood) {
  const AccessRules rules("127.0.0.1", "");
  for (const std::string host : {"localhost", "LOCALHOST:1", "127.0.0.1:8585", "[::1]:9"}) {
    EXPECT_EQ(Status(rules, {{"Host", host}}), 200) << host;
  }
  for (const std::string host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"}) {
    EXPECT_EQ(Status(rules, {{"Host", host}}), 403) << host;
    EXPECT_EQ(Status(rules, {{"Host", host}}, /*open=*/true), 403) << host;
  }
  EXPECT_EQ(Status(AccessRules("127.0.0.2", ""), {{"Host", "127.0.0.2:80"}}), 200);
  EXPECT_EQ(Status(AccessRules("MyHost", ""), {{"Host", "myhost"}}), 200);
}

TEST(Access, WithoutAKeyForeignOriginsAreRefused) {
  const AccessRules rules("127.0.0.1", "");
  EXPECT_EQ(Status(rules, {{"Host", "localhost"}, {"Origin", "http://localhost:3000"}}), 200);
  for (const std::string origin : {"https://evil.example", "null", "", "file://", "localhost"}) {
    EXPECT_EQ(Status(rules, {{"Host", "localhost"}, {"Origin", origin}}), 403) << origin;
  }
}

TEST(Access, TwoOriginsAreRefused) {
  const AccessRules rules("127.0.0.1", "");
  EXPECT_EQ(Status(rules, {{"Host", "localhost"},
                           {"Origin", "http://localhost"},
                           {"Origin", "https://evil.example"}}),
            400);
}

TEST(Access, AKeyIsAskedForEverywhereButOnOpenRoutes) {
  const AccessRules rules("0.0.0.0", "secret");
  EXPECT_EQ(Status(rules, {{"Host", "any.example"}, {"Authorization", "Bearer secret"}}), 200);
  EXPECT_EQ(Status(rules, {{"Host", "any.example"}, {"Authorization", "bearer secret"}}), 200);
  EXPECT_EQ(Status(rules, {{"Host", "any.example"}}, /*open=*/true), 200);
  for (const std::string value : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets",
                                  "Bearer Secret", "secret", "Basic c2VjcmV0", "Bearer  secret"}) {
    EXPECT_EQ(Status(rules, {{"Host", "a"}, {"Authorization", value}}), 401) << value;
  }
  EXPECT_EQ(Status(rules, {{"Host", "a"}}), 401);
  EXPECT_EQ(Status(rules, {{"Authorization", "Bearer secret"}, {"Authorization", "Bearer x"}}),
            400);
}

TEST(Access, TheControlSocketNeedsNothing) {
  HttpRequest request = Request({{"Host", "evil.example"}});
  request.control = true;
  EXPECT_FALSE(AccessRules("127.0.0.1", "").Check(request, false).has_value());
  EXPECT_FALSE(AccessRules("0.0.0.0", "secret").Check(request, false).has_value());
}

}  // namespace
}  // namespace tenuto
