// Inside of the listener: an event loop, and one connection's state machine on it. The only header
// here with Asio in it; included by connection.cc and listener.cc alone.
#pragma once

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "serve/http/exchange.h"
#include "serve/http/head.h"
#include "serve/http/listener.h"

namespace tenuto {

using StreamSocket = boost::asio::generic::stream_protocol::socket;

// What all loops and connections of a listener share.
struct HttpShared {
  HttpLimits limits;
  HttpHandlers handlers;
  std::atomic<size_t> bodies_bytes{0};
  std::atomic<bool> closing{false};

  // The number of connections, and news of its falling to zero.
  size_t connections() const;
  bool TryAddConnection();
  void RemoveConnection();
  void WaitForNone(int64_t milliseconds);

 private:
  mutable Mutex mutex_;
  CondVar none_;
  size_t connections_ TENUTO_GUARDED_BY(mutex_) = 0;
};

// One thread, one io_context. Owns the connections pinned to it.
class Loop {
 public:
  Loop();
  ~Loop();

  // REQUIRES: not stopped.
  boost::asio::io_context& context() { return *context_; }
  void Start();
  // Any thread. Drops `task` after Stop.
  void Post(std::function<void()> task);
  // Closes all connections, runs `last` on the loop, and joins. Not from its own thread. What
  // sockets of this loop other threads still hold may be destroyed until DestroyContext, which must
  // follow.
  void Stop(std::function<void()> last);
  void DestroyContext();

  // --- on the loop ---
  void Add(std::shared_ptr<Connection> connection);
  void Remove(Connection* connection);
  // Idle connections close now, the others after their answer.
  void CloseWhenIdle();
  // One buffer for all reads of this loop: an idle connection costs none.
  char* scratch() { return scratch_.data(); }
  size_t scratch_bytes() const { return scratch_.size(); }

 private:
  void CloseAll();

  Mutex mutex_;
  bool closed_ TENUTO_GUARDED_BY(mutex_) = false;
  std::unique_ptr<boost::asio::io_context> context_;
  std::thread thread_;
  // --- on the loop ---
  bool stopping_ = false;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::string scratch_;
};

// Reads a request, hands it on, writes the answer, and watches for the client's leaving in between.
// One loop only.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Loop> loop, std::shared_ptr<HttpShared> shared, StreamSocket socket,
             bool control);
  ~Connection();

  void Start();
  void Close();
  void CloseWhenIdle();

  // --- for Exchange ---
  void Reply(const HttpResponse& response);
  void BeginStream(const HttpResponse& head);
  bool WriteStream(std::string_view bytes);
  void FinishStream();
  void StartTicker(int64_t interval_ms);
  void ReleaseBody();
  // Bytes that the client has not taken yet.
  size_t backlog() const { return out_.size() + inflight_.size() - sent_; }

 private:
  enum class Phase : uint8_t { kHead, kBody, kAnswer, kLinger };
  struct Parser;  // Beast's, kept out of this header

  void WaitReadable();
  void OnReadable();
  void OnEof();
  void Probe();
  void WatchError();
  void WatchEnd();
  void Process();
  bool TryHead();
  bool AcceptHead(size_t head_bytes);
  bool TryBody();
  bool ChargeBody(size_t bytes);
  void Dispatch();
  void Refuse(int status, std::string_view message);

  void Queue(std::string_view bytes);
  void StartWrite();
  void OnWritten(const boost::system::error_code& ec, size_t bytes);
  void EndOfAnswer();
  void StartLinger();

  void SetReadDeadline(int64_t from_now_ms);  // 0: none
  void SetWriteDeadline(int64_t from_now_ms);
  void ArmTimer();
  void OnTimer();
  void Tick();

  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<HttpShared> shared_;
  const bool control_;
  std::optional<StreamSocket> socket_;  // none: closed
  std::optional<boost::asio::steady_timer> timer_;
  std::optional<boost::asio::steady_timer> ticker_;
  std::optional<boost::asio::steady_timer> watch_;  // while reading has stopped, see WatchEnd
  int64_t ticker_interval_ms_ = 0;
  int64_t read_deadline_ns_ = 0;
  int64_t write_deadline_ns_ = 0;
  int64_t armed_ns_ = 0;  // when the timer fires; 0: not armed

  Phase phase_ = Phase::kHead;
  bool reading_ = false;
  bool eof_ = false;  // the client will send no more
  bool error_watched_ = false;
  bool head_begun_ = false;
  size_t head_scanned_ = 0;
  std::string in_;  // bytes not parsed yet
  std::optional<RequestHead> head_;
  std::unique_ptr<Parser> parser_;
  size_t body_charged_ = 0;
  size_t lingered_ = 0;

  ExchangePtr exchange_;    // being answered
  bool head_only_ = false;  // a HEAD request
  bool keep_alive_ = true;
  bool chunked_ = false;
  bool event_stream_ = false;  // what is streamed takes comments
  bool answered_ = false;      // all of the answer is queued
  bool writing_ = false;
  std::string out_;       // queued
  std::string inflight_;  // being written, from sent_
  size_t sent_ = 0;
};

}  // namespace tenuto
