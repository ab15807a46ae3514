// The server against raw sockets: what HTTP allows two readings of, what is too much, what is too
// slow.
#include <sys/stat.h>

#include <fstream>
#include <random>
#include <vector>

#include "io/temp_dir.h"
#include "serve/http/raw_client.h"
#include "serve/routes.h"
#include "serve/testing.h"

namespace tenuto {
namespace {

const std::string kHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  TestServer server;
  RawClient client(server.http->port());
  for (int i = 0; i < 3; ++i) {
    const RawResponse response = client.Get("/health");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, R"({"status":"ok"})");
    EXPECT_EQ(response.Header("Connection"), "keep-alive");
    EXPECT_TRUE(response.Header("X-Request-Id").starts_with("req_"));
  }
  EXPECT_EQ(client.Get("/health", "X-Request-Id: mine-1\r\n").Header("X-Request-Id"), "mine-1");
  EXPECT_EQ(client.Get("/health", "Connection: close\r\n").Header("Connection"), "close");
  EXPECT_TRUE(client.AtEnd());
}

TEST(HttpServer, TakesBytesOneByOneAndSeveralRequestsAtOnce) {
  TestServer server;
  RawClient client(server.http->port());
  for (const char c : kHealth)
    client.Send(std::string(1, c));
  EXPECT_EQ(client.Read().status, 200);
  client.Send("\r\n" + kHealth + "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" + kHealth);
  EXPECT_EQ(client.Read().body, R"({"status":"ok"})");
  EXPECT_EQ(client.Read().Json().at("object"), "list");
  EXPECT_EQ(client.Read().body, R"({"status":"ok"})");
}

TEST(HttpServer, AnswersAClientThatClosedItsSendingHalf) {
  TestServer server;
  RawClient client(server.http->port());
  client.Send(kHealth + kHealth);
  client.CloseSending();
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_TRUE(client.AtEnd());
}

TEST(HttpServer, SpeaksHttp10) {
  TestServer server;
  RawClient client(server.http->port());
  client.Send("GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_TRUE(client.AtEnd());
}

TEST(HttpServer, MethodsAndPaths) {
  TestServer server;
  RawClient client(server.http->port());
  client.Send("HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse head = client.Read(/*head_only=*/true);
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.Header("Content-Length"), "0");
  client.Send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawResponse options = client.Read();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.Header("Allow"), "POST, OPTIONS");
  EXPECT_EQ(options.Header("Access-Control-Allow-Origin"), "");
  const RawResponse wrong = client.Get("/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.Header("Allow"), "POST, OPTIONS");
  const RawResponse missing = client.Get("/v1/nothing");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.Json().at("error").at("type"), "not_found_error");
  EXPECT_EQ(client.Get("/v1/sessions/%zz").status, 400);
  EXPECT_EQ(client.Get("/health?x=%4").status, 400);
}

