// Settings and quotas of sessions through the real server.
#include <string>
#include <utility>
#include <vector>

#include "serve/turn_testing.h"
#include "session/session_settings.h"

namespace tenuto {
namespace {

class Settings : public testing::Test {
 protected:
  RawResponse Ask(const std::string& session, const std::string& more = "") {
    return client_.Post(
        kChat, ChatBody("hello", ",\"max_tokens\":8,\"session_id\":\"" + session + "\"" + more));
  }
  RawResponse Patch(const std::string& session, const std::string& body) {
    client_.Send("PATCH /v1/sessions/" + session +
                 " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                 "\r\n\r\n" + body);
    return client_.Read();
  }
  boost::json::value SettingsOf(const std::string& session) {
    return client_.Get("/v1/sessions/" + session).Json().at("settings");
  }
  static std::string ParamOf(const RawResponse& response) {
    const boost::json::value param = response.Json().at("error").at("param");
    return param.is_string() ? std::string(param.as_string()) : "";
  }

  TestServer server_;
  RawClient client_{server_.http->port()};
};

TEST_F(Settings, ArePatchedAndShown) {
  EXPECT_EQ(Patch("a", R"({"ttl_s":60})").status, 404);
  ASSERT_EQ(Ask("a").status, 200);
  EXPECT_EQ(SettingsOf("a"), boost::json::parse("{}"));
  RawResponse changed = Patch("a", R"({"window":{"tokens":200},"ttl_s":60})");
  ASSERT_EQ(changed.status, 200) << changed.body;
  EXPECT_EQ(changed.Json().at("object"), "session");
  EXPECT_EQ(changed.Json().at("settings"),
            boost::json::parse(R"({"window":{"tokens":200},"ttl_s":60})"));
  changed = Patch("a", R"({"ttl_s":null,"recall":{"mode":"off"}})");
  ASSERT_EQ(changed.status, 200) << changed.body;
  EXPECT_EQ(SettingsOf("a"),
            boost::json::parse(R"({"window":{"tokens":200},"recall":{"mode":"off"}})"));
  const RawResponse asked = Ask("a");
  ASSERT_EQ(asked.status, 200) << asked.body;
  EXPECT_EQ(asked.Json().at("tenuto").at("window").at("limit_tokens"), 200);
  const RawResponse listed = client_.Get("/v1/sessions");
  EXPECT_EQ(listed.Json().at("data").at(0).at("settings").at("window").at("tokens"), 200);
}

TEST_F(Settings, WhatIsWrongIsNamed) {
  ASSERT_EQ(Ask("a").status, 200);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", ""},
      {"[]", ""},
      {"{}", ""},
      {R"({"ttl_s":1,"ttl_s":2})", "ttl_s"},
      {R"({"ttl":1})", "ttl"},
      {R"({"window":{"tokens":4097}})", "window.tokens"},
      {R"({"window":{"low":95}})", "window.low"},
      {R"({"turns_max":"5"})", "turns_max"},
      {R"({"recall":"off"})", "recall"},
      {"{\"" + std::string(5000, 'x') + "\":1}", std::string(64, 'x')}};
  for (const auto& [body, field] : bad) {
    const RawResponse refused = Patch("a", body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_EQ(ParamOf(refused), field) << body;
  }
  EXPECT_EQ(Patch("a::b::c", R"({"ttl_s":1})").status, 400);
  EXPECT_EQ(SettingsOf("a"), boost::json::parse("{}"));
}

TEST_F(Settings, AQuotaIsA429ThatIsNotTriedAgain) {
  ASSERT_EQ(Ask("a").status, 200);
  ASSERT_EQ(Patch("a", R"({"turns_max":1})").status, 200);
  for (const std::string more : {"", ",\"stream\":true"}) {
    const RawResponse refused = Ask("a", more);
    EXPECT_EQ(refused.status, 429) << refused.body;
    const boost::json::value error = refused.Json().at("error");
    EXPECT_EQ(error.at("type"), "insufficient_quota");
    EXPECT_EQ(error.at("code"), "insufficient_quota");
    EXPECT_EQ(error.at("param"), "quota.turns_max");
    EXPECT_NE(std::string(error.at("message").as_string()).find("raise the limit"),
              std::string::npos);
    EXPECT_EQ(refused.Header("X-Should-Retry"), "false");
    EXPECT_EQ(refused.Header("Retry-After"), "");
  }
  const RawResponse imported = client_.Post(
      "/v1/sessions/a/import",
      "{\"role\":\"user\",\"content\":\"x\"}\n{\"role\":\"assistant\",\"content\":\"y\"}\n");
  EXPECT_EQ(imported.status, 429) << imported.body;
  EXPECT_EQ(ParamOf(imported), "quota.turns_max");
  ASSERT_EQ(Patch("a", R"({"turns_max":null})").status, 200);
  EXPECT_EQ(Ask("a").status, 200);
}

}  // namespace
}  // namespace tenuto
