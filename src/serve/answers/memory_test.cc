#include "serve/answers/memory.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <limits>

namespace tenuto {
namespace {

namespace json = boost::json;

SessionKey Key() {
  return ParseSessionKey("alice::c1").value();
}

TEST(RecallJson, TurnsIndexedNowAreSaidWhereThereAreAny) {
  RecallOutcome recall;
  recall.decision = "gated";
  recall.indexed_now = 3;
  recall.candidates = {{TurnId{"01A"}, std::numeric_limits<double>::quiet_NaN(), {}, false, "x"},
                       {TurnId{"01B"}, 1.0, {}, true, "matches", 3}};
  JsonWriter writer;
  writer.BeginObject();
  WriteRecall(writer, recall);
  writer.EndObject();
  const json::value written = json::parse(writer.text()).at("recall");
  EXPECT_EQ(written.at("indexed_now"), 3);
  EXPECT_TRUE(written.at("candidates").at(0).at("score").is_null());
  EXPECT_EQ(written.at("candidates").at(0).as_object().if_contains("newest_of"), nullptr);
  EXPECT_EQ(written.at("candidates").at(1).at("newest_of"), 3);
}

TEST(MemoryBodies, Search) {
  MemoryAnswer answer;
  answer.decision = "gated";
  EXPECT_EQ(json::parse(SearchBody(answer, {})),
            json::parse(R"({"object":"list","data":[],"decision":"gated"})"));
  MemoryHit hit;
  hit.session = Key();
  hit.turn = TurnId{"01A"};
  hit.score = 2.5;
  hit.terms = {"sea"};
  hit.unix_ms = 1'714'739'400'007;
  hit.text = "user: \"a\"\nassistant: b\xff";
  answer.hits = {hit, hit};
  answer.hits[1].client_id = "m-1";
  const json::value body = json::parse(SearchBody(answer, {"frob"}));
  EXPECT_EQ(body.at("data").at(0), json::parse(R"({"session":"alice::c1","turn":"01A",
      "client_id":null,"score":2.5,"terms":["sea"],"time":"2024-05-03T12:30:00.007Z",
      "text":"user: \"a\"\nassistant: b\ufffd","excerpt":false})"));
  EXPECT_EQ(body.at("data").at(1).at("client_id"), "m-1");
  EXPECT_EQ(body.at("tenuto").at("ignored"), json::parse(R"(["frob"])"));
}

TEST(MemoryBodies, TimesOfAllYears) {
  MemoryAnswer answer;
  answer.hits.resize(3);
  answer.hits[1].unix_ms = 951'827'696'789;
  answer.hits[2].unix_ms = 253'402'300'799'999;
  const json::value body = json::parse(SearchBody(answer, {}));
  EXPECT_EQ(body.at("data").at(0).at("time"), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(body.at("data").at(1).at("time"), "2000-02-29T12:34:56.789Z");
  EXPECT_EQ(body.at("data").at(2).at("time"), "9999-12-31T23:59:59.999Z");
}

TEST(MemoryBodies, Explanation) {
  TurnExplanation explanation;
  explanation.turn = TurnId{"01C"};
  explanation.line = 3;
  explanation.spans = {{"head", {}, 5, {}}, {"recall", TurnId{"01C"}, 7, {TurnId{"01A"}}}};
  explanation.prompt_tokens = 12;
  explanation.same_prompt = false;
  EXPECT_EQ(json::parse(ExplanationBody(Key(), explanation)), json::parse(R"({
      "object":"session.turn.explanation","session":"alice::c1","turn":"01C","line":3,
      "prompt_tokens":12,"same_prompt":false,
      "spans":[{"kind":"head","turn":null,"tokens":5,"quoted":[]},
               {"kind":"recall","turn":"01C","tokens":7,"quoted":["01A"]}],
      "recall":{"decision":"off","tokens":0,"candidates":[]}})"));
}

TEST(MemoryBodies, Replay) {
  ReplayOutcome outcome;
  outcome.turn = TurnId{"01C"};
  outcome.text = "a";
  outcome.stored_text = "ab";
  outcome.prompt_tokens = 9;
  outcome.completion_tokens = 1;
  outcome.finish_reason = "length";
  json::value body = json::parse(ReplayAnswerBody(Key(), outcome, {}));
  EXPECT_EQ(body, json::parse(R"({"object":"session.turn.replay","session":"alice::c1",
      "turn":"01C","without":null,"text":"a","stored_text":"ab","equal":false,"same_prompt":true,
      "prompt_tokens":9,"completion_tokens":1,"finish_reason":"length"})"));
  outcome.without = TurnId{"01A"};
  outcome.differs = "without";
  body = json::parse(ReplayAnswerBody(Key(), outcome, {"x"}));
  EXPECT_EQ(body.at("without"), "01A");
  EXPECT_EQ(body.at("same_prompt"), false);
  EXPECT_EQ(body.at("why"), "without");
  EXPECT_EQ(body.at("tenuto").at("ignored"), json::parse(R"(["x"])"));
}

TEST(MemoryBodies, StateAndDeletion) {
  TurnState state;
  state.turn = TurnId{"01A"};
  state.pinned = true;
  EXPECT_EQ(json::parse(TurnStateBody(Key(), state, {})), json::parse(R"({
      "object":"session.turn.state","session":"alice::c1","id":"01A","pinned":true,"recall":true,
      "superseded_by":null})"));
  state.superseded_by = TurnId{"01B"};
  EXPECT_EQ(json::parse(TurnStateBody(Key(), state, {})).at("superseded_by"), "01B");
  EXPECT_EQ(json::parse(TurnDeletedBody({TurnId{"01A"}, {TurnId{"01B"}, TurnId{"01C"}}})),
            json::parse(R"({"object":"session.turn.deleted","id":"01A","deleted":true,
                            "used_by":["01B","01C"]})"));
  TurnDeletion pinned;
  for (int i = 0; i < 1002; ++i)
    pinned.used_by.push_back(TurnId{std::to_string(i)});
  const json::value many = json::parse(TurnDeletedBody(pinned));
  EXPECT_EQ(many.at("used_by").as_array().size(), 1000u);
  EXPECT_EQ(many.at("used_by").at(0), "2");
  EXPECT_EQ(many.at("used_by_total"), 1002);
}

}  // namespace
}  // namespace tenuto
