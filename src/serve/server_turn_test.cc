// Turns and sessions through the real server: bodies, streams, and clients that leave or don't
// read.
#include <pthread.h>

#include <array>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "io/temp_dir.h"
#include "serve/turn_testing.h"

namespace tenuto {
namespace {

namespace json = boost::json;

struct StreamEvents {
  std::vector<json::value> events;
  std::string text;
  bool done = false;
  std::string error;
};

StreamEvents ParseStream(const std::string& body) {
  StreamEvents result;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    const std::string block = body.substr(at, end - at);
    at = end == std::string::npos ? body.size() : end + 2;
    if (!block.starts_with("data: ")) continue;
    if (block == "data: [DONE]") {
      result.done = true;
      continue;
    }
    const json::value event = json::parse(block.substr(6));
    if (const auto* error = event.as_object().if_contains("error")) {
      result.error = error->at("message").as_string();
      continue;
    }
    result.events.push_back(event);
    const json::array& choices = event.at("choices").as_array();
    if (choices.empty()) continue;
    const json::object& choice = choices[0].as_object();
    if (const auto* delta = choice.if_contains("delta")) {
      if (const auto* content = delta->as_object().if_contains("content")) {
        result.text += std::string(content->as_string());
      }
    }
  }
  return result;
}

TEST(Turns, ChatWithAndWithoutStream) {
  TestServer server;
  RawClient client(server.http->port());
  const RawResponse whole = client.Post(kChat, ChatBody("hello"));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const json::value body = whole.Json();
  const std::string text(body.at("choices").at(0).at("message").at("content").as_string());
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(body.at("model"), "tiny");
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(),
            body.at("usage").at("prompt_tokens").as_int64() +
                body.at("usage").at("completion_tokens").as_int64());
  EXPECT_TRUE(body.at("tenuto").at("session").is_null());

  const RawResponse stream = client.Post(
      kChat, ChatBody("hello", R"(,"stream":true,"stream_options":{"include_usage":true})"));
  ASSERT_EQ(stream.status, 200);
  EXPECT_TRUE(stream.Header("Content-Type").starts_with("text/event-stream"));
  const StreamEvents events = ParseStream(stream.body);
  EXPECT_EQ(events.text, text);
  EXPECT_TRUE(events.done);
  const json::object& last = events.events.back().as_object();
  EXPECT_EQ(last.at("usage").at("completion_tokens"), body.at("usage").at("completion_tokens"));
  EXPECT_GT(last.at("tenuto").at("kv").at("reused").as_int64(), 0);
}

TEST(Turns, ASessionGoesOn) {
  TestServer server;
  RawClient client(server.http->port());
  const auto first = client.Post(kChat, ChatBody("one", R"(,"session_id":"alice::c1")"));
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.Json().at("tenuto").at("session"), "alice::c1");
  const auto second = client.Post(kChat, ChatBody("two"), "X-Session-ID: alice::c1\r\n");
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_GT(second.Json().at("usage").at("prompt_tokens").as_int64(),
            first.Json().at("usage").at("total_tokens").as_int64());

  const auto list = client.Get("/v1/sessions");
  ASSERT_EQ(list.status, 200) << list.body;
  EXPECT_EQ(list.Json().at("data").at(0).at("id"), "alice::c1");
  EXPECT_EQ(client.Get("/v1/sessions?user=bob").Json().at("data").as_array().size(), 0U);
  EXPECT_EQ(client.Get("/v1/sessions?user=alice&limit=1").Json().at("data").as_array().size(), 1U);
  EXPECT_EQ(client.Get("/v1/sessions?after=alice::c1").Json().at("data").as_array().size(), 0U);
  EXPECT_EQ(client.Get("/v1/sessions?limit=0").status, 400);
  EXPECT_EQ(client.Get("/v1/sessions?limit=x").ErrorParam(), "limit");
  EXPECT_EQ(client.Get("/v1/sessions?after=a/b").ErrorParam(), "after");
  EXPECT_EQ(client.Get("/v1/sessions?before=a").ErrorParam(), "before");
  EXPECT_EQ(client.Get("/v1/sessions/c1/turns?before=a").status, 400);
  EXPECT_EQ(client.Get("/v1/sessions/c1?limit=1").ErrorParam(), "limit");
  EXPECT_EQ(client.Get("/v1/sessions?limit=1&limit=2").ErrorParam(), "limit");
  EXPECT_EQ(client.Get("/v1/sessions?user=a&user=").ErrorParam(), "user");

  EXPECT_EQ(client.Get("/v1/sessions/alice::c1").Json().at("turns"), 2);
  const auto turns = client.Get("/v1/sessions/alice%3A%3Ac1/turns").Json().at("data").as_array();
  ASSERT_EQ(turns.size(), 2U);
  EXPECT_EQ(turns[0].at("items").at(0).at("content"), "one");
  EXPECT_EQ(turns[1].at("parent"), turns[0].at("id"));
  EXPECT_EQ(client.Get("/v1/sessions/nobody").status, 404);
  EXPECT_EQ(client.Get("/v1/sessions/a%2fb").ErrorParam(), "session_id");

  client.Send("DELETE /v1/sessions/alice::c1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse deleted = client.Read();
  EXPECT_EQ(deleted.status, 200) << deleted.body;
  EXPECT_EQ(client.Get("/v1/sessions/alice::c1").status, 404);
}

