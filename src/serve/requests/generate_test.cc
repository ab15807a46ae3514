#include "serve/requests/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"

namespace tenuto {
namespace {

RequestContext Context() {
  return {.vocabulary_size = 1000,
          .window_tokens = 512,
          .token_bytes_max = 16,
          .strict = false,
          .model_name = "tiny"};
}

std::string Chat(const std::string& more = "") {
  return R"({"messages":[{"role":"user","content":"hi"}])" + more + "}";
}

// The field that a refusal names; fails the test when there is none.
std::string FieldOf(const Result<GenerateRequest>& request, const std::string& body) {
  EXPECT_FALSE(request.ok()) << body;
  if (request.ok()) return "";
  EXPECT_EQ(request.error().code(), Code::kInvalid) << body;
  EXPECT_FALSE(request.error().message().empty());
  return request.error().field();
}

std::string ChatField(const std::string& body, const RequestHeaders& headers = {}) {
  return FieldOf(ParseChatRequest(body, headers, Context()), body);
}

GenerateRequest GoodChat(const std::string& body, const RequestHeaders& headers = {}) {
  auto request = ParseChatRequest(body, headers, Context());
  EXPECT_TRUE(request.ok()) << body << ": " << request.error().message();
  return request.ok() ? std::move(request).value() : GenerateRequest();
}

TEST(ChatRequest, Defaults) {
  const GenerateRequest request = GoodChat(Chat());
  EXPECT_EQ(request.turn.kind, TurnRequest::Kind::kChat);
  EXPECT_FALSE(request.turn.session.has_value());
  EXPECT_EQ(request.turn.identity, "default::me::default");
  EXPECT_FALSE(request.turn.seed_given);
  EXPECT_FALSE(request.turn.max_tokens.has_value());
  EXPECT_FALSE(request.stream);
  const SamplingParams defaults;
  EXPECT_EQ(request.turn.sampling.temperature, defaults.temperature);
  EXPECT_EQ(request.turn.sampling.top_k, defaults.top_k);
  EXPECT_TRUE(request.ignored.empty());
}

TEST(ChatRequest, TextThatCannotFitSaysWhy) {
  const std::string text(512 * 16 + 16, 'x');
  const auto request = ParseChatRequest(
      R"({"messages":[{"role":"user","content":")" + text + "\"}]}", {}, Context());
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().message(),
            "'messages[0].content' is too long: 8208 bytes can't fit in the window of 512 tokens, "
            "for no token of this model has more than 16 bytes");
}

