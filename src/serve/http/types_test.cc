#include "serve/http/types.h"

#include <gtest/gtest.h>

#include "serve/http/encode.h"
#include "serve/http/event_reader.h"
#include "serve/http/unix_path.h"

namespace tenuto {
namespace {

TEST(HttpEncode, WritesHeadsByFraming) {
  HttpResponse response;
  response.status = 404;
  response.body = "abc";
  response.headers.push_back({"X-A", "b\r\nInjected: yes"});
  const std::string head = EncodeResponseHead(response, {ResponseFraming::kLength, false, 0});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_NE(head.find("Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), std::string::npos);
  EXPECT_NE(head.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_NE(head.find("X-A: b  Injected: yes\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("Connection: close\r\n\r\n"));
  EXPECT_EQ(head.find("Server:"), std::string::npos);
  EXPECT_EQ(head.find("Access-Control"), std::string::npos);

  const std::string chunked = EncodeResponseHead(response, {ResponseFraming::kChunked, true, 0});
  EXPECT_NE(chunked.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_EQ(chunked.find("Content-Length"), std::string::npos);
  const std::string until = EncodeResponseHead(response, {ResponseFraming::kUntilClose, false, 0});
  EXPECT_EQ(until.find("Transfer-Encoding"), std::string::npos);
}

TEST(HttpEncode, WritesChunks) {
  std::string out;
  AppendChunk(out, "");
  EXPECT_EQ(out, "");
  AppendChunk(out, std::string(26, 'x'));
  EXPECT_EQ(out, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(EventReader, CutsEventsWhereverTheBytesAreCut) {
  const std::string stream =
      ": hello\n\ndata: {\"a\":1}\n\nevent: x\ndata: one\ndata: two\r\n\r\n:\n\ndata:[DONE]\n\n";
  for (size_t step = 1; step <= stream.size(); ++step) {
    std::vector<std::string> events;
    std::vector<std::string> comments;
    EventReader reader(
        [&](std::string_view data) {
          events.emplace_back(data);
          return true;
        },
        [&](std::string_view comment) { comments.emplace_back(comment); });
    for (size_t at = 0; at < stream.size(); at += step) {
      ASSERT_TRUE(reader.Feed(std::string_view(stream).substr(at, step)));
    }
    ASSERT_EQ(events, (std::vector<std::string>{"{\"a\":1}", "one\ntwo", "[DONE]"})) << step;
    ASSERT_EQ(comments, (std::vector<std::string>{"hello", ""}));
  }
}

TEST(EventReader, StopsWhenTold) {
  int events = 0;
  EventReader reader([&](std::string_view) { return ++events < 2; }, {});
  EXPECT_FALSE(reader.Feed("data: a\n\ndata: b\n\ndata: c\n\n"));
  EXPECT_EQ(events, 2);
  EXPECT_FALSE(reader.Feed("data: d\n\n"));
  EXPECT_EQ(events, 2);
}

TEST(UnixPath, ShortensLongPaths) {
  const auto plain = UnixPath::Open("/tmp/a.sock");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->short_path(), "/tmp/a.sock");
  const auto deep =
      UnixPath::Open("/tmp/" + std::string(40, '/') + std::string(80, '/') + "a.sock");
  ASSERT_TRUE(deep.ok());
  EXPECT_LT(deep->short_path().size(), 108U);
  EXPECT_EQ(UnixPath::Open("/no-such-folder-here/" + std::string(120, 'a')).error().code(),
            Code::kNotFound);
  EXPECT_EQ(UnixPath::Open("/tmp/" + std::string(200, 'a')).error().code(), Code::kInvalid);
  EXPECT_EQ(UnixPath::Open("").error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tenuto
