// Recall, search, explain, replay and changes of turns through the real server.
#include <string>
#include <vector>

#include "serve/requests/memory.h"
#include "serve/turn_testing.h"

namespace tenuto {
namespace {

namespace json = boost::json;

// A session of which the window holds only the end. `fact` is what its first turn says.
class Memory : public testing::Test {
 protected:
  static TestServerOptions Options() {
    TestServerOptions options;
    options.model.window = 3072;
    options.model.answer_tokens_max = 8;
    return options;
  }

  void SetUp() override {
    std::string items = Item("user", "The harbour code of Lisbon is 4711.") +
                        Item("assistant", "Noted.", R"(,"id":"m-1","time":"2024-05-03T12:30:00Z")");
    for (int i = 0; i < 80; ++i) {
      items += Item("user", "Tell me about number " + std::to_string(i) + " of the day.");
      items += Item("assistant", "It is odd or even, as numbers are: " + std::to_string(i) + ".");
    }
    const RawResponse imported = client_.Post("/v1/sessions/long/import", items);
    ASSERT_EQ(imported.status, 200) << imported.body;
    fact_ = Turns().at(0).at("id").as_string();
  }

  static std::string Item(const std::string& role, const std::string& text,
                          const std::string& more = "") {
    return R"({"role":")" + role + R"(","content":")" + text + "\"" + more + "}\n";
  }
  json::array Turns() {
    return client_.Get("/v1/sessions/long/turns").Json().at("data").as_array();
  }
  RawResponse Ask(const std::string& text, const std::string& more = "") {
    return client_.Post(kChat, ChatBody(text, R"(,"session_id":"long")" + more));
  }
  RawResponse Search(const std::string& query, const std::string& more = "") {
    return client_.Post("/v1/memory/search",
                        R"({"session_id":"long","query":")" + query + "\"" + more + "}");
  }
  RawResponse Send(const std::string& method, const std::string& target,
                   const std::string& body = "") {
    client_.Send(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
    return client_.Read();
  }
  std::string OfTurn(const std::string& turn, const std::string& what = "") const {
    return "/v1/sessions/long/turns/" + turn + what;
  }
  std::string OfFact(const std::string& what = "") const { return OfTurn(fact_, what); }

  TestServer server_{Options()};
  RawClient client_{server_.http->port()};
  std::string fact_;
};

TEST_F(Memory, WhatLeftTheWindowComesBack) {
  const RawResponse asked = Ask("What is the harbour code of Lisbon?");
  ASSERT_EQ(asked.status, 200) << asked.body;
  const json::value tenuto = asked.Json().at("tenuto");
  const json::value recall = tenuto.at("recall");
  EXPECT_EQ(recall.at("decision"), "injected") << asked.body;
  EXPECT_GT(recall.at("tokens").as_int64(), 0);
  ASSERT_FALSE(recall.at("candidates").as_array().empty());
  EXPECT_EQ(recall.at("candidates").at(0).at("turn"), json::value(fact_));
  EXPECT_EQ(recall.at("candidates").at(0).at("injected"), true);

  const std::string turn(tenuto.at("turn").as_string());
  const RawResponse explained = client_.Get(OfTurn(turn, "/explain"));
  ASSERT_EQ(explained.status, 200) << explained.body;
  bool quoted = false;
  int64_t tokens = 0;
  const json::value explanation = explained.Json();
  for (const json::value& span : explanation.at("spans").as_array()) {
    tokens += span.at("tokens").as_int64();
    if (span.at("kind") == "recall") quoted = span.at("quoted").at(0) == json::value(fact_);
  }
  EXPECT_TRUE(quoted) << explained.body;
  EXPECT_EQ(tokens, explanation.at("prompt_tokens").as_int64());
  EXPECT_EQ(tokens, asked.Json().at("usage").at("prompt_tokens").as_int64());
  EXPECT_EQ(explanation.at("same_prompt"), true);
  EXPECT_EQ(explanation.at("recall").at("decision"), "injected");

  const RawResponse replayed = client_.Post(OfTurn(turn, "/replay"), "");
  ASSERT_EQ(replayed.status, 200) << replayed.body;
  EXPECT_EQ(replayed.Json().at("equal"), true) << replayed.body;
  EXPECT_EQ(replayed.Json().at("prompt_tokens").as_int64(), tokens);
  const RawResponse without =
      client_.Post(OfTurn(turn, "/replay"), R"({"without":")" + fact_ + R"(","max_tokens":3})");
  ASSERT_EQ(without.status, 200) << without.body;
  EXPECT_LT(without.Json().at("prompt_tokens").as_int64(), tokens);
  EXPECT_EQ(without.Json().at("without"), json::value(fact_));
  const RawResponse not_quoted =
      client_.Post(OfTurn(turn, "/replay"), R"({"without":")" + turn + "\"}");
  EXPECT_EQ(not_quoted.status, 400);
  EXPECT_EQ(not_quoted.ErrorParam(), "without");
}