TEST(Turns, ARetryGetsTheStoredAnswer) {
  TestServer server;
  RawClient client(server.http->port());
  const std::string headers = "Idempotency-Key: k1\r\nX-Session-ID: c1\r\n";
  const auto first = client.Post(kChat, ChatBody("one"), headers).Json();
  const auto again = client.Post(kChat, ChatBody("one"), headers).Json();
  EXPECT_EQ(again.at("tenuto").at("replayed"), true);
  EXPECT_EQ(again.at("tenuto").at("turn"), first.at("tenuto").at("turn"));
  EXPECT_EQ(again.at("choices"), first.at("choices"));
  const auto streamed =
      ParseStream(client.Post(kChat, ChatBody("one", R"(,"stream":true)"), headers).body);
  EXPECT_TRUE(streamed.done);
  EXPECT_EQ(json::value(streamed.text), first.at("choices").at(0).at("message").at("content"));
}

TEST(Turns, CompletionsAndLlamaCompletion) {
  TestServer server;
  RawClient client(server.http->port());
  const auto text = client.Post("/v1/completions", R"({"prompt":"abc","temperature":0})");
  ASSERT_EQ(text.status, 200) << text.body;
  const auto tokens =
      client.Post("/v1/completions", R"({"prompt":[97,98,99],"temperature":0})").Json();
  EXPECT_EQ(tokens.at("choices"), text.Json().at("choices"));
  const auto llama = client.Post(
      "/completion", R"({"prompt":["ab",99],"temperature":0,"n_predict":4,"return_tokens":true})");
  ASSERT_EQ(llama.status, 200) << llama.body;
  EXPECT_EQ(llama.Json().at("tokens_evaluated"), 3);
  EXPECT_EQ(llama.Json().at("tokens").as_array().size(), 4U);
  EXPECT_EQ(llama.Json().at("stop_type"), "limit");
  const std::string start(llama.Json().at("content").as_string());
  EXPECT_TRUE(
      std::string(text.Json().at("choices").at(0).at("text").as_string()).starts_with(start));
  client.SendPost("/completions", R"({"prompt":"abc","n_predict":2,"stream":true})");
  const RawResponse stream = client.Read();
  EXPECT_NE(stream.body.find("\"stop\":true"), std::string::npos);
  EXPECT_EQ(stream.body.find("[DONE]"), std::string::npos);
}

TEST(Turns, Tokenizer) {
  TestServer server;
  RawClient client(server.http->port());
  const auto plain = client.Post("/tokenize", R"({"content":"hi"})").Json();
  EXPECT_EQ(plain.at("tokens"), json::parse("[104,105]"));
  const auto pieces =
      client.Post("/tokenize", R"({"content":"h\u00e9","with_pieces":true})").Json();
  EXPECT_EQ(pieces.at("tokens").at(0), json::parse(R"({"id":104,"piece":"h"})"));
  EXPECT_EQ(pieces.at("tokens").at(1), json::parse(R"({"id":195,"piece":[195]})"));
  EXPECT_EQ(client.Post("/detokenize", R"({"tokens":[104,195,169]})").Json().at("content"),
            "h\u00e9");
  EXPECT_EQ(client.Post("/detokenize", R"({"tokens":[999]})").ErrorParam(), "tokens[0]");
  const auto many = [](size_t count) {
    std::string tokens = "97";
    for (size_t i = 1; i < count; ++i)
      tokens += ",97";
    return R"({"tokens":[)" + tokens + "]}";
  };
  const RawResponse most = client.Post("/detokenize", many(kDetokenizeTokensMax));
  EXPECT_EQ(most.Json().at("content").as_string().size(), kDetokenizeTokensMax);
  const RawResponse too_many = client.Post("/detokenize", many(kDetokenizeTokensMax + 1));
  EXPECT_EQ(too_many.status, 400);
  EXPECT_EQ(too_many.ErrorParam(), "tokens");
}

