#include "serve/answers/generate.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <vector>

#include "serve/answers/errors.h"
#include "serve/answers/sessions.h"

namespace tenuto {
namespace {

namespace json = boost::json;

TurnOutcome Outcome() {
  TurnOutcome outcome;
  outcome.session = ParseSessionKey("alice::c1").value();
  outcome.turn = TurnId{"01H"};
  outcome.text = "a \"b\"\n";
  outcome.tokens = {1, 2, 3};
  outcome.finish_reason = "stop";
  outcome.seed = 7;
  outcome.prompt_tokens = 10;
  outcome.completion_tokens = 3;
  outcome.reused = 4;
  outcome.restored = 5;
  outcome.recomputed = 1;
  outcome.reasons = {{"tail", 1, "the last token is decoded again"}};
  outcome.window_turns = 2;
  outcome.window_tokens = 13;
  outcome.window_limit = 100;
  outcome.recall.decision = "injected";
  outcome.recall.tokens = 12;
  outcome.recall.candidates = {{TurnId{"01A"}, 1.5, {"sea", "\xc3\xa9"}, true, "matches"},
                               {TurnId{"01B"}, 0.25, {}, false, "chance"}};
  outcome.times = {0.5, 1, 2, 30, 4};
  return outcome;
}

AnswerMeta Meta(ApiKind api) {
  AnswerMeta meta;
  meta.api = api;
  meta.id = "chatcmpl-x";
  meta.created = 5;
  meta.model = "tiny";
  meta.ignored = {"foo"};
  meta.settings_json = R"({"top_k":40})";
  return meta;
}

// The events of a stream; the last one may be [DONE].
std::vector<std::string> Events(const std::string& stream) {
  std::vector<std::string> events;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    if (end == std::string::npos) break;
    const std::string block = stream.substr(at, end - at);
    if (block.starts_with("data: ")) events.push_back(block.substr(6));
    at = end + 2;
  }
  return events;
}

void ExpectTenuto(const json::object& tenuto) {
  EXPECT_EQ(tenuto.at("session"), "alice::c1");
  EXPECT_EQ(tenuto.at("turn"), "01H");
  EXPECT_EQ(tenuto.at("kv"), json::parse(R"({"reused":4,"restored":5,"recomputed":1,"reasons":[
      {"code":"tail","tokens":1,"detail":"the last token is decoded again"}]})"));
  EXPECT_EQ(tenuto.at("window"),
            json::parse(R"({"turns":2,"tokens":13,"limit_tokens":100,"archived_turns":0,
                            "trimmed_turns":0})"));
  EXPECT_EQ(tenuto.at("recall"), json::parse(R"({"decision":"injected","tokens":12,"candidates":[
      {"turn":"01A","score":1.5,"terms":["sea","\u00e9"],"injected":true,"why":"matches"},
      {"turn":"01B","score":0.25,"terms":[],"injected":false,"why":"chance"}]})"));
  EXPECT_EQ(tenuto.at("ignored"), json::parse(R"(["foo"])"));
  EXPECT_EQ(tenuto.at("timing_ms").as_object().size(), 5U);
  EXPECT_EQ(tenuto.at("seed"), 7);
  EXPECT_FALSE(tenuto.contains("incomplete"));
  EXPECT_FALSE(tenuto.contains("replayed"));
}

TEST(AnswerBody, Chat) {
  const json::object body = json::parse(AnswerBody(Meta(ApiKind::kChat), Outcome())).as_object();
  EXPECT_EQ(body.at("id"), "chatcmpl-x");
  EXPECT_EQ(body.at("object"), "chat.completion");
  EXPECT_EQ(body.at("created"), 5);
  EXPECT_EQ(body.at("model"), "tiny");
  const json::object& choice = body.at("choices").as_array().at(0).as_object();
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_EQ(choice.at("message").at("content"), "a \"b\"\n");
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_EQ(body.at("usage"),
            json::parse(R"({"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,
                            "prompt_tokens_details":{"cached_tokens":9}})"));
  ExpectTenuto(body.at("tenuto").as_object());
  const json::object& timings = body.at("timings").as_object();
  EXPECT_EQ(timings.at("cache_n"), 9);
  EXPECT_EQ(timings.at("prompt_n"), 1);
  EXPECT_EQ(timings.at("predicted_n"), 3);
  EXPECT_DOUBLE_EQ(timings.at("predicted_per_token_ms").to_number<double>(), 10);
  EXPECT_DOUBLE_EQ(timings.at("predicted_per_second").to_number<double>(), 100);
}