TEST(HttpServer, RefusesWhatCouldBeReadInTwoWays) {
  TestServer server;
  const std::string post = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n";
  const std::string body = R"({"content":"a"})";
  const std::vector<std::string> bad = {
      post + "Transfer-Encoding: xchunked\r\n\r\n" + kHealth,
      post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\nContent-Length: 15\r\n\r\n" + body,
      post + "Content-Length: 15, 15\r\n\r\n" + body,
      post + "Content-Length: 15\r\nContent-Length: 15\r\n\r\n" + body,
      post + "Host: localhost\r\nContent-Length: 15\r\n\r\n" + body,
      "POST /tokenize HTTP/1.1\r\nContent-Length: 15\r\n\r\n" + body,
      "GET /health HTTP/1.1\r\nHost: localhost/v1\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: localhost?x\r\n\r\n",
      post + "X-A: b\r\n c\r\nContent-Length: 15\r\n\r\n" + body,
      "GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
      "GET /health HTTP/1.1\nHost: localhost\n\n",
      post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
      post + "Transfer-Encoding: chunked\r\n\r\n3;" + std::string(70'000, 'x'),
      post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
  };
  for (const std::string& bytes : bad) {
    RawClient client(server.http->port());
    client.Send(bytes);
    const RawResponse response = client.Read();
    EXPECT_EQ(response.status, 400) << bytes.substr(0, 200) << response.head;
    EXPECT_EQ(response.Header("Connection"), "close");
    EXPECT_TRUE(response.Json().at("error").at("message").is_string());
    EXPECT_TRUE(client.AtEnd()) << "the rest must not be read as a request: " << bytes;
  }
  std::string many = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 100; ++i)
    many += "X-A: b\r\n";
  RawClient client(server.http->port());
  client.Send(many + "\r\n");
  EXPECT_EQ(client.Read().status, 431);
  RawClient big(server.http->port());
  big.Send("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: " + std::string(40'000, 'a'));
  EXPECT_EQ(big.Read().status, 431);
  EXPECT_EQ(RawClient(server.http->port()).Get("/health").status, 200);
}

TEST(HttpServer, ReadsChunkedBodiesHoweverTheyAreCut) {
  TestServer server;
  const std::string bytes =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;ext=1\r\n{\"con\r\nA\r\ntent\":\"ab\"\r\n1\r\n}\r\n0\r\nX-Session-ID: late\r\n\r\n";
  RawClient whole(server.http->port());
  whole.Send(bytes + kHealth);
  const RawResponse response = whole.Read();
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.Json().at("tokens").as_array().size(), 2U);
  EXPECT_EQ(whole.Read().body, R"({"status":"ok"})");
  RawClient drip(server.http->port());
  for (const char c : bytes)
    drip.Send(std::string(1, c));
  EXPECT_EQ(drip.Read().status, 200);
}

TEST(HttpServer, ExpectContinue) {
  TestServer server;
  RawClient client(server.http->port());
  const std::string head =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ";
  client.Send(head + "15\r\n\r\n");
  EXPECT_EQ(client.Read().status, 100);
  client.Send(R"({"content":"a"})");
  EXPECT_EQ(client.Read().status, 200);
  // What will be refused anyway is not asked for.
  client.Send(head + "99999999\r\n\r\n");
  EXPECT_EQ(client.Read().status, 413);
  RawClient other(server.http->port());
  other.Send(
      "POST /nothing HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 5\r\n\r\n");
  EXPECT_EQ(other.Read().status, 404);
}

TEST(HttpServer, BodiesAreBounded) {
  TestServerOptions options;
  options.serve.limits.body_bytes_max = 1000;
  options.serve.limits.bodies_bytes_max = 1500;
  TestServer server(options);
  RawClient sized(server.http->port());
  sized.SendPost("/tokenize", std::string(200'000, 'x'));
  EXPECT_EQ(sized.Read().status, 413);
  RawClient chunked(server.http->port());
  chunked.Send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "600\r\n" +
      std::string(0x600, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.Read().status, 413);
  // All bodies together: the first holds its share until it is answered.
  RawClient first(server.http->port());
  first.Send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
      "Expect: 100-continue\r\n\r\n");
  ASSERT_EQ(first.Read().status, 100);
  RawClient second(server.http->port());
  second.SendPost("/tokenize", std::string(900, 'x'));
  EXPECT_EQ(second.Read().status, 503);
  first.Send(std::string(900, 'x'));
  EXPECT_EQ(first.Read().status, 400);
  RawClient third(server.http->port());
  EXPECT_EQ(third.Post("/tokenize", R"({"content":"a"})").status, 200);
}

TEST(HttpServer, MediaTypes) {
  TestServer server;
  const auto status = [&](const std::string& headers) {
    RawClient client(server.http->port());
    const std::string body = R"({"content":"a"})";
    client.Send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + headers +
                "Content-Length: 15\r\n\r\n" + body);
    return client.Read().status;
  };
  EXPECT_EQ(status(""), 200);
  EXPECT_EQ(status("Content-Type: application/json; charset=utf-8\r\n"), 200);
  EXPECT_EQ(status("Content-Type: application/x-www-form-urlencoded\r\n"), 200);
  EXPECT_EQ(status("Content-Type: multipart/form-data; boundary=x\r\n"), 415);
  EXPECT_EQ(status("Content-Type: application/json\r\nContent-Encoding: gzip\r\n"), 415);
}

TEST(HttpServer, SlowClientsAreCutOff) {
  TestServerOptions options;
  options.serve.limits.header_timeout_ms = 30;
  options.serve.limits.body_timeout_ms = 30;
  options.serve.limits.idle_timeout_ms = 30;
  TestServer server(options);
  RawClient head(server.http->port());
  head.Send("GET /health HT");
  EXPECT_EQ(head.Read().status, 408);
  EXPECT_TRUE(head.AtEnd());
  RawClient body(server.http->port());
  body.Send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{");
  EXPECT_EQ(body.Read().status, 408);
  EXPECT_TRUE(body.AtEnd());
  RawClient idle(server.http->port());
  EXPECT_EQ(idle.Get("/health").status, 200);
  EXPECT_TRUE(idle.AtEnd());
}

TEST(HttpServer, ConnectionsAreCapped) {
  TestServerOptions options;
  options.serve.limits.connections_max = 2;
  TestServer server(options);
  auto one = std::make_unique<RawClient>(server.http->port());
  RawClient two(server.http->port());
  EXPECT_EQ(one->Get("/health").status, 200);
  EXPECT_EQ(two.Get("/health").status, 200);
  RawClient three(server.http->port());
  const RawResponse response = three.Read();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.Header("Retry-After"), "1");
  EXPECT_TRUE(three.AtEnd());
  one->Get("/health", "Connection: close\r\n");
  EXPECT_TRUE(one->AtEnd());
  one.reset();
  // The place is free as soon as the server has seen the close.
  int status = 503;
  for (int i = 0; i < 10'000 && status != 200; ++i) {
    RawClient again(server.http->port());
    again.Send(kHealth);
    status = again.Read().status;
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServer, AThousandIdleConnections) {
  TestServer server;
  std::vector<RawClient> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(server.http->port());
    ASSERT_TRUE(clients.back().connected()) << i;
  }
  EXPECT_EQ(clients.front().Get("/health").status, 200);
  EXPECT_EQ(clients.back().Get("/health").status, 200);
  for (RawClient& client : clients)
    client.Send(kHealth);
  for (RawClient& client : clients)
    ASSERT_EQ(client.Read().status, 200);
  const RawResponse metrics = RawClient(server.http->port()).Get("/metrics");
  EXPECT_NE(metrics.body.find("tenuto_http_connections 100"), std::string::npos);
  EXPECT_NE(metrics.body.find("\ntenuto_heap_used_bytes "), std::string::npos);
}

TEST(HttpServer, ForeignNamesAreRefusedWithoutAKey) {
  TestServer server;
  RawClient client(server.http->port());
  client.Send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.Read().status, 403);
  EXPECT_EQ(client.Get("/v1/models", "Origin: https://evil.example\r\n").status, 403);
  EXPECT_EQ(client.Get("/v1/models", "Origin: http://localhost:3000\r\n").status, 200);
}

TEST(HttpServer, EveryRouteNeedsTheKeyButHealth) {
  TestServerOptions options;
  options.serve.api_key = "secret";
  TestServer server(options);
  RawClient client(server.http->port());
  for (const Route& route : Routes()) {
    std::string path(route.path);
    for (const std::string name : {"{id}", "{turn}"})
      if (path.find(name) != std::string::npos) path.replace(path.find(name), name.size(), "x");
    for (const std::string key : {"", "Authorization: Bearer wrong\r\n"}) {
      client.Send(std::string(route.method) + " " + path + " HTTP/1.1\r\nHost: other.example\r\n" +
                  key + "\r\n");
      const RawResponse response = client.Read();
      EXPECT_EQ(response.status, route.open ? 200 : 401) << path;
      EXPECT_EQ(response.Header("WWW-Authenticate"), route.open ? "" : "Bearer");
    }
  }
  EXPECT_EQ(client.Get("/no/such/path").status, 401);
  EXPECT_EQ(client.Get("/v1/models", "Authorization: Bearer secret\r\n").status, 200);
}

TEST(HttpServer, ListensOnAControlSocket) {
  const TempDir folder;
  TestServerOptions options;
  options.serve.api_key = "secret";
  options.serve.control_socket = folder.path() + "/control.sock";
  {
    TestServer server(options);
    struct stat info {};
    ASSERT_EQ(::stat(options.serve.control_socket.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
    RawClient client(options.serve.control_socket);
    EXPECT_EQ(client.Get("/v1/models").status, 200);

    Metrics metrics;
    const auto second = HttpServer::Open(options.serve, server.service, metrics);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code(), Code::kConflict);
  }
  EXPECT_NE(::access(options.serve.control_socket.c_str(), F_OK), 0);
  // A socket that a killed process left is no obstacle, a file is.
  {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    options.serve.control_socket.copy(address.sun_path, options.serve.control_socket.size());
    ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
    TestServer server(options);
    EXPECT_EQ(RawClient(options.serve.control_socket).Get("/health").status, 200);
    std::ofstream(folder.path() + "/plain") << "x";
    ServeSettings other = options.serve;
    other.control_socket = folder.path() + "/plain";
    Metrics metrics;
    EXPECT_EQ(HttpServer::Open(other, server.service, metrics).error().code(), Code::kConflict);
  }
}

TEST(HttpServer, SaysWhyItCannotListen) {
  TestServer server;
  Metrics metrics;
  ServeSettings settings;
  settings.port = server.http->port();
  auto opened = HttpServer::Open(settings, server.service, metrics);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Code::kConflict);
  EXPECT_NE(opened.error().message().find(std::to_string(settings.port)), std::string::npos);
  settings.port = 0;
  settings.host = "0.0.0.0";
  opened = HttpServer::Open(settings, server.service, metrics);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Code::kDenied);
  EXPECT_NE(opened.error().message().find("--api-key"), std::string::npos);
  settings.api_key = "k";
  EXPECT_TRUE(HttpServer::Open(settings, server.service, metrics).ok());
  settings.host = "no such host";
  EXPECT_EQ(HttpServer::Open(settings, server.service, metrics).error().code(), Code::kInvalid);
  settings.host = "192.0.2.1";  // of the documentation's range: nobody has it
  EXPECT_EQ(HttpServer::Open(settings, server.service, metrics).error().code(), Code::kInvalid);
}