TEST_F(Memory, OffAndSmallTalkBringNothing) {
  const auto decision = [](const RawResponse& answer) {
    const json::value recall = answer.Json().at("tenuto").at("recall");
    EXPECT_EQ(recall.at("tokens"), 0) << answer.body;
    return std::string(recall.at("decision").as_string());
  };
  EXPECT_EQ(decision(Ask("What is the harbour code of Lisbon?", R"(,"recall":"off")")), "off");
  EXPECT_NE(decision(Ask("thanks!")), "injected");
  EXPECT_EQ(decision(client_.Post(kChat, ChatBody("the harbour code of Lisbon"))), "off");
  EXPECT_EQ(decision(client_.Post(kChat, ChatBody("a", R"(,"recall":"off")"))), "off");
  EXPECT_EQ(client_.Post(kChat, ChatBody("a", R"(,"recall":"force")")).ErrorParam(), "recall");
  EXPECT_EQ(Ask("a", R"(,"recall":"on")").ErrorParam(), "recall");
}

TEST_F(Memory, Search) {
  const RawResponse found = Search("harbour code Lisbon", R"(,"limit":3)");
  ASSERT_EQ(found.status, 200) << found.body;
  const json::value hit = found.Json().at("data").at(0);
  EXPECT_EQ(hit.at("turn"), json::value(fact_));
  EXPECT_EQ(hit.at("session"), "long");
  EXPECT_EQ(hit.at("client_id"), "m-1");
  EXPECT_NE(hit.at("text").as_string().find("4711"), json::string::npos);
  EXPECT_LE(found.Json().at("data").as_array().size(), 3U);
  const RawResponse mine =
      client_.Post("/v1/memory/search", R"({"scope":"mine","query":"harbour code Lisbon"})");
  EXPECT_EQ(mine.Json().at("data").at(0).at("turn"), json::value(fact_)) << mine.body;
  const RawResponse theirs = client_.Post(
      "/v1/memory/search", R"({"scope":"mine","user":"bob","query":"harbour code Lisbon"})");
  EXPECT_EQ(theirs.Json().at("data").as_array().size(), 0U);
  EXPECT_EQ(Search("x", R"(,"frob":1)").Json().at("tenuto").at("ignored"),
            json::parse(R"(["frob"])"));
  EXPECT_EQ(client_.Post("/v1/memory/search", R"({"session_id":"nobody","query":"x"})").status,
            404);
}

TEST_F(Memory, OddQueriesHarmNothing) {
  const std::vector<std::string> odd = {"the of and a",
                                        "?!...",
                                        " ",
                                        "NEAR(harbour code, 5)",
                                        "sid:long OR 1=1",
                                        "\\\"harbour\\\"",
                                        "* ^ ( ) - + :",
                                        "\\u200b\\u200d\\u202e\\u2066harbour",
                                        "\\u0000\\u0001\\u001b[2J",
                                        "\\ud83d\\ude00",
                                        std::string(kSearchQueryBytesMax, 'x'),
                                        std::string(kSearchQueryBytesMax, ' '),
                                        std::string(kSearchQueryBytesMax, '*')};
  for (const std::string& query : odd)
    EXPECT_EQ(Search(query).status, 200) << query.substr(0, 60);
  std::string words;
  for (int i = 0; words.size() + 8 < kSearchQueryBytesMax; ++i)
    words += "w" + std::to_string(i) + " ";
  EXPECT_EQ(Search(words).status, 200);
  EXPECT_EQ(Search(words + std::string(kSearchQueryBytesMax, 'x')).ErrorParam(), "query");
  EXPECT_EQ(Search("").ErrorParam(), "query");
  EXPECT_EQ(client_.Get("/health").status, 200);
}