TEST(AnswerBody, CompletionsAndLlama) {
  const json::object body =
      json::parse(AnswerBody(Meta(ApiKind::kCompletions), Outcome())).as_object();
  EXPECT_EQ(body.at("object"), "text_completion");
  EXPECT_EQ(body.at("choices").at(0).at("text"), "a \"b\"\n");

  AnswerMeta meta = Meta(ApiKind::kLlama);
  json::object llama = json::parse(AnswerBody(meta, Outcome())).as_object();
  EXPECT_EQ(llama.at("content"), "a \"b\"\n");
  EXPECT_EQ(llama.at("tokens"), json::array());
  EXPECT_EQ(llama.at("stop"), true);
  EXPECT_EQ(llama.at("stop_type"), "eos");
  EXPECT_EQ(llama.at("tokens_predicted"), 3);
  EXPECT_EQ(llama.at("tokens_evaluated"), 10);
  EXPECT_EQ(llama.at("tokens_cached"), 9);
  EXPECT_EQ(llama.at("generation_settings").at("top_k"), 40);
  EXPECT_EQ(llama.at("model"), "tiny");
  meta.return_tokens = true;
  TurnOutcome word = Outcome();
  word.stop_string = "END";
  llama = json::parse(AnswerBody(meta, word)).as_object();
  EXPECT_EQ(llama.at("tokens").as_array().size(), 3U);
  EXPECT_EQ(llama.at("stop_type"), "word");
  EXPECT_EQ(llama.at("stopping_word"), "END");
}

TEST(AnswerBody, ACutAnswerIsNoStop) {
  for (const std::string reason : {"cancelled", "shutdown"}) {
    TurnOutcome outcome = Outcome();
    outcome.finish_reason = reason;
    outcome.incomplete = true;
    outcome.replayed = true;
    const json::object body = json::parse(AnswerBody(Meta(ApiKind::kChat), outcome)).as_object();
    EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "length");
    EXPECT_EQ(body.at("tenuto").at("incomplete"), json::value(reason));
    EXPECT_EQ(body.at("tenuto").at("replayed"), true);
    EXPECT_EQ(json::parse(AnswerBody(Meta(ApiKind::kLlama), outcome)).at("stop_type"), "none");
  }
}

TEST(AnswerBody, WithoutASession) {
  TurnOutcome outcome = Outcome();
  outcome.session.reset();
  const json::value body = json::parse(AnswerBody(Meta(ApiKind::kChat), outcome));
  EXPECT_TRUE(body.at("tenuto").at("session").is_null());
  EXPECT_TRUE(body.at("tenuto").at("turn").is_null());
  EXPECT_EQ(json::parse(TenutoJson(TurnOutcome(), {})).at("recall"),
            json::parse(R"({"decision":"off","tokens":0,"candidates":[]})"));
}

std::string Stream(AnswerMeta meta) {
  StreamEncoder encoder(std::move(meta));
  std::string out;
  encoder.AppendFirst(out);
  encoder.AppendText(out, RunChunk{{1}, "a \"b"});
  encoder.AppendText(out, RunChunk{{2, 3}, "\"\n"});
  StreamEncoder::AppendComment(out, "keep-alive");
  encoder.AppendLast(out, Outcome());
  return out;
}

