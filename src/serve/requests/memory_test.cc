#include "serve/requests/memory.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tenuto {
namespace {

constexpr const char* kTurn = "01HZZZZZZZZZZZZZZZZZZZZZZZ";

template <typename T>
std::string FieldOf(const Result<T>& result, const std::string& body) {
  EXPECT_FALSE(result.ok()) << body;
  if (result.ok()) return "";
  EXPECT_EQ(result.error().code(), Code::kInvalid) << body;
  return result.error().field();
}

Result<SearchRequest> Search(const std::string& members, const RequestHeaders& headers = {}) {
  return ParseSearchRequest("{" + members + "}", headers, /*strict=*/false);
}

TEST(SearchRequest, InASessionOrInAllOfAUser) {
  auto request = Search(R"("session_id":"alice::c1","query":"the sea")");
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(request->search.session->Full(), "default::alice::default::c1");
  EXPECT_EQ(request->search.query, "the sea");
  EXPECT_EQ(request->search.limit, 10U);
  request = Search(R"("query":"x","limit":100,"frob":1)", {"bob::y", ""});
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(request->search.session->user, "bob");
  EXPECT_EQ(request->search.limit, 100U);
  EXPECT_EQ(request->ignored, std::vector<std::string>{"frob"});

  EXPECT_EQ(Search(R"("scope":"mine","query":"x","timezone":"+09:00")")->search.timezone, "+09:00");

  request = Search(R"("scope":"mine","query":"x")");
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_FALSE(request->search.session.has_value());
  EXPECT_EQ(request->search.tenant, "default");
  EXPECT_EQ(request->search.user, "me");
  EXPECT_EQ(Search(R"("scope":"mine","user":"alice","query":"x")")->search.user, "alice");
}

TEST(SearchRequest, WhatIsWrongIsNamed) {
  const std::string session = R"("session_id":"x",)";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"("query":"x")", "session_id"},
      {R"("session_id":"a/b","query":"x")", "session_id"},
      {R"("session_id":5,"query":"x")", "session_id"},
      {session + R"("scope":"mine","query":"x")", "scope"},
      {session + R"("user":"me","query":"x")", "user"},
      {R"("scope":"all","query":"x")", "scope"},
      {R"("scope":5,"query":"x")", "scope"},
      {R"("scope":"mine","user":"a::b","query":"x")", "user"},
      {R"("scope":"mine","user":"","query":"x")", "user"},
      {R"("scope":"mine","user":"a b","query":"x")", "user"},
      {R"("scope":"mine","user":["a"],"query":"x")", "user"},
      {session + R"("query":"x","timezone":"Nowhere")", "timezone"},
      {session + R"("limit":5)", "query"},
      {session + R"("query":null)", "query"},
      {session + R"("query":"")", "query"},
      {session + R"("query":7)", "query"},
      {session + R"("query":["x"])", "query"},
      {session + R"("query":"x","limit":0)", "limit"},
      {session + R"("query":"x","limit":101)", "limit"},
      {session + R"("query":"x","limit":1.5)", "limit"},
      {session + R"("query":"x","limit":"10")", "limit"},
      {session + R"("query":")" + std::string(kSearchQueryBytesMax + 1, 'x') + "\"", "query"},
  };
  for (const auto& [members, field] : bad)
    EXPECT_EQ(FieldOf(Search(members), members), field) << members.substr(0, 100);
  EXPECT_EQ(FieldOf(Search(R"("scope":"mine","query":"x")", {"x", ""}), ""), "scope");
  EXPECT_TRUE(
      Search(session + R"("query":")" + std::string(kSearchQueryBytesMax, 'x') + "\"").ok());
  const std::string unknown = "{" + session + R"("query":"x","frob":1})";
  EXPECT_EQ(FieldOf(ParseSearchRequest(unknown, {}, /*strict=*/true), unknown), "frob");
  EXPECT_EQ(FieldOf(ParseSearchRequest("[]", {}, false), "[]"), "");
}

TEST(ReplayRequest, MayBeEmpty) {
  for (const std::string body : {"", " \r\n", "{}", R"({"without":null,"max_tokens":null})"}) {
    const auto replay = ParseReplayRequest(body, /*strict=*/true);
    ASSERT_TRUE(replay.ok()) << body;
    EXPECT_TRUE(replay->request.without.empty());
    EXPECT_FALSE(replay->request.max_tokens.has_value());
  }
  const auto replay = ParseReplayRequest(
      R"({"max_tokens":7,"x":1,"without":")" + std::string(kTurn) + "\"}", /*strict=*/false);
  ASSERT_TRUE(replay.ok());
  EXPECT_EQ(replay->request.without.value, kTurn);
  EXPECT_EQ(replay->request.max_tokens, 7);
  EXPECT_EQ(replay->ignored, std::vector<std::string>{"x"});
  for (const std::string bad : {"5", "[]", "\"a b\"", "\"../x\"", "{}"}) {
    const std::string body = "{\"without\":" + bad + "}";
    EXPECT_EQ(FieldOf(ParseReplayRequest(body, false), body), "without") << bad;
  }
  for (const std::string bad : {"-1", "\"5\"", "1.5", "2147483648"}) {
    const std::string body = "{\"max_tokens\":" + bad + "}";
    EXPECT_EQ(FieldOf(ParseReplayRequest(body, false), body), "max_tokens") << bad;
  }
}

TEST(TurnChange, AbsentIsUnchanged) {
  auto request = ParseTurnChange(R"({"pinned":true})", false);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->change.pinned, true);
  EXPECT_FALSE(request->change.recall.has_value());
  EXPECT_FALSE(request->change.superseded_by.has_value());
  request = ParseTurnChange(R"({"recall":false,"pinned":null,"superseded_by":null})", false);
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->change.pinned.has_value());
  EXPECT_EQ(request->change.recall, false);
  ASSERT_TRUE(request->change.superseded_by.has_value());
  EXPECT_TRUE(request->change.superseded_by->empty());
  request = ParseTurnChange(R"({"superseded_by":")" + std::string(kTurn) + "\"}", false);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->change.superseded_by->value, kTurn);

  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"pinned":1})", "pinned"},
      {R"({"recall":"off"})", "recall"},
      {R"({"superseded_by":7})", "superseded_by"},
      {R"({"superseded_by":"a::b"})", "superseded_by"},
      {R"({"superseded_by":")" + std::string(65, 'a') + "\"}", "superseded_by"},
      {R"({"pined":true})", ""},
      {"{}", ""},
      {"", ""},
      {"5", ""}};
  for (const auto& [body, field] : bad)
    EXPECT_EQ(FieldOf(ParseTurnChange(body, false), body), field) << body;
  const auto mode = ParseTurnChange(R"({"recall":"off"})", false);
  EXPECT_NE(mode.error().message().find("true or false"), std::string::npos);
  EXPECT_NE(mode.error().message().find("recall.mode"), std::string::npos);
  EXPECT_EQ(FieldOf(ParseTurnChange(R"({"pinned":true,"x":1})", /*strict=*/true), ""), "x");
}

}  // namespace
}  // namespace tenuto