// Megabytes of it take seconds: the loop serves other connections meanwhile.
TEST(Turns, TheTokenizerRunsOnAThreadOfItsOwn) {
  std::mutex mutex;
  std::set<std::string> threads;
  TestServerOptions options;
  options.model.on_token_text = [&] {
    std::array<char, 16> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(name.data());
  };
  TestServer server(options);
  threads.clear();  // the executor looked at its vocabulary
  RawClient client(server.http->port());
  EXPECT_EQ(client.Post("/detokenize", R"({"tokens":[97]})").status, 200);
  EXPECT_EQ(client.Post("/tokenize", R"({"content":"a","with_pieces":true})").status, 200);
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_EQ(threads, std::set<std::string>{"http-work"});
}

TEST(Turns, ModelAndProps) {
  TestServer server;
  RawClient client(server.http->port());
  EXPECT_EQ(client.Get("/v1/models").Json().at("data").at(0).at("id"), "tiny");
  EXPECT_EQ(client.Get("/v1/models/tiny").status, 200);
  EXPECT_EQ(client.Get("/v1/models/gpt-4o").status, 404);
  const json::value props = client.Get("/props").Json();
  EXPECT_EQ(props.at("default_generation_settings").at("n_ctx"), 4096);
  EXPECT_EQ(props.at("total_slots"), 8);
  const RawResponse metrics = client.Get("/metrics");
  EXPECT_NE(
      metrics.body.find(R"(tenuto_http_requests_total{route="/v1/models/:id",status="404"} 1)"),
      std::string::npos);
}

TEST(Turns, BadRequestsAreNamedAndTheServerLives) {
  TestServer server;
  RawClient client(server.http->port());
  EXPECT_EQ(client.Post(kChat, "not json").status, 400);
  EXPECT_EQ(client.Post(kChat, std::string(200'000, '[')).status, 400);
  EXPECT_EQ(client.Post(kChat, ChatBody("a", R"(,"temperature":1e999)")).status, 400);
  EXPECT_EQ(client.Post(kChat, ChatBody("a\x80")).status, 400);
  EXPECT_EQ(client.Post(kChat, ChatBody("a", R"(,"tools":[{}])")).ErrorParam(), "tools");
  EXPECT_EQ(client.Post(kChat, ChatBody("a", R"(,"max_tokens":-1)")).ErrorParam(), "max_tokens");
  EXPECT_EQ(client.Post(kChat, ChatBody("a", R"(,"session_id":"a/b")")).ErrorParam(), "session_id");
  const RawResponse huge = client.Post(kChat, ChatBody(std::string(10'000'000, 'x')));
  EXPECT_EQ(huge.status, 400);
  EXPECT_EQ(huge.ErrorParam(), "messages[0].content");
  // Longer than the window, also where a stream was asked for: no stream has begun yet.
  const RawResponse full =
      client.Post(kChat, ChatBody(std::string(4100, 'x'), R"(,"stream":true)"));
  EXPECT_EQ(full.status, 400) << full.body;
  EXPECT_EQ(client.Post("/v1/completions", R"({"prompt":[300]})").ErrorParam(), "prompt[0]");
  const auto ignored = client.Post(kChat, ChatBody("a", R"(,"frob":1,"model":"gpt-4o")")).Json();
  EXPECT_EQ(ignored.at("tenuto").at("ignored"), json::parse(R"(["frob","model"])"));
  EXPECT_EQ(client.Get("/health").status, 200);
}

TEST(Turns, AnswersOfOthersOnlyOpenASession) {
  TestServer server;
  RawClient client(server.http->port());
  const std::string body =
      R"({"session_id":"c1","messages":[{"role":"user","content":"a"},
          {"role":"assistant","content":"b"},{"role":"user","content":"c"}]})";
  const RawResponse first = client.Post(kChat, body);
  EXPECT_EQ(first.status, 200) << first.body;
  const RawResponse second = client.Post(kChat, body);
  EXPECT_EQ(second.status, 400);
  EXPECT_EQ(second.ErrorParam(), "messages[1]");
}

TEST(Turns, AFirstTurnWithAnswersOfOthersCanBeRetried) {
  TestServer server;
  RawClient client(server.http->port());
  const std::string body =
      R"({"session_id":"c1","messages":[{"role":"user","content":"a"},
          {"role":"assistant","content":"b"},{"role":"user","content":"c"}]})";
  const RawResponse first = client.Post(kChat, body, "Idempotency-Key: k1\r\n");
  ASSERT_EQ(first.status, 200) << first.body;
  const RawResponse again = client.Post(kChat, body, "Idempotency-Key: k1\r\n");
  ASSERT_EQ(again.status, 200) << again.body;
  EXPECT_EQ(again.Json().at("tenuto").at("replayed"), true);
  EXPECT_EQ(again.Json().at("tenuto").at("turn"), first.Json().at("tenuto").at("turn"));
}

