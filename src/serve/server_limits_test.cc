// What one client may not do to the others: fill the tokenizer's threads, hold a turn after it has
// left, take every descriptor.
#include <gtest/gtest.h>

#include <atomic>

#include "base/limits.h"
#include "serve/http/listener.h"
#include "serve/turn_testing.h"

namespace tenuto {
namespace {

const std::string kTokens = R"({"tokens":[97]})";

// A server whose tokenizer can be held; counts the jobs that were begun.
class HeldTokenizer {
 public:
  HeldTokenizer() : server_(Options()) { begun_ = 0; }
  ~HeldTokenizer() { Release(); }

  // Both of its threads are at work until Release.
  void Hold(RawClient& one, RawClient& two) {
    tokenizer_.Close();
    one.SendPost("/detokenize", kTokens);
    two.SendPost("/detokenize", kTokens);
    WaitFor([this](RawClient&) { return begun_ == 2; });
  }
  void Release() { tokenizer_.Open(); }

  template <typename Condition>
  void WaitFor(Condition condition) {
    RawClient client(server_.http->port());
    for (int i = 0; i < 100'000; ++i) {
      client.Get("/health");
      if (condition(client)) return;
    }
    ADD_FAILURE() << "waited in vain";
  }
  int begun() const { return begun_; }
  TestServer& server() { return server_; }
  uint16_t port() const { return server_.http->port(); }

 private:
  TestServerOptions Options() {
    TestServerOptions options;
    options.model.on_token_text = [this] {
      ++begun_;
      tokenizer_.Pass();
    };
    return options;
  }

  Gate tokenizer_;
  std::atomic<int> begun_{0};
  TestServer server_;
};

TEST(ServerLimits, TokenizeTakesOnlySoMuch) {
  TestServer server;
  RawClient client(server.http->port());
  const auto body = [](size_t bytes) {
    return R"({"content":")" + std::string(bytes, 'a') + "\"}";
  };
  EXPECT_EQ(client.Post("/tokenize", body(kTokenizeBytesMax)).status, 200);
  const RawResponse refused = client.Post("/tokenize", body(kTokenizeBytesMax + 1));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.ErrorParam(), "content");
  EXPECT_NE(refused.body.find("1048577 bytes, and at most 1048576"), std::string::npos)
      << refused.body;
}

TEST(ServerLimits, WorkOfAClientThatHasLeftIsNotDone) {
  HeldTokenizer held;
  RawClient one(held.port()), two(held.port()), gone(held.port());
  EXPECT_EQ(gone.Get("/health").status, 200);
  held.Hold(one, two);
  gone.SendPost("/detokenize", kTokens);
  gone.Close();
  // One, two, and the client that asks.
  held.WaitFor([](RawClient& client) {
    return client.Get("/metrics").body.find("tenuto_http_connections 3\n") != std::string::npos;
  });
  held.Release();
  EXPECT_EQ(one.Read().status, 200);
  EXPECT_EQ(two.Read().status, 200);
  EXPECT_EQ(one.Post("/detokenize", kTokens).status, 200);
  EXPECT_EQ(held.begun(), 3);
}

TEST(ServerLimits, WorkThatWaitsIsRefusedWhenTheServerStops) {
  HeldTokenizer held;
  RawClient one(held.port()), two(held.port()), waiting(held.port()), mixed(held.port());
  held.Hold(one, two);
  EXPECT_EQ(waiting.Get("/health").status, 200);
  EXPECT_EQ(mixed.Get("/health").status, 200);
  waiting.SendPost("/detokenize", kTokens);
  mixed.SendPost("/completion", R"({"prompt":["a",1]})");
  held.server().http->BeginShutdown();
  held.Release();
  EXPECT_EQ(waiting.Read().status, 503);
  EXPECT_EQ(mixed.Read().status, 503);
  EXPECT_EQ(one.Read().status, 200);
  EXPECT_EQ(two.Read().status, 200);
  EXPECT_EQ(held.begun(), 2);
}

TEST(ServerLimits, AClientThatLeavesBehindUnreadBytesEndsItsTurn) {
  TestServerOptions options = EndlessAnswers();
  options.serve.limits.pipelined_bytes_max = 1000;
  options.serve.limits.end_watch_ms = 5;
  TestServer server(options);
  const std::string no_token = "tenuto_engine_decode_tokens_total 0";
  EXPECT_TRUE(MetricsSay(server, no_token));
  RawClient client(server.http->port());
  client.SendPost(kChat, ChatBody("a", R"(,"session_id":"left")"));
  // Of a turn without a token nothing would be kept.
  EXPECT_TRUE(MetricsStopSaying(server, no_token));
  client.Send(std::string(100'000, 'x'));
  client.Close();
  EXPECT_TRUE(EndsIncomplete(server, "left"));
}

TEST(ServerLimits, AStartIsNoAnswer) {
  const TestServer server;
  EXPECT_EQ(server.metrics.Text().find("status=\"503\""), std::string::npos)
      << server.metrics.Text();
}

TEST(ServerLimits, ConnectionsLeaveDescriptorsForTheRest) {
  EXPECT_EQ(ConnectionsFor(4096, 1'048'576), 4096U);
  EXPECT_EQ(ConnectionsFor(4096, 1024), 768U);
  EXPECT_EQ(ConnectionsFor(100, 1024), 100U);
  EXPECT_EQ(ConnectionsFor(4096, 64), 32U);
  EXPECT_EQ(ConnectionsFor(4096, 0), 1U);
  EXPECT_EQ(ConnectionsFor(4096, UINT64_MAX), 4096U);
}

}  // namespace
}  // namespace tenuto