TEST(ChatRequest, ReadsEverySetting) {
  const GenerateRequest request = GoodChat(Chat(
      R"(,"temperature":0,"top_p":0.5,"top_k":7,"min_p":0.1,"presence_penalty":-2,
         "frequency_penalty":2,"repeat_penalty":1.1,"repeat_last_n":-1,"seed":-5,
         "stop":["a","b"],"logit_bias":{"3":-100,"999":1.5},"max_completion_tokens":20,
         "max_tokens":20,"stream":true,"stream_options":{"include_usage":true},
         "session_id":"alice::c1","ignore_eos":true,"model":"tiny")"));
  const TurnRequest& turn = request.turn;
  EXPECT_EQ(turn.sampling.temperature, 0);
  EXPECT_EQ(turn.sampling.top_p, 0.5);
  EXPECT_EQ(turn.sampling.top_k, 7);
  EXPECT_EQ(turn.sampling.min_p, 0.1);
  EXPECT_EQ(turn.sampling.presence_penalty, -2);
  EXPECT_EQ(turn.sampling.frequency_penalty, 2);
  EXPECT_EQ(turn.sampling.repeat_penalty, 1.1);
  EXPECT_EQ(turn.sampling.penalty_last_n, -1);
  EXPECT_TRUE(turn.seed_given);
  EXPECT_EQ(turn.sampling.seed, static_cast<uint64_t>(-5));
  EXPECT_EQ(turn.stop, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(turn.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(turn.sampling.logit_bias[1], (std::pair<TokenId, float>(999, 1.5F)));
  EXPECT_EQ(turn.max_tokens, 20);
  EXPECT_TRUE(turn.ignore_end);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(turn.session->Full(), "default::alice::default::c1");
  EXPECT_EQ(turn.identity, "default::alice::default");
  EXPECT_NE(turn.params_json.find("\"top_k\":7"), std::string::npos);
  EXPECT_TRUE(request.ignored.empty());
}

TEST(ChatRequest, NumbersOutOfRangeNameTheirField) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"temperature", "-0.1"},
      {"temperature", "2.1"},
      {"temperature", "\"1\""},
      {"temperature", "[]"},
      {"top_p", "1.01"},
      {"top_p", "-1"},
      {"min_p", "2"},
      {"top_k", "1.5"},
      {"top_k", "-2"},
      {"top_k", "2147483648"},
      {"presence_penalty", "2.5"},
      {"frequency_penalty", "-3"},
      {"repeat_penalty", "0"},
      {"repeat_last_n", "-2"},
      {"max_tokens", "-1"},
      {"max_tokens", "2147483648"},
      {"max_tokens", "1e30"},
      {"max_tokens", "1.5"},
      {"max_tokens", "\"5\""},
      {"max_tokens", "18446744073709551615"},
      {"max_completion_tokens", "-1"},
      {"seed", "1.5"},
      {"seed", "\"x\""},
      {"stream", "1"},
      {"stream", "\"true\""},
      {"model", "5"},
      {"ignore_eos", "1"},
      {"stop", "5"},
      {"stop", "[\"\"]"},
      {"stop", "\"\""},
      {"session_id", "5"},
      {"logit_bias", "5"},
  };
  for (const auto& [field, value] : bad) {
    EXPECT_EQ(ChatField(Chat(",\"" + field + "\":" + value)), field) << value;
  }
  EXPECT_EQ(ChatField(Chat(R"(,"stop":["a",5])")), "stop[1]");
  EXPECT_EQ(ChatField(Chat(R"(,"max_tokens":1,"max_completion_tokens":2)")), "max_tokens");
  EXPECT_EQ(ChatField(Chat(R"(,"stop":")" + std::string(2000, 's') + "\"")), "stop");
  std::string stops = ",\"stop\":[\"a\"";
  for (int i = 0; i < 16; ++i)
    stops += ",\"a\"";
  EXPECT_EQ(ChatField(Chat(stops + "]")), "stop");
  EXPECT_EQ(GoodChat(Chat(",\"max_tokens\":0")).turn.max_tokens, 0);
  EXPECT_EQ(GoodChat(Chat(",\"max_tokens\":8.0")).turn.max_tokens, 8);
  EXPECT_EQ(GoodChat(Chat(",\"seed\":18446744073709551615")).turn.sampling.seed,
            18446744073709551615U);
}

TEST(ChatRequest, LogitBiasNamesTokensOfTheVocabulary) {
  for (const std::string key : {"1000", "-1", "x", "", "3x", " 3", "99999999999"}) {
    EXPECT_EQ(ChatField(Chat(R"(,"logit_bias":{")" + key + R"(":1})")), "logit_bias") << key;
  }
  EXPECT_EQ(ChatField(Chat(R"(,"logit_bias":{"5":101})")), "logit_bias.5");
  EXPECT_EQ(ChatField(Chat(R"(,"logit_bias":{"5":"x"})")), "logit_bias.5");
  EXPECT_EQ(ChatField(Chat(R"(,"logit_bias":{")" + std::string(5000, '0') + R"(5":101})")),
            "logit_bias.5");
  EXPECT_EQ(ChatField(Chat(R"(,"logit_bias":[[1000,1]])")), "logit_bias[0]");
  EXPECT_EQ(ChatField(Chat(R"(,"logit_bias":[["Hi",1]])")), "logit_bias[0]");
  EXPECT_EQ(ChatField(Chat(R"(,"logit_bias":[1])")), "logit_bias[0]");
  const auto bias = GoodChat(Chat(R"(,"logit_bias":[[5,false],[6,2]])")).turn.sampling.logit_bias;
  ASSERT_EQ(bias.size(), 2U);
  EXPECT_TRUE(std::isinf(bias[0].second));
  std::string many = ",\"logit_bias\":[[1,1]";
  for (size_t i = 0; i < kLogitBiasMax; ++i)
    many += ",[1,1]";
  EXPECT_EQ(ChatField(Chat(many + "]")), "logit_bias");
}

