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
    const auto fill = [&](const std::string& name, const std::string& value) {
      const size_t at = path.find(name);
      if (at != std::string::npos) path.replace(at, name.size(), value);
      return at != std::string::npos;
    };
    const bool with_id = fill("{id}", "alice%3A%3Achat-1");
    const bool with_turn = fill("{turn}", "01%48");
    const RouteMatch match = MatchRoute(route.method, path);
    ASSERT_EQ(match.route, &route) << path;
    EXPECT_EQ(match.path, route.path);
    EXPECT_EQ(match.id, with_id ? "alice::chat-1" : "");
    EXPECT_EQ(match.turn, with_turn ? "01H" : "");
    EXPECT_EQ(match.route->path.find('{') != std::string::npos, with_id || with_turn);
    EXPECT_EQ(route.open, route.path == "/health");
    EXPECT_NE(route.handler, nullptr);
  }
  EXPECT_EQ(Routes().size(), 23U);
}

// Paths of Tenuto's own say which parameters they take; clients of the others have their own.
TEST(Routes, TheirQueriesAreClosedListsWhereTheyAreOurs) {
  for (const Route& route : Routes()) {
    const bool ours =
        route.path.starts_with("/v1/sessions") || route.path.starts_with("/v1/memory");
    EXPECT_EQ(route.query != nullptr, ours) << route.path;
  }
}

TEST(Routes, WrongMethodsNameTheRightOnes) {
  RouteMatch match = MatchRoute("POST", "/health");
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, OPTIONS");
  match = MatchRoute("PUT", "/v1/sessions/a");
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, PATCH, DELETE, OPTIONS");
  EXPECT_EQ(match.path, "/v1/sessions/{id}");
  EXPECT_NE(MatchRoute("HEAD", "/v1/models").route, nullptr);
  match = MatchRoute("GET", "/v1/sessions/a/turns/b");
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "PATCH, DELETE, OPTIONS");
  EXPECT_EQ(MatchRoute("GET", "/v1/memory/search").allow, "POST, OPTIONS");
}

TEST(Routes, NothingElseIsThere) {
  for (const std::string path : {"/",
                                 "",
                                 "/v1",
                                 "/v1/",
                                 "/health/",
                                 "/healthx",
                                 "//health",
                                 "/v1/models/",
                                 "/v1/models/a/b",
                                 "/v1/sessions/a/turns/",
                                 "/V1/models",
                                 "/v1/sessions//turns",
                                 "/%68ealth",
                                 "/metrics/..",
                                 "/v1/sessions/../health",
                                 "/v1/sessions/a/turns/b/",
                                 "/v1/sessions/a/turns//explain",
                                 "/v1/sessions//turns/b/explain",
                                 "/v1/sessions/a/turns/b/explain/c",
                                 "/v1/sessions/a/explain",
                                 "/v1/memory",
                                 "/v1/memory/search/"}) {
    const RouteMatch match = MatchRoute("GET", path);
    EXPECT_TRUE(match.path.empty()) << path << " " << match.path;
  }
  EXPECT_TRUE(MatchRoute("GET", "/v1/sessions/%zz").bad_id);
  EXPECT_TRUE(MatchRoute("GET", "/v1/sessions/%00").bad_id);
  EXPECT_TRUE(MatchRoute("DELETE", "/v1/sessions/a/turns/%0").bad_id);
  EXPECT_TRUE(MatchRoute("DELETE", "/v1/sessions/%0/turns/b").bad_id);
  // The two can't be mixed up, whatever they hold.
  const RouteMatch odd = MatchRoute("GET", "/v1/sessions/turns/turns/explain/explain");
  EXPECT_EQ(odd.id, "turns");
  EXPECT_EQ(odd.turn, "explain");
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
