#include "serve/http/head.h"

#include <gtest/gtest.h>

#include <string>

namespace tenuto {
namespace {

// Scans and parses; the status of the refusal, or 0.
int StatusOfHead(const std::string& head, const HttpLimits& limits = {}) {
  const HeadScan scan = ScanHead(head, 0, limits.header_bytes_max);
  if (scan.error) return scan.error->status;
  if (!scan.end) return -1;
  HeadError error;
  return ParseHead(std::string_view(head).substr(0, *scan.end), limits, error) ? 0 : error.status;
}

RequestHead Parsed(const std::string& head) {
  HeadError error;
  auto parsed = ParseHead(head, HttpLimits(), error);
  EXPECT_TRUE(parsed.has_value()) << error.message;
  return parsed.value_or(RequestHead());
}

std::string With(const std::string& lines) {
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + lines + "\r\n";
}

TEST(Head, ReadsAPlainRequest) {
  const RequestHead head = Parsed(With("X-A:  b c \t\r\ncontent-length: 12\r\n"));
  EXPECT_EQ(head.request.method, "POST");
  EXPECT_EQ(head.request.target, "/v1/completions");
  EXPECT_EQ(head.request.version_minor, 1);
  ASSERT_NE(head.request.Find("x-a"), nullptr);
  EXPECT_EQ(*head.request.Find("x-a"), "b c");
  EXPECT_EQ(head.content_length, 12U);
  EXPECT_TRUE(head.keep_alive);
  EXPECT_FALSE(head.chunked);
}

TEST(Head, KeepAliveFollowsVersionAndConnection) {
  EXPECT_FALSE(Parsed(With("Connection: close\r\n")).keep_alive);
  EXPECT_FALSE(Parsed(With("Connection: keep-alive, Close\r\n")).keep_alive);
  EXPECT_FALSE(Parsed("GET / HTTP/1.0\r\nHost: a\r\n\r\n").keep_alive);
  EXPECT_TRUE(Parsed("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
}

TEST(Head, RefusesWhatCouldBeReadInTwoWays) {
  const std::vector<std::string> bad = {
      "Transfer-Encoding: xchunked\r\n",
      "Transfer-Encoding: chunked, identity\r\n",
      "Transfer-Encoding: gzip, chunked\r\n",
      "Transfer-Encoding: identity\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
      "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
      "Content-Length: 2, 2\r\n",
      "Content-Length: 2\r\nContent-Length: 2\r\n",
      "Content-Length: 2\r\nContent-Length: 3\r\n",
      "Content-Length: -1\r\n",
      "Content-Length: +1\r\n",
      "Content-Length: 0x10\r\n",
      "Content-Length: 1 2\r\n",
      "Content-Length:\r\n",
      "Content-Length: 99999999999999999999999\r\n",
      "Host: localhost\r\n",  // a second one
      "X-A: b\r\n folded\r\n",
      "X-A: b\r\n\tfolded\r\n",
      "X A: b\r\n",
      "X-A : b\r\n",
      ": b\r\n",
      "X-A\r\n",
      "X-A: b\rc\r\n",
      "X-A: b\x01\r\n",
      "X-\xc3\xa9: b\r\n",
  };
  for (const std::string& lines : bad)
    EXPECT_EQ(StatusOfHead(With(lines)), 400) << lines;
  EXPECT_EQ(StatusOfHead("GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(Head, RefusesBadHosts) {
  EXPECT_EQ(StatusOfHead("GET / HTTP/1.1\r\n\r\n"), 400);
  for (const std::string host : {"", "a/b", "a?b", "a b", "user@a", "a:b", "a:123456", "a:", "[::1",
                                 "[]", "[::1]x", "[zz::1]", "a,b", "a\\b", "a#b"}) {
    EXPECT_EQ(StatusOfHead("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"), 400) << host;
  }
  EXPECT_EQ(HostOf("LocalHost:8585"), "localhost");
  EXPECT_EQ(HostOf("[::1]:80"), "[::1]");
  EXPECT_EQ(HostOf("10.0.0.1"), "10.0.0.1");
}

TEST(Head, RefusesBadRequestLines) {
  const auto line = [](const std::string& text) {
    return StatusOfHead(text + "\r\nHost: a\r\n\r\n");
  };
  EXPECT_EQ(line("GET http://evil/ HTTP/1.1"), 400);
  EXPECT_EQ(line("CONNECT a:80 HTTP/1.1"), 400);
  EXPECT_EQ(line("GET  / HTTP/1.1"), 400);
  EXPECT_EQ(line("GET / HTTP/1.1 "), 400);
  EXPECT_EQ(line("GET /a b HTTP/1.1"), 400);
  EXPECT_EQ(line("GET /a#b HTTP/1.1"), 400);
  EXPECT_EQ(line("GET /\xff HTTP/1.1"), 400);
  EXPECT_EQ(line("GET /"), 400);
  EXPECT_EQ(line("G(T / HTTP/1.1"), 400);
  EXPECT_EQ(line(" GET / HTTP/1.1"), 400);
  EXPECT_EQ(line("GET / http/1.1"), 400);
  EXPECT_EQ(line("GET / HTTP/1.2"), 505);
  EXPECT_EQ(line("GET / HTTP/2.0"), 505);
  EXPECT_EQ(line("OPTIONS * HTTP/1.1"), 0);
  EXPECT_EQ(line("GET * HTTP/1.1"), 400);
}

TEST(Head, ScansLinesAndLimits) {
  EXPECT_EQ(StatusOfHead("GET / HTTP/1.1\nHost: a\n\n"), 400);
  EXPECT_EQ(StatusOfHead(std::string("GET /\0 HTTP/1.1\r\n", 17)), 400);
  EXPECT_EQ(StatusOfHead("GET / HTTP/1.1\r\nHost: a\r\n"), -1);
  HttpLimits limits;
  limits.header_bytes_max = 200;
  EXPECT_EQ(StatusOfHead(With("X-A: " + std::string(300, 'b') + "\r\n"), limits), 431);
  EXPECT_EQ(StatusOfHead(std::string(300, 'a'), limits), 431);
  std::string many;
  for (int i = 0; i < 99; ++i)
    many += "X-A: b\r\n";
  EXPECT_EQ(StatusOfHead(With(many)), 0);
  EXPECT_EQ(StatusOfHead(With(many + "X-A: b\r\n")), 431);
  EXPECT_EQ(StatusOfHead(With("Content-Length: 16777216\r\n")), 0);
  EXPECT_EQ(StatusOfHead(With("Content-Length: 16777217\r\n")), 413);
}

TEST(Head, FindsTheEndWhereverTheBytesAreCut) {
  const std::string head = With("X-A: b\r\n");
  const std::string bytes = head + "body";
  for (size_t cut = 0; cut < head.size(); ++cut) {
    const HeadScan first = ScanHead(std::string_view(bytes).substr(0, cut), 0, 1000);
    ASSERT_FALSE(first.end.has_value());
    ASSERT_FALSE(first.error.has_value());
    const HeadScan second = ScanHead(bytes, cut, 1000);
    ASSERT_EQ(second.end, head.size()) << cut;
  }
}

TEST(Head, ExpectIsContinueOrRefused) {
  EXPECT_TRUE(Parsed(With("Expect: 100-Continue\r\nContent-Length: 1\r\n")).expects_continue);
  EXPECT_EQ(StatusOfHead(With("Expect: 200-ok\r\n")), 417);
}

}  // namespace
}  // namespace tenuto