TEST(Turns, AFailedCommitIsAnErrorEventAndNoEnd) {
  TestServer server;
  server.log.FailWrite({.at_write = 1, .code = Code::kIo, .kept = false});
  RawClient client(server.http->port());
  const RawResponse response =
      client.Post(kChat, ChatBody("a", R"(,"stream":true,"session_id":"c1")"));
  const StreamEvents events = ParseStream(response.body);
  EXPECT_FALSE(events.text.empty());
  EXPECT_FALSE(events.done);
  EXPECT_FALSE(events.error.empty());
  for (const json::value& event : events.events) {
    EXPECT_TRUE(event.at("choices").at(0).at("finish_reason").is_null());
  }
  EXPECT_EQ(client.Post(kChat, ChatBody("a", R"(,"session_id":"c2")")).status, 500);
}

// Tools poll it from before the server is up until after it is gone.
TEST(Turns, AnswersOfHealthAreNoWarning) {
  TestServer server;
  RawClient client(server.http->port());
  server.log.FailWrite({.at_write = 1, .code = Code::kIo, .kept = false});
  testing::internal::CaptureStderr();
  EXPECT_EQ(client.Post(kChat, ChatBody("a", R"(,"session_id":"c1")")).status, 500);
  server.http->BeginShutdown();
  EXPECT_EQ(client.Get("/health").status, 503);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find(R"("event":"http.answered","route":"/v1/chat/completions","status":500)"),
            std::string::npos)
      << lines;
  EXPECT_EQ(lines.find("/health"), std::string::npos) << lines;
}

TEST(Turns, AClientThatOnlyClosedItsSendingHalfGetsItsAnswer) {
  TestServer server;
  for (const std::string more : {"", R"(,"stream":true)"}) {
    server.gate.Close();
    RawClient client(server.http->port());
    client.SendPost(kChat, ChatBody("a", more));
    client.Send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.CloseSending();
    // The probe shows that the server has seen the end, and lets no answer come before it.
    const std::string probe = client.ReadUntil("102 Processing\r\n\r\n");
    EXPECT_EQ(probe, "HTTP/1.1 102 Processing\r\n\r\n");
    server.gate.Open();
    const RawResponse response = client.Read();
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_NE(response.body.find("\"finish_reason\":\"stop\""), std::string::npos);
    EXPECT_EQ(client.Read().body, R"({"status":"ok"})");
    EXPECT_TRUE(client.AtEnd());
  }
}

TEST(Turns, AClientThatLeavesEndsItsTurn) {
  TestServer server(EndlessAnswers());
  RawClient streamed(server.http->port());
  streamed.SendPost(kChat, ChatBody("a", R"(,"stream":true,"session_id":"streamed")"));
  streamed.ReadUntil("\"content\":\"");
  streamed.Close();
  EXPECT_TRUE(EndsIncomplete(server, "streamed"));
  EXPECT_TRUE(MetricsSay(server, R"(tenuto_http_clients_lost_total{why="gone"} 1)"));

  RawClient whole(server.http->port());
  whole.SendPost(kChat, ChatBody("a", R"(,"session_id":"whole")"));
  EXPECT_TRUE(MetricsSay(server, "tenuto_turns_running 1"));
  whole.Close();
  EXPECT_TRUE(MetricsSay(server, R"(tenuto_http_clients_lost_total{why="gone"} 2)"));
  EXPECT_TRUE(MetricsSay(server, "tenuto_turns_running 0"));
}