TEST(StreamEncoder, Chat) {
  const auto events = Events(Stream(Meta(ApiKind::kChat)));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(json::parse(events[0]).at("choices").at(0).at("delta"),
            json::parse(R"({"role":"assistant","content":""})"));
  std::string text;
  for (const size_t i : {1U, 2U}) {
    const json::object event = json::parse(events[i]).as_object();
    EXPECT_EQ(event.at("object"), "chat.completion.chunk");
    EXPECT_EQ(event.at("id"), "chatcmpl-x");
    EXPECT_TRUE(event.at("choices").at(0).at("finish_reason").is_null());
    EXPECT_FALSE(event.contains("usage"));
    text += std::string(event.at("choices").at(0).at("delta").at("content").as_string());
  }
  EXPECT_EQ(text, Outcome().text);
  const json::object last = json::parse(events[3]).as_object();
  EXPECT_EQ(last.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(last.at("choices").at(0).at("delta"), json::object());
  ExpectTenuto(last.at("tenuto").as_object());
  EXPECT_TRUE(last.contains("timings"));
  EXPECT_EQ(events[4], "[DONE]");
}

TEST(StreamEncoder, UsageComesInAChunkOfItsOwn) {
  AnswerMeta meta = Meta(ApiKind::kChat);
  meta.include_usage = true;
  const auto events = Events(Stream(meta));
  ASSERT_EQ(events.size(), 6U);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(json::parse(events[i]).at("usage").is_null()) << i;
  EXPECT_EQ(json::parse(events[3]).at("choices").at(0).at("finish_reason"), "stop");
  const json::object usage = json::parse(events[4]).as_object();
  EXPECT_EQ(usage.at("choices"), json::array());
  EXPECT_EQ(usage.at("usage").at("total_tokens"), 13);
  ExpectTenuto(usage.at("tenuto").as_object());
  EXPECT_EQ(events[5], "[DONE]");
}

TEST(StreamEncoder, CompletionsAndLlama) {
  auto events = Events(Stream(Meta(ApiKind::kCompletions)));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(json::parse(events[0]).at("object"), "text_completion");
  EXPECT_EQ(json::parse(events[0]).at("choices").at(0).at("text"), "a \"b");
  EXPECT_EQ(events.back(), "[DONE]");

  events = Events(Stream(Meta(ApiKind::kLlama)));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(json::parse(events[0]).at("content"), "a \"b");
  EXPECT_EQ(json::parse(events[0]).at("stop"), false);
  EXPECT_EQ(json::parse(events[1]).at("tokens_predicted"), 3);
  EXPECT_EQ(json::parse(events[2]).at("stop"), true);
  EXPECT_EQ(json::parse(events[2]).at("content"), "");
}

TEST(StreamEncoder, AnErrorIsAnEvent) {
  std::string out;
  StreamEncoder::AppendError(out, Error(Code::kIo, "the disk is gone"));
  const auto events = Events(out);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(json::parse(events[0]).at("error").at("message"), "the disk is gone");
}

TEST(Errors, StatusesAndShape) {
  const std::vector<std::pair<Error, int>> cases = {
      {Error(Code::kInvalid, "m"), 400},
      {Error(Code::kNotFound, "m"), 404},
      {Error(Code::kConflict, "m"), 409},
      {Error(Code::kExhausted, "m"), 503},
      {Error(Code::kUnavailable, "m"), 503},
      {Error(Code::kDenied, "m"), 403},
      {Error(Code::kCorrupt, "m"), 500},
      {Error(Code::kIo, "m"), 500},
      {Error(Code::kExhausted, "m").At("queue"), 429},
      {Error(Code::kExhausted, "m").At("limit.queue_timeout"), 429}};
  for (const auto& [error, status] : cases) {
    const HttpResponse response = ErrorResponse(error);
    EXPECT_EQ(response.status, status);
    const json::object object = json::parse(response.body).at("error").as_object();
    EXPECT_EQ(object.at("message"), "m");
    EXPECT_TRUE(object.at("type").is_string());
    EXPECT_EQ(object.at("param").is_null(), error.field().empty());
    EXPECT_TRUE(object.at("code").is_string());
    const bool retry = status == 429 || status == 503;
    EXPECT_EQ(std::any_of(response.headers.begin(), response.headers.end(),
                          [](const HttpHeader& h) { return h.name == "Retry-After"; }),
              retry);
  }
  const auto named = json::parse(ErrorBody(Error(Code::kInvalid, "m").At("top_p")));
  EXPECT_EQ(named.at("error").at("param"), "top_p");
  EXPECT_EQ(named.at("error").at("type"), "invalid_request_error");
}

TEST(SessionBodies, AreJson) {
  SessionInfo info;
  info.row.key = ParseSessionKey("alice::c1").value();
  info.row.created_unix_ms = 1'500;
  info.row.turns = 2;
  info.stored_bytes = 77;
  SessionListing listing{{info}, true};
  const json::value list = json::parse(SessionListBody(listing));
  EXPECT_EQ(list.at("data").at(0).at("id"), "alice::c1");
  EXPECT_EQ(list.at("data").at(0).at("created_at"), 1);
  EXPECT_EQ(list.at("data").at(0).at("kv").at("stored_bytes"), 77);
  EXPECT_TRUE(list.at("data").at(0).at("head").is_null());
  EXPECT_EQ(list.at("last_id"), "alice::c1");
  EXPECT_EQ(list.at("has_more"), true);
  EXPECT_TRUE(json::parse(SessionListBody({})).at("first_id").is_null());

  TurnRow turn;
  turn.id = TurnId{"01H"};
  turn.items_json = R"([{"role":"user","content":"x"}])";
  turn.prompt = {1, 2};
  TurnRow gone;
  gone.id = TurnId{"01J"};
  gone.deleted = true;
  TurnMarks marks;
  marks.turn = turn.id;
  marks.pinned = marks.recall_off = true;
  marks.superseded_by = TurnId{"01K"};
  TurnMarks elsewhere;
  elsewhere.turn = TurnId{"01Z"};
  elsewhere.pinned = true;
  const json::value turns = json::parse(TurnListBody({{turn, gone}, {elsewhere, marks}, true}));
  EXPECT_EQ(turns.at("data").at(0).at("items").at(0).at("content"), "x");
  EXPECT_EQ(turns.at("data").at(0).at("prompt_tokens"), 2);
  EXPECT_EQ(turns.at("data").at(0).at("params"), json::object());
  EXPECT_EQ(turns.at("data").at(0).at("pinned"), true);
  EXPECT_EQ(turns.at("data").at(0).at("recall"), false);
  EXPECT_EQ(turns.at("data").at(0).at("superseded_by"), "01K");
  EXPECT_FALSE(turns.at("data").at(0).as_object().contains("deleted"));
  EXPECT_EQ(turns.at("data").at(1).at("deleted"), true);
  EXPECT_FALSE(turns.at("data").at(1).as_object().contains("pinned"));
  EXPECT_EQ(turns.at("last_id"), "01J");
  EXPECT_EQ(turns.at("has_more"), true);
  EXPECT_TRUE(json::parse(TurnListBody({})).at("last_id").is_null());
  EXPECT_EQ(json::parse(SessionDeletedBody(info.row.key)).at("deleted"), true);
}

}  // namespace
}  // namespace tenuto