TEST(HttpServer, ShutdownIsSeenAndStopIsClean) {
  TestServer server;
  RawClient client(server.http->port());
  EXPECT_EQ(client.Get("/health").status, 200);
  server.http->BeginShutdown();
  const RawResponse response = client.Get("/health");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.Header("Connection"), "close");
  EXPECT_TRUE(client.AtEnd());
  server.http->Stop();
  EXPECT_FALSE(RawClient(server.http->port()).connected());
  server.http->Stop();
}

TEST(HttpServer, OutlivesAnyBytes) {
  TestServer server;
  std::mt19937 random(7);
  const std::string pieces[] = {"GET ",
                                "POST ",
                                "/health",
                                "/tokenize",
                                " HTTP/1.1",
                                "\r\n",
                                "Host: localhost",
                                "Content-Length: ",
                                "7",
                                "\n",
                                "\r",
                                ":",
                                "Transfer-Encoding: chunked",
                                "0\r\n\r\n",
                                "{\"content\":\"a\"}",
                                std::string(1, '\0'),
                                "\xff\xfe",
                                " ",
                                "\t"};
  for (int round = 0; round < 300; ++round) {
    RawClient client(server.http->port());
    std::string bytes;
    const size_t count = 1 + random() % 30;
    for (size_t i = 0; i < count; ++i)
      bytes += pieces[random() % std::size(pieces)];
    client.Send(bytes);
    client.CloseSending();
    const std::string answer = client.ReadUntil("\x01");
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 ")) << answer;
  }
  EXPECT_EQ(RawClient(server.http->port()).Get("/health").status, 200);
}

}  // namespace
}  // namespace tenuto