TEST(ChatRequest, Messages) {
  const auto request = GoodChat(
      R"({"messages":[{"role":"developer","content":"be brief"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],
           "name":"bob"},
          {"role":"assistant","content":"","tool_calls":[],"refusal":null},
          {"role":"user","content":"c","surprise":1}]})");
  const auto& messages = request.turn.messages;
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[0], (ChatMessage{"system", "be brief", ""}));
  EXPECT_EQ(messages[1], (ChatMessage{"user", "a\nb", "bob"}));
  EXPECT_EQ(messages[2], (ChatMessage{"assistant", "", ""}));
  EXPECT_EQ(request.ignored, std::vector<std::string>{"messages[3].surprise"});

  const std::string part =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"x","zz":1}]}]})";
  EXPECT_EQ(GoodChat(part).ignored, std::vector<std::string>{"messages[0].content[0].zz"});
  RequestContext strict = Context();
  strict.strict = true;
  EXPECT_EQ(ParseChatRequest(part, {}, strict).error().field(), "messages[0].content[0].zz");
}

TEST(ChatRequest, BadMessagesNameTheirField) {
  const auto messages = [](const std::string& json) { return "{\"messages\":" + json + "}"; };
  EXPECT_EQ(ChatField("{}"), "messages");
  EXPECT_EQ(ChatField(messages("null")), "messages");
  EXPECT_EQ(ChatField(messages("[]")), "messages");
  EXPECT_EQ(ChatField(messages("\"hi\"")), "messages");
  EXPECT_EQ(ChatField(messages("[5]")), "messages[0]");
  EXPECT_EQ(ChatField(messages("[{}]")), "messages[0].role");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user"}])")), "messages[0].content");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":""}])")), "messages[0].content");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":[]}])")), "messages[0].content");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":5}])")), "messages[0].content");
  EXPECT_EQ(ChatField(messages(R"([{"role":"wizard","content":"a"}])")), "messages[0].role");
  EXPECT_EQ(ChatField(messages(R"([{"role":"tool","content":"a","tool_call_id":null}])")),
            "messages[0].role");
  EXPECT_EQ(ChatField(messages(R"([{"role":"system","content":"a"}])")), "messages");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":"a"},
                                   {"role":"assistant","content":"b"}])")),
            "messages");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":[{"type":"image_url",
                                    "image_url":{"url":"http://a"}}]}])")),
            "messages[0].content[0].type");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":[{"type":"text"}]}])")),
            "messages[0].content[0].text");
  EXPECT_EQ(ChatField(messages(R"([{"role":"assistant","content":"x","tool_calls":[{"id":"1"}]},
                                   {"role":"user","content":"a"}])")),
            "messages[0].tool_calls");
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":"a","name":5}])")), "messages[0].name");
  const std::string big(10'000'000, 'x');
  EXPECT_EQ(ChatField(messages(R"([{"role":"user","content":")" + big + "\"}]")),
            "messages[0].content");
  std::string many = "[";
  for (size_t i = 0; i <= kMessagesMax; ++i) {
    many += (i > 0 ? "," : "") + std::string(R"({"role":"user","content":"a"})");
  }
  EXPECT_EQ(ChatField(messages(many + "]")), "messages");
}

TEST(ChatRequest, SessionOfBodyAndHead) {
  EXPECT_EQ(GoodChat(Chat(), {.session_id = "bob::x", .idempotency_key = ""}).turn.session->Full(),
            "default::bob::default::x");
  // Two ways of writing one name agree.
  EXPECT_TRUE(GoodChat(Chat(R"(,"session_id":"x")"), {"default::me::default::x", ""})
                  .turn.session.has_value());
  EXPECT_EQ(ChatField(Chat(R"(,"session_id":"x")"), {"y", ""}), "session_id");
  for (const std::string bad :
       {"", "a/b", "..", "a..b", ".a", "a::b::c", "a::b::c::d::e", "a\\u0000b", "a b", "::a"}) {
    EXPECT_EQ(ChatField(Chat(R"(,"session_id":")" + bad + "\"")), "session_id") << bad;
  }
  EXPECT_EQ(ChatField(Chat(R"(,"session_id":")" + std::string(10'000, 'a') + "\"")), "session_id");
  EXPECT_EQ(ChatField(Chat(), {"a/b", ""}), "session_id");
  EXPECT_EQ(ChatField(Chat(), {"", "key-1"}), "Idempotency-Key");
  EXPECT_EQ(GoodChat(Chat(), {"x", "key-1"}).turn.idempotency_key, "key-1");
}

