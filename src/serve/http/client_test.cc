// Our own client against the real server.
#include "serve/http/client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "io/temp_dir.h"
#include "serve/turn_testing.h"

namespace tenuto {
namespace {

TEST(Client, AsksAndStreams) {
  const TempDir folder;
  TestServerOptions options;
  options.serve.api_key = "secret";
  options.serve.control_socket = folder.path() + "/control.sock";
  TestServer server(options);
  for (const std::string& url : {server.url(), "unix:" + options.serve.control_socket}) {
    auto client = HttpClient::Open(url);
    ASSERT_TRUE(client.ok());
    client->SetApiKey("secret");
    ClientRequest request;
    request.target = "/v1/models";
    auto response = client->Request(request);
    ASSERT_TRUE(response.ok()) << response.error().message();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->Header("content-type"), "application/json");
    EXPECT_NE(response->body.find("\"tiny\""), std::string::npos);

    std::vector<std::string> events;
    const ClientRequest chat{"POST", kChat, ChatBody("x", R"(,"stream":true)"), {}};
    response = client->Stream(chat, [&](std::string_view data) {
      events.emplace_back(data);
      return true;
    });
    ASSERT_TRUE(response.ok()) << response.error().message();
    EXPECT_EQ(response->status, 200);
    ASSERT_GT(events.size(), 2U);
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_EQ(response->body, "");

    const ClientRequest bad{"POST", kChat, "{}", {}};
    response = client->Stream(bad, [](std::string_view) { return true; });
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->status, 400);
    EXPECT_NE(response->body.find("messages"), std::string::npos);
  }
}

TEST(Client, HangsUpAndIsBrokenOff) {
  TestServerOptions options = EndlessAnswers();
  TestServer server(options);
  auto client = HttpClient::Open(server.url());
  ASSERT_TRUE(client.ok());
  const ClientRequest endless{
      "POST", kChat, ChatBody("x", R"(,"stream":true,"session_id":"c1")"), {}};
  int events = 0;
  const auto hung_up = client->Stream(endless, [&](std::string_view) { return ++events < 3; });
  ASSERT_TRUE(hung_up.ok());
  EXPECT_EQ(events, 3);
  EXPECT_TRUE(EndsIncomplete(server, "c1"));
  const auto aborted = client->Stream(endless, [&](std::string_view) {
    client->Abort();
    return true;
  });
  ASSERT_FALSE(aborted.ok());
  EXPECT_EQ(aborted.error().code(), Code::kUnavailable);
}

TEST(Client, AnAbortWithoutARequestIsForgotten) {
  TestServer server;
  auto client = HttpClient::Open(server.url());
  ASSERT_TRUE(client.ok());
  ClientRequest health;
  health.target = "/health";
  client->Abort();
  EXPECT_TRUE(client->Request(health).ok());
  client->Abort();
  EXPECT_TRUE(client->Request(health).ok());
}

// An abort that comes when a request ends must not reach the next owner of its descriptor.
TEST(Client, AnAbortReachesOnlyItsOwnSocket) {
  TestServer server;
  auto client = HttpClient::Open(server.url());
  ASSERT_TRUE(client.ok());
  std::atomic<bool> over{false};
  std::thread aborts([&] {
    while (!over)
      client->Abort();
  });
  std::atomic<int> broken{0};
  std::thread others([&] {
    while (!over) {
      std::array<int, 2> ends{};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) continue;
      for (int i = 0; i < 20; ++i)
        if (::send(ends[0], "x", 1, MSG_NOSIGNAL) != 1) ++broken;
      ::close(ends[0]);
      ::close(ends[1]);
    }
  });
  ClientRequest health;
  health.target = "/health";
  for (int i = 0; i < 3000; ++i)
    (void)client->Request(health);
  over = true;
  aborts.join();
  others.join();
  EXPECT_EQ(broken, 0);
}

TEST(Client, SaysWhatIsWrong) {
  EXPECT_EQ(HttpClient::Open("https://localhost").error().code(), Code::kInvalid);
  EXPECT_EQ(HttpClient::Open("localhost:80").error().code(), Code::kInvalid);
  EXPECT_EQ(HttpClient::Open("unix:").error().code(), Code::kInvalid);
  uint16_t free_port = 0;
  {
    TestServer server;
    free_port = server.http->port();
  }
  auto client = HttpClient::Open("http://127.0.0.1:" + std::to_string(free_port));
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(client->Request({}).error().code(), Code::kUnavailable);
  EXPECT_EQ(HttpClient::Open("unix:/no/such.sock")->Request({}).error().code(), Code::kUnavailable);
  ClientRequest split;
  split.target = "/a\r\nX: y";
  EXPECT_EQ(client->Request(split).error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tenuto
