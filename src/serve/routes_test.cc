#include "serve/routes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "serve/target.h"

namespace tenuto {
namespace {

TEST(Routes, EachIsFoundAndOnlyHealthIsOpen) {
  std::set<std::string> seen;
  for (const Route& route : Routes()) {
    EXPECT_TRUE(seen.insert(std::string(route.method) + " " + std::string(route.path)).second);
    std::string path(route.path);
    const bool with_id = path.find("{id}") != std::string::npos;
    if (with_id) path.replace(path.find("{id}"), 4, "alice%3A%3Achat-1");
    const RouteMatch match = MatchRoute(route.method, path);
    ASSERT_EQ(match.route, &route) << path;
    EXPECT_EQ(match.id, with_id ? "alice::chat-1" : "");
    EXPECT_EQ(route.open, route.path == "/health");
    EXPECT_NE(route.handler, nullptr);
  }
  EXPECT_EQ(Routes().size(), 16U);
}

TEST(Routes, WrongMethodsNameTheRightOnes) {
  RouteMatch match = MatchRoute("POST", "/health");
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, OPTIONS");
  match = MatchRoute("PUT", "/v1/sessions/a");
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(match.path, "/v1/sessions/{id}");
  EXPECT_NE(MatchRoute("HEAD", "/v1/models").route, nullptr);
}

TEST(Routes, NothingElseIsThere) {
  for (const std::string path :
       {"/", "", "/v1", "/v1/", "/health/", "/healthx", "//health", "/v1/models/", "/v1/models/a/b",
        "/v1/sessions/a/turns/", "/V1/models", "/v1/sessions//turns", "/%68ealth", "/metrics/..",
        "/v1/sessions/../health"}) {
    const RouteMatch match = MatchRoute("GET", path);
    EXPECT_TRUE(match.path.empty()) << path << " " << match.path;
  }
  EXPECT_TRUE(MatchRoute("GET", "/v1/sessions/%zz").bad_id);
  EXPECT_TRUE(MatchRoute("GET", "/v1/sessions/%00").bad_id);
  // A slash inside an id stays inside: the id's own rules refuse it.
  EXPECT_EQ(MatchRoute("GET", "/v1/sessions/a%2fb").id, "a/b");
}

TEST(Target, DecodesTheQuery) {
  const auto target = ParseTarget("/v1/sessions?limit=5&after=a%3A%3Ab+c&flag&&x=");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/v1/sessions");
  EXPECT_EQ(*target->Find("limit"), "5");
  EXPECT_EQ(*target->Find("after"), "a::b c");
  EXPECT_EQ(*target->Find("flag"), "");
  EXPECT_EQ(*target->Find("x"), "");
  EXPECT_EQ(target->Find("y"), nullptr);
  EXPECT_FALSE(ParseTarget("/a?x=%4").has_value());
  EXPECT_FALSE(ParseTarget("/a?%gg=1").has_value());
  EXPECT_FALSE(ParseTarget("/a?x=%00").has_value());
  EXPECT_FALSE(PercentDecode("%", false).has_value());
}

}  // namespace
}  // namespace tenuto