TEST(ChatRequest, Timezone) {
  EXPECT_EQ(GoodChat(Chat("")).turn.timezone, "");
  EXPECT_EQ(GoodChat(Chat(R"(,"timezone":"Asia/Tokyo")")).turn.timezone, "Asia/Tokyo");
  EXPECT_EQ(GoodChat(Chat(R"(,"timezone":"-03:30")")).turn.timezone, "-03:30");
  for (const std::string bad : {"\"\"", "\"Tokyo time\"", "9", "\"+9\"", "[]"})
    EXPECT_EQ(ChatField(Chat(",\"timezone\":" + bad)), "timezone") << bad;
}

TEST(ChatRequest, Recall) {
  const auto logged = [](const GenerateRequest& request, const std::string& value) {
    return request.turn.params_json.find("\"recall\":" + value) != std::string::npos;
  };
  const std::string session = R"(,"session_id":"x")";
  for (const std::string given : {"", R"(,"recall":"auto")", R"(,"recall":null)"}) {
    const GenerateRequest request = GoodChat(Chat(session + given));
    // What is not said is the server's to decide.
    const bool said = given.find("auto") != std::string::npos;
    EXPECT_EQ(request.turn.recall, said ? std::optional(RecallMode::kAuto) : std::nullopt);
    EXPECT_FALSE(logged(request, ""));
  }
  const GenerateRequest off = GoodChat(Chat(session + R"(,"recall":"off")"));
  EXPECT_EQ(off.turn.recall, RecallMode::kOff);
  EXPECT_TRUE(logged(off, "\"off\""));
  const GenerateRequest forced = GoodChat(Chat(R"(,"recall":"force")"), {"x", ""});
  EXPECT_EQ(forced.turn.recall, RecallMode::kForced);
  EXPECT_TRUE(logged(forced, "\"force\""));
  // Without a session there is nothing to recall: only who insists is told.
  EXPECT_EQ(GoodChat(Chat(R"(,"recall":"off")")).turn.recall, RecallMode::kOff);
  EXPECT_EQ(GoodChat(Chat(R"(,"recall":"auto")")).turn.recall, RecallMode::kAuto);
  EXPECT_EQ(ChatField(Chat(R"(,"recall":"force")")), "recall");
  for (const std::string bad : {"\"on\"", "\"\"", "\"Force\"", "true", "1", "[]", "{}"})
    EXPECT_EQ(ChatField(Chat(session + ",\"recall\":" + bad)), "recall") << bad;
  for (const std::string bad : {"\"forced\"", "false"})
    EXPECT_NE(ParseChatRequest(Chat(session + ",\"recall\":" + bad), {}, Context())
                  .error()
                  .message()
                  .find(R"("auto", "off" or "force")"),
              std::string::npos)
        << bad;

  const std::string prompt = R"({"prompt":"hi","session_id":"x","recall":"off"})";
  EXPECT_EQ(ParseCompletionsRequest(prompt, {}, Context())->turn.recall, RecallMode::kOff);
  EXPECT_EQ(ParseLlamaRequest(prompt, {}, Context())->turn.recall, RecallMode::kOff);
  // A raw prompt is taken as it is.
  const std::string insists = R"({"prompt":"hi","session_id":"x","recall":"force"})";
  EXPECT_EQ(FieldOf(ParseCompletionsRequest(insists, {}, Context()), insists), "recall");
  EXPECT_EQ(FieldOf(ParseLlamaRequest(insists, {}, Context()), insists), "recall");
}

TEST(ChatRequest, StreamOptions) {
  EXPECT_EQ(ChatField(Chat(R"(,"stream_options":{"include_usage":true})")), "stream_options");
  EXPECT_EQ(ChatField(Chat(R"(,"stream":true,"stream_options":5)")), "stream_options");
  EXPECT_EQ(ChatField(Chat(R"(,"stream":true,"stream_options":{"include_usage":1})")),
            "stream_options.include_usage");
  EXPECT_EQ(ChatField(Chat(R"(,"stream":true,"stream_options":{"include_obfuscation":true})")),
            "stream_options.include_obfuscation");
  EXPECT_EQ(GoodChat(Chat(R"(,"stream":true,"stream_options":{"x":1})")).ignored,
            std::vector<std::string>{"stream_options.x"});
  RequestContext strict = Context();
  strict.strict = true;
  const std::string unknown = Chat(R"(,"stream":true,"stream_options":{"x":1})");
  EXPECT_EQ(FieldOf(ParseChatRequest(unknown, {}, strict), unknown), "stream_options.x");
}