// Else the key would name a cut answer for ever: the client that retries would get no other.
TEST(Turns, ATurnWithAKeyGoesOnWhenItsClientLeaves) {
  for (const std::string more : {"", R"(,"stream":true)"}) {
    TestServer server;
    server.gate.Close();
    const std::string headers = "Idempotency-Key: k1\r\nX-Session-ID: c1\r\n";
    RawClient leaves(server.http->port());
    leaves.SendPost(kChat, ChatBody("a", more), headers);
    EXPECT_TRUE(MetricsSay(server, "tenuto_turns_running 1"));
    leaves.Close();
    EXPECT_TRUE(MetricsSay(server, R"(tenuto_http_clients_lost_total{why="gone"} 1)"));
    server.gate.Open();
    // Waits for the first one: a session's turns run one after the other.
    RawClient client(server.http->port());
    const RawResponse again = client.Post(kChat, ChatBody("a"), headers);
    ASSERT_EQ(again.status, 200) << again.body;
    const json::value body = again.Json();
    EXPECT_EQ(body.at("tenuto").at("replayed"), true);
    EXPECT_FALSE(body.at("tenuto").as_object().contains("incomplete")) << again.body;
    EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "stop");
  }
}

TEST(Turns, AClientThatDoesNotReadIsCutOff) {
  const TempDir folder;
  TestServerOptions options = EndlessAnswers();
  options.serve.control_socket = folder.path() + "/control.sock";
  options.serve.limits.stream_backlog_bytes_max = 64 * kKiB;
  TestServer server(options);
  RawClient client(options.serve.control_socket);
  client.SendPost(kChat, ChatBody("a", R"(,"stream":true,"session_id":"slow")"));
  EXPECT_TRUE(EndsIncomplete(server, "slow"));
  EXPECT_NE(RawClient(server.http->port())
                .Get("/metrics")
                .body.find(R"(tenuto_http_clients_lost_total{why="slow"} 1)"),
            std::string::npos);
  const StreamEvents events = ParseStream(client.ReadUntil("no such mark"));
  EXPECT_FALSE(events.done);
}

TEST(Turns, SilenceIsFilledWithComments) {
  TestServerOptions options;
  options.serve.keep_alive_ms = 10;
  options.serve.prefill_note_ms = 0;
  TestServer server(options);
  server.gate.Close();
  RawClient client(server.http->port());
  client.SendPost(kChat, ChatBody("hello", R"(,"stream":true)"));
  const std::string begin = client.ReadUntil(": keep-alive");
  EXPECT_TRUE(begin.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(begin.find("data:"), std::string::npos);
  server.gate.Open();
  EXPECT_NE(client.ReadUntil("data: [DONE]").find("\"finish_reason\":\"stop\""), std::string::npos);
}

TEST(Turns, AFullQueueIs429) {
  TestServerOptions options;
  options.service.admission.turns_running_max = 1;
  options.service.limits.turns_queued_max = 0;
  options.serve.keep_alive_ms = 5;
  TestServer server(options);
  server.gate.Close();
  RawClient busy(server.http->port());
  busy.SendPost(kChat, ChatBody("a", R"(,"stream":true)"));
  // A comment means that the turn was handed to the service before any that comes now.
  busy.ReadUntil(": keep-alive");
  const RawResponse refused = RawClient(server.http->port()).Post(kChat, ChatBody("b"));
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.Header("Retry-After"), "1");
  EXPECT_EQ(refused.Json().at("error").at("type"), "rate_limit_error");
  EXPECT_EQ(refused.Json().at("error").at("param"), "queue");
  server.gate.Open();
  EXPECT_NE(busy.ReadUntil("data: [DONE]").find("finish_reason"), std::string::npos);
}

TEST(Turns, ShutdownEndsStreamsAtATokenAndSaysSo) {
  TestServerOptions options = EndlessAnswers();
  TestServer server(options);
  RawClient client(server.http->port());
  client.SendPost(kChat, ChatBody("a", R"(,"stream":true,"session_id":"c1")"));
  client.ReadUntil("\"content\":\"");
  auto rest = std::async(std::launch::async, [&] { return client.ReadUntil("no such mark"); });
  server.Shutdown();
  const std::string stream = rest.get();
  EXPECT_NE(stream.find("\"incomplete\":\"shutdown\""), std::string::npos);
  EXPECT_NE(stream.find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_NE(stream.find("data: [DONE]"), std::string::npos);
  EXPECT_TRUE(stream.ends_with("0\r\n\r\n"));
}

}  // namespace
}  // namespace tenuto