TEST_F(Memory, ATurnIsLeftAloneWhenAClientSaysSo) {
  const RawResponse changed = Send("PATCH", OfFact(), R"({"recall":false})");
  ASSERT_EQ(changed.status, 200) << changed.body;
  EXPECT_EQ(changed.Json(),
            json::parse(R"({"object":"session.turn.state","session":"long","id":")" + fact_ +
                        R"(","pinned":false,"recall":false,"superseded_by":null})"));
  const json::value asked = Ask("What is the harbour code of Lisbon?").Json();
  for (const json::value& candidate : asked.at("tenuto").at("recall").at("candidates").as_array())
    EXPECT_NE(candidate.at("turn"), json::value(fact_));

  const std::string later(Turns().at(3).at("id").as_string());
  EXPECT_EQ(Send("PATCH", OfFact(), R"({"pinned":true,"superseded_by":")" + later + "\"}")
                .Json()
                .at("superseded_by"),
            json::value(later));
  const json::value state =
      Send("PATCH", OfFact(), R"({"superseded_by":null,"recall":true})").Json();
  EXPECT_TRUE(state.at("superseded_by").is_null());
  EXPECT_EQ(state.at("pinned"), true);
  EXPECT_EQ(state.at("recall"), true);
}

TEST_F(Memory, ADeletedTurnIsGone) {
  const RawResponse asked = Ask("What is the harbour code of Lisbon?");
  const std::string turn(asked.Json().at("tenuto").at("turn").as_string());
  const RawResponse deleted = Send("DELETE", OfFact());
  ASSERT_EQ(deleted.status, 200) << deleted.body;
  EXPECT_EQ(deleted.Json(), json::parse(R"({"object":"session.turn.deleted","id":")" + fact_ +
                                        R"(","deleted":true,"used_by":[")" + turn + "\"]}"));
  EXPECT_EQ(Send("DELETE", OfFact()).status, 404);
  EXPECT_EQ(client_.Get("/v1/sessions/long/turns").body.find("4711"), std::string::npos);
  const json::value found = Search("harbour code Lisbon 4711").Json();
  for (const json::value& hit : found.at("data").as_array())
    EXPECT_NE(hit.at("turn"), json::value(fact_));
  const RawResponse explained = client_.Get(OfTurn(turn, "/explain"));
  EXPECT_EQ(explained.Json().at("same_prompt"), false) << explained.body;
  EXPECT_EQ(Ask("And again?").status, 200);
}

TEST_F(Memory, UnknownTurnsAreNotFound) {
  for (const std::string turn :
       {"01HZZZZZZZZZZZZZZZZZZZZZZZ", "x", "a%20b", "%e2%80%ae", "..", "'%20OR%201=1--"}) {
    EXPECT_EQ(client_.Get(OfTurn(turn, "/explain")).status, 404) << turn;
    EXPECT_EQ(client_.Post(OfTurn(turn, "/replay"), "{}").status, 404) << turn;
    EXPECT_EQ(Send("PATCH", OfTurn(turn), R"({"pinned":true})").status, 404) << turn;
    EXPECT_EQ(Send("DELETE", OfTurn(turn)).status, 404) << turn;
  }
  const std::string nobody = "/v1/sessions/nobody/turns/" + fact_;
  EXPECT_EQ(client_.Get(nobody + "/explain").status, 404);
  EXPECT_EQ(Send("DELETE", nobody).status, 404);
  EXPECT_EQ(client_.Get("/v1/sessions/a%2fb/turns/x/explain").ErrorParam(), "session_id");
  EXPECT_EQ(Send("PATCH", OfFact(), R"({"pinned":"yes"})").ErrorParam(), "pinned");
  EXPECT_EQ(
      Send("PATCH", OfFact(), R"({"superseded_by":"01HZZZZZZZZZZZZZZZZZZZZZZZ"})").status / 100, 4);
  EXPECT_EQ(Send("PATCH", OfFact(), "{}").status, 400);
  EXPECT_EQ(client_.Post(OfFact("/replay"), R"({"without":7})").ErrorParam(), "without");
  const RawResponse metrics = client_.Get("/metrics");
  EXPECT_NE(metrics.body.find(R"(route="/v1/sessions/:id/turns/:turn/explain",status="404")"),
            std::string::npos);
}

}  // namespace
}  // namespace tenuto