TEST(Requests, APriorityIsOneOfTwo) {
  EXPECT_EQ(GoodChat(Chat("")).turn.priority, TurnPriority::kInteractive);
  EXPECT_EQ(GoodChat(Chat(R"(,"priority":null)")).turn.priority, TurnPriority::kInteractive);
  EXPECT_EQ(GoodChat(Chat(R"(,"priority":"interactive")")).turn.priority,
            TurnPriority::kInteractive);
  EXPECT_EQ(GoodChat(Chat(R"(,"priority":"batch")")).turn.priority, TurnPriority::kBatch);
  for (const std::string bad : {R"("urgent")", R"("")", "1", "true", "[]"})
    EXPECT_EQ(ChatField(Chat(",\"priority\":" + bad)), "priority") << bad;
  const std::string prompt = R"({"prompt":"hi","priority":"batch"})";
  for (const auto parse : {ParseCompletionsRequest, ParseLlamaRequest})
    EXPECT_EQ(parse(prompt, {}, Context())->turn.priority, TurnPriority::kBatch);
}

TEST(ChatRequest, NamesOfManyUnknownFieldsAreNotAllKept) {
  std::string many;
  for (int i = 0; i < 100; ++i)
    many += (i > 0 ? ",\"x" : "\"x") + std::to_string(i) + "\":1";
  EXPECT_EQ(GoodChat(Chat("," + many)).ignored.size(), 32U);
  EXPECT_EQ(GoodChat(Chat(R"(,"stream":true,"stream_options":{)" + many + "}")).ignored.size(),
            32U);
  const std::string message = R"({"messages":[{"role":"user","content":"hi",)" + many + "}]}";
  EXPECT_EQ(GoodChat(message).ignored.size(), 32U);
}

TEST(ChatRequest, OtherModelNamesAreSaidOrRefused) {
  EXPECT_EQ(GoodChat(Chat(R"(,"model":"gpt-4o","zzz":1)")).ignored,
            (std::vector<std::string>{"model", "zzz"}));
  RequestContext strict = Context();
  strict.strict = true;
  const auto refused = ParseChatRequest(Chat(R"(,"model":"gpt-4o")"), {}, strict);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kNotFound);
  EXPECT_TRUE(ParseChatRequest(Chat(R"(,"model":"tiny")"), {}, strict).ok());
}

