// One request being answered: what a handler holds on to while the service works.
// Belongs to the loop of its connection: every method but Post is called there, and so are all
// callbacks. After the connection is gone the methods do nothing. Answer with Reply, or with
// BeginStream, Write..., Finish.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/types.h"

namespace tenuto {

class Connection;
class Loop;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Connection> connection, std::shared_ptr<Loop> loop, HttpRequest request);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  // Takes the body out, so that a big one neither lives as long as the answer nor counts as long
  // among all bodies.
  std::string TakeBody();

  // Any thread: runs `task` on the loop, or drops it when the server has stopped.
  void Post(std::function<void()> task);

  // The whole answer. Ends the exchange.
  void Reply(const HttpResponse& response);

  // The head of a streamed answer; the body follows by Write. `head.body` is ignored.
  void BeginStream(const HttpResponse& head);
  // Queues bytes of the stream. False: the client is gone or too slow; `gone` was called (perhaps
  // from in here).
  bool Write(std::string_view bytes);
  // Ends the stream and the exchange.
  void Finish();

  // Bytes of the stream that the client has not taken yet.
  size_t unsent() const;

  bool streaming() const { return streaming_; }
  bool open() const { return connection_ != nullptr && !over_; }
  // Monotonic time of the last Write, or of the start of the exchange.
  int64_t last_write_ns() const { return last_write_ns_; }

  // Called once when the client goes away before the end, or is too slow (`slow`). Then the
  // exchange is over. A client that only closed its sending half is not gone; while it waits, the
  // connection may write comments of its own into an event stream.
  void SetGone(std::function<void(bool slow)> gone);
  // Calls `tick` every `interval_ms` until the exchange is over. At most one.
  void SetTicker(int64_t interval_ms, std::function<void()> tick);

 private:
  friend class Connection;
  // The connection takes back its exchange: no callback after this.
  void Detach();
  // The client has left: reports it once.
  void Gone();
  void MarkSlow() { slow_ = true; }
  void RunTick();
  void End();

  std::shared_ptr<Connection> connection_;  // null once the answer is sent or the client is gone
  const std::shared_ptr<Loop> loop_;
  HttpRequest request_;
  bool streaming_ = false;
  bool over_ = false;  // all of the answer was given
  bool slow_ = false;
  int64_t last_write_ns_ = 0;
  std::function<void(bool)> gone_;
  std::function<void()> tick_;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace tenuto