TEST(ChatRequest, NotJson) {
  for (const std::string body : {"", "hello", "[]", "null", "{\"messages\":"}) {
    EXPECT_EQ(ChatField(body), "") << body;
  }
  EXPECT_EQ(ChatField("{\"a\":\xff}"), "a");
  EXPECT_EQ(ChatField(std::string(200'000, '[')), "[0]");
}

TEST(CompletionsRequest, Prompts) {
  const auto parse = [](const std::string& prompt) {
    return ParseCompletionsRequest("{\"prompt\":" + prompt + "}", {}, Context());
  };
  auto request = parse("\"hi\"");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->turn.kind, TurnRequest::Kind::kText);
  EXPECT_EQ(request->turn.text, "hi");
  EXPECT_EQ(parse(R"(["hi"])")->turn.text, "hi");
  EXPECT_EQ(parse("[1,2,999]")->turn.tokens, (std::vector<TokenId>{1, 2, 999}));
  EXPECT_EQ(parse("[[1,2]]")->turn.tokens, (std::vector<TokenId>{1, 2}));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"null", "prompt"},      {"\"\"", "prompt"},          {"[]", "prompt"},
      {"[[]]", "prompt"},      {R"(["a","b"])", "prompt"},  {"[[1],[2]]", "prompt"},
      {"[1000]", "prompt[0]"}, {"[1,-1]", "prompt[1]"},     {"[1.5]", "prompt[0]"},
      {"5", "prompt"},         {R"([1,"a"])", "prompt[1]"}, {R"([[1],"a"])", "prompt"},
      {"{}", "prompt"},        {"[true]", "prompt[0]"},     {"[[1,4294967296]]", "prompt[0][1]"},
  };
  for (const auto& [prompt, field] : bad)
    EXPECT_EQ(FieldOf(parse(prompt), prompt), field) << prompt;
  std::string long_prompt = "[1";
  for (int i = 0; i < 600; ++i)
    long_prompt += ",1";
  EXPECT_EQ(FieldOf(parse(long_prompt + "]"), "long"), "prompt");
  EXPECT_EQ(FieldOf(parse("\"" + std::string(100'000, 'x') + "\""), "long"), "prompt");
}

TEST(LlamaRequest, ItsOwnFields) {
  const auto parse = [](const std::string& more) {
    return ParseLlamaRequest(R"({"prompt":"hi")" + more + "}", {}, Context());
  };
  EXPECT_FALSE(parse(R"(,"n_predict":-1)")->turn.max_tokens.has_value());
  EXPECT_EQ(parse(R"(,"n_predict":0)")->turn.max_tokens, 0);
  EXPECT_EQ(parse(R"(,"n_predict":5,"max_tokens":5)")->turn.max_tokens, 5);
  EXPECT_EQ(FieldOf(parse(R"(,"n_predict":5,"max_tokens":6)"), ""), "n_predict");
  EXPECT_EQ(FieldOf(parse(R"(,"n_predict":-3)"), ""), "n_predict");
  EXPECT_FALSE(parse(R"(,"seed":-1)")->turn.seed_given);
  EXPECT_FALSE(parse(R"(,"seed":4294967295)")->turn.seed_given);
  EXPECT_TRUE(parse(R"(,"seed":7)")->turn.seed_given);
  EXPECT_EQ(parse(R"(,"temperature":5)")->turn.sampling.temperature, 5);
  EXPECT_TRUE(parse(R"(,"return_tokens":true)")->return_tokens);
  EXPECT_EQ(FieldOf(parse(R"(,"return_tokens":1)"), ""), "return_tokens");
}

TEST(LlamaRequest, MixedPrompts) {
  const auto request = ParseLlamaRequest(R"({"prompt":[1,2,"ab",3,"c"]})", {}, Context());
  ASSERT_TRUE(request.ok()) << request.error().message();
  ASSERT_EQ(request->parts.size(), 4U);
  EXPECT_EQ(std::get<1>(request->parts[0]), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(std::get<0>(request->parts[1]), "ab");
  EXPECT_EQ(std::get<1>(request->parts[2]), (std::vector<TokenId>{3}));
  EXPECT_EQ(FieldOf(ParseLlamaRequest(R"({"prompt":["a","b"]})", {}, Context()), ""), "prompt");
  EXPECT_EQ(FieldOf(ParseLlamaRequest(R"({"prompt":["a",true]})", {}, Context()), ""), "prompt[1]");
}

TEST(TokenizeRequests, Fields) {
  const auto request = ParseTokenizeRequest(R"({"content":"a","with_pieces":true})", true);
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->with_pieces);
  EXPECT_FALSE(request->add_special);
  EXPECT_TRUE(request->parse_special);
  EXPECT_EQ(ParseTokenizeRequest("{}", false).error().field(), "content");
  EXPECT_EQ(ParseTokenizeRequest(R"({"content":5})", false).error().field(), "content");
  EXPECT_EQ(ParseDetokenizeRequest(R"({"tokens":[1,2]})", Context())->tokens.size(), 2U);
  EXPECT_EQ(ParseDetokenizeRequest(R"({"tokens":[1,1000]})", Context()).error().field(),
            "tokens[1]");
  EXPECT_EQ(ParseDetokenizeRequest("{}", Context()).error().field(), "tokens");

  const std::vector<std::string> unknown = {"zz"};
  EXPECT_EQ(ParseTokenizeRequest(R"({"content":"x","zz":1})", false)->ignored, unknown);
  EXPECT_EQ(ParseDetokenizeRequest(R"({"tokens":[1],"zz":1})", Context())->ignored, unknown);
}

TEST(RequestHeaders, OneOfEach) {
  HttpRequest request;
  request.headers = {{"x-session-id", "a"}, {"idempotency-key", "k"}};
  ASSERT_TRUE(ReadRequestHeaders(request).ok());
  EXPECT_EQ(ReadRequestHeaders(request)->session_id, "a");
  request.headers.push_back({"X-Session-ID", "a"});
  EXPECT_EQ(ReadRequestHeaders(request).error().field(), "X-Session-ID");
  request.headers = {{"Idempotency-Key", std::string(256, 'k')}};
  EXPECT_EQ(ReadRequestHeaders(request).error().field(), "Idempotency-Key");
  request.headers = {{"Idempotency-Key", "k\xc3\xa9"}};
  EXPECT_EQ(ReadRequestHeaders(request).error().field(), "Idempotency-Key");
  request.headers = {{"X-Session-ID", ""}};
  EXPECT_EQ(ReadRequestHeaders(request).error().field(), "X-Session-ID");
}

}  // namespace
}  // namespace tenuto
