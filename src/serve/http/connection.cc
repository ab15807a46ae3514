#include "serve/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <utility>

#include "io/clock.h"
#include "serve/http/encode.h"

namespace tenuto {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr int64_t kLingerMs = 2'000;
constexpr int64_t kLingerClosingMs = 200;
constexpr size_t kLingerBytesMax = 32 * kMiB;
constexpr size_t kKeptBufferBytesMax = 64 * kKiB;  // larger write buffers are given back
// What may wait unparsed inside a chunked body: the line of a chunk's size, with its extensions.
constexpr size_t kChunkLineBytesMax = 4 * kKiB;

int64_t NowNs() {
  return SystemClock().MonotonicNs();
}

int64_t DeadlineNs(int64_t from_now_ms) {
  return from_now_ms > 0 ? NowNs() + from_now_ms * 1'000'000 : 0;
}

}  // namespace

struct Connection::Parser : http::request_parser<http::string_body> {};

Connection::Connection(std::shared_ptr<Loop> loop, std::shared_ptr<HttpShared> shared,
                       StreamSocket socket, bool control)
    : loop_(std::move(loop)), shared_(std::move(shared)), control_(control) {
  socket_.emplace(std::move(socket));
  timer_.emplace(loop_->context());
}

Connection::~Connection() = default;

void Connection::Start() {
  loop_->Add(shared_from_this());
  error_code ec;
  socket_->non_blocking(true, ec);
  SetReadDeadline(shared_->limits.idle_timeout_ms);
  WaitReadable();
}

void Connection::Close() {
  if (!socket_) return;
  const auto self = shared_from_this();
  error_code ec;
  socket_->close(ec);
  // Operations under way end with operation_aborted and find no socket.
  socket_.reset();
  timer_.reset();
  ticker_.reset();
  watch_.reset();
  ReleaseBody();
  if (const ExchangePtr exchange = std::exchange(exchange_, nullptr)) exchange->Gone();
  loop_->Remove(this);
  shared_->RemoveConnection();
}

void Connection::CloseWhenIdle() {
  keep_alive_ = false;
  const bool idle = phase_ == Phase::kHead && in_.empty() && backlog() == 0;
  if (idle || phase_ == Phase::kLinger) Close();
}

// --- reading ---

void Connection::WaitReadable() {
  if (reading_ || eof_ || !socket_) return;
  if (phase_ == Phase::kAnswer && in_.size() >= shared_->limits.pipelined_bytes_max) {
    return WatchEnd();
  }
  watch_.reset();
  reading_ = true;
  socket_->async_wait(StreamSocket::wait_read, [self = shared_from_this()](const error_code& ec) {
    self->reading_ = false;
    if (!self->socket_) return;
    if (ec) return self->Close();
    self->OnReadable();
  });
}

void Connection::OnReadable() {
  error_code ec;
  const size_t n = socket_->read_some(asio::buffer(loop_->scratch(), loop_->scratch_bytes()), ec);
  if (ec == asio::error::would_block || ec == asio::error::interrupted) return WaitReadable();
  if (ec == asio::error::eof) return OnEof();
  if (ec) return Close();
  if (phase_ == Phase::kLinger) {
    lingered_ += n;
    if (lingered_ > kLingerBytesMax) return Close();
    return WaitReadable();
  }
  in_.append(loop_->scratch(), n);
  if (phase_ != Phase::kAnswer) Process();
  WaitReadable();
}

// The client closed its sending half, or all. Which, only a write can tell: it is answered by a
// reset where nobody is left. So an answer that is not ready yet is preceded by a probe.
void Connection::OnEof() {
  eof_ = true;
  if (phase_ != Phase::kAnswer) return Close();
  Probe();
}

void Connection::Probe() {
  if (answered_ || !exchange_) return;  // writing the answer will tell
  if (!chunked_) return Close();        // HTTP/1.0 has no interim answers
  WatchError();
  if (exchange_->streaming()) {
    if (event_stream_) WriteStream(":\n\n");  // else what is streamed tells soon enough
  } else {
    Queue("HTTP/1.1 102 Processing\r\n\r\n");
  }
}

void Connection::WatchError() {
  if (error_watched_) return;
  error_watched_ = true;
  socket_->async_wait(StreamSocket::wait_error, [self = shared_from_this()](const error_code& ec) {
    self->error_watched_ = false;
    if (!ec && self->socket_) self->Close();
  });
}

// Reading has stopped with bytes left in the kernel, or still with the client's, and the end of the
// input lies behind them. So it is asked for now and then: a client that is gone answers a write by
// a reset.
void Connection::WatchEnd() {
  if (watch_) return;
  WatchError();
  watch_.emplace(loop_->context());
  watch_->expires_after(std::chrono::milliseconds(shared_->limits.end_watch_ms));
  watch_->async_wait([self = shared_from_this()](const error_code& ec) {
    if (ec || !self->socket_) return;
    self->watch_.reset();
    if (self->phase_ != Phase::kAnswer || self->reading_) return;
    pollfd entry{self->socket_->native_handle(), POLLRDHUP, 0};
    if (self->chunked_ || ::poll(&entry, 1, 0) > 0) self->Probe();
    if (self->socket_) self->WatchEnd();
  });
}

void Connection::Process() {
  while (socket_ && (phase_ == Phase::kHead || phase_ == Phase::kBody)) {
    if (phase_ == Phase::kHead && !TryHead()) return;
    if (phase_ == Phase::kBody && !TryBody()) return;
  }
}

// False: more bytes are needed, or the request was answered already.
bool Connection::TryHead() {
  if (!head_begun_ && in_.starts_with("\r\n")) in_.erase(0, 2);  // RFC 9112, 2.2
  if (in_.empty()) return false;
  if (!head_begun_) {
    head_begun_ = true;
    head_scanned_ = 0;
    SetReadDeadline(shared_->limits.header_timeout_ms);
  }
  const HeadScan scan = ScanHead(in_, head_scanned_, shared_->limits.header_bytes_max);
  if (scan.error) {
    Refuse(scan.error->status, scan.error->message);
    return false;
  }
  if (!scan.end) {
    head_scanned_ = in_.size();
    return false;
  }
  return AcceptHead(*scan.end);
}

bool Connection::AcceptHead(size_t head_bytes) {
  HeadError error;
  head_ = ParseHead(std::string_view(in_).substr(0, head_bytes), shared_->limits, error);
  if (!head_) {
    Refuse(error.status, error.message);
    return false;
  }
  parser_ = std::make_unique<Parser>();
  parser_->eager(true);
  parser_->header_limit(static_cast<uint32_t>(shared_->limits.header_bytes_max + 1024));
  parser_->body_limit(shared_->limits.body_bytes_max);
  error_code ec;
  parser_->put(asio::buffer(in_.data(), head_bytes), ec);
  if (ec && ec != http::error::need_more) {
    Refuse(ec == http::error::body_limit ? 413 : 400, "malformed request: " + ec.message());
    return false;
  }
  in_.erase(0, head_bytes);
  head_begun_ = false;
  head_->request.control = control_;
  keep_alive_ = keep_alive_ && head_->keep_alive && !shared_->closing;
  head_only_ = head_->request.method == "HEAD";
  if (auto refusal = shared_->handlers.check(head_->request)) {
    if (head_->chunked || head_->content_length.value_or(0) > 0) keep_alive_ = false;
    phase_ = Phase::kAnswer;
    SetReadDeadline(0);
    Reply(*refusal);
    return false;
  }
  if (!ChargeBody(static_cast<size_t>(head_->content_length.value_or(0)))) return false;
  if (head_->expects_continue && in_.empty() && !parser_->is_done()) {
    Queue("HTTP/1.1 100 Continue\r\n\r\n");
  }
  phase_ = Phase::kBody;
  SetReadDeadline(shared_->limits.body_timeout_ms);
  return true;
}

bool Connection::TryBody() {
  error_code ec;
  while (!parser_->is_done() && !in_.empty()) {
    const size_t used = parser_->put(asio::buffer(in_), ec);
    in_.erase(0, used);
    if (ec == http::error::need_more) break;
    if (ec) {
      Refuse(ec == http::error::body_limit ? 413 : 400, "malformed body: " + ec.message());
      return false;
    }
    if (used == 0) break;
  }
  if (!ChargeBody(parser_->get().body().size())) return false;
  if (parser_->is_done()) {
    Dispatch();
    return true;
  }
  if (in_.size() > kChunkLineBytesMax) Refuse(400, "malformed body: a chunk's line is too long");
  return false;
}

// Counts this body against what all bodies together may take; refuses the request beyond it.
bool Connection::ChargeBody(size_t bytes) {
  if (bytes <= body_charged_) return true;
  const size_t more = bytes - body_charged_;
  const size_t before = shared_->bodies_bytes.fetch_add(more);
  body_charged_ = bytes;
  if (before + more <= shared_->limits.bodies_bytes_max) return true;
  Refuse(503, "too many large requests at once; try again");
  return false;
}

void Connection::ReleaseBody() {
  shared_->bodies_bytes.fetch_sub(std::exchange(body_charged_, 0));
}

void Connection::Dispatch() {
  HttpRequest request = std::move(head_->request);
  request.body = std::move(parser_->get().body());
  chunked_ = request.version_minor == 1;
  parser_.reset();
  head_.reset();
  phase_ = Phase::kAnswer;
  SetReadDeadline(0);
  exchange_ = std::make_shared<Exchange>(shared_from_this(), loop_, std::move(request));
  shared_->handlers.handle(ExchangePtr(exchange_));
}

void Connection::Refuse(int status, std::string_view message) {
  phase_ = Phase::kAnswer;
  keep_alive_ = false;
  SetReadDeadline(0);
  Reply(shared_->handlers.refuse(status, message));
}

// --- answering ---

void Connection::Reply(const HttpResponse& response) {
  if (!socket_ || answered_) return;
  if (shared_->closing) keep_alive_ = false;
  const ResponseFraming framing{ResponseFraming::kLength, keep_alive_,
                                SystemClock().UnixMs() / 1000};
  out_ += EncodeResponseHead(response, framing);
  if (!head_only_) out_ += response.body;
  answered_ = true;
  StartWrite();
}

void Connection::BeginStream(const HttpResponse& head) {
  if (!socket_ || answered_) return;
  if (!chunked_ || shared_->closing) keep_alive_ = false;
  const ResponseFraming framing{chunked_ ? ResponseFraming::kChunked : ResponseFraming::kUntilClose,
                                keep_alive_, SystemClock().UnixMs() / 1000};
  event_stream_ = head.content_type.starts_with("text/event-stream");
  Queue(EncodeResponseHead(head, framing));
}

bool Connection::WriteStream(std::string_view bytes) {
  if (!socket_ || answered_) return false;
  if (backlog() + bytes.size() > shared_->limits.stream_backlog_bytes_max) {
    if (const ExchangePtr exchange = exchange_) exchange->MarkSlow();
    Close();
    return false;
  }
  if (head_only_) return true;
  if (chunked_) {
    AppendChunk(out_, bytes);
  } else {
    out_ += bytes;
  }
  StartWrite();
  return true;
}

void Connection::FinishStream() {
  if (!socket_ || answered_) return;
  if (chunked_ && !head_only_) out_ += kLastChunk;
  answered_ = true;
  if (backlog() == 0) return EndOfAnswer();
  StartWrite();
}

void Connection::Queue(std::string_view bytes) {
  out_ += bytes;
  StartWrite();
}

void Connection::StartWrite() {
  if (writing_ || !socket_) return;
  if (sent_ == inflight_.size()) {
    inflight_.clear();
    if (inflight_.capacity() > kKeptBufferBytesMax) inflight_.shrink_to_fit();
    sent_ = 0;
    inflight_.swap(out_);
  }
  writing_ = true;
  SetWriteDeadline(shared_->limits.write_timeout_ms);
  socket_->async_write_some(
      asio::buffer(inflight_.data() + sent_, inflight_.size() - sent_),
      [self = shared_from_this()](const error_code& ec, size_t n) { self->OnWritten(ec, n); });
}

void Connection::OnWritten(const error_code& ec, size_t bytes) {
  writing_ = false;
  if (!socket_) return;
  if (ec) return Close();
  sent_ += bytes;
  if (backlog() > 0) return StartWrite();
  SetWriteDeadline(0);
  if (answered_) EndOfAnswer();
}

// The answer is with the kernel: the next request, or the end of the connection.
void Connection::EndOfAnswer() {
  answered_ = false;
  ReleaseBody();
  if (const ExchangePtr exchange = std::exchange(exchange_, nullptr)) exchange->Detach();
  parser_.reset();
  head_.reset();
  if (!keep_alive_) return eof_ ? Close() : StartLinger();
  phase_ = Phase::kHead;
  head_begun_ = false;
  SetReadDeadline(shared_->limits.idle_timeout_ms);
  Process();
  // After the end of input only requests that came whole before it are answered.
  if (eof_ && socket_ && phase_ != Phase::kAnswer) return Close();
  WaitReadable();
}

// Closing with unread input would reset the connection and could take the answer away from the
// client.
void Connection::StartLinger() {
  ::shutdown(socket_->native_handle(), SHUT_WR);
  phase_ = Phase::kLinger;
  in_.clear();
  SetReadDeadline(shared_->closing ? kLingerClosingMs : kLingerMs);
  WaitReadable();
}

// --- time ---

void Connection::SetReadDeadline(int64_t from_now_ms) {
  read_deadline_ns_ = DeadlineNs(from_now_ms);
  ArmTimer();
}

void Connection::SetWriteDeadline(int64_t from_now_ms) {
  write_deadline_ns_ = DeadlineNs(from_now_ms);
  ArmTimer();
}

// A deadline that moves away leaves the timer alone: it fires early once and looks again. So a
// stream's chunks cost no timer each.
void Connection::ArmTimer() {
  int64_t next = read_deadline_ns_;
  if (write_deadline_ns_ != 0 && (next == 0 || write_deadline_ns_ < next)) {
    next = write_deadline_ns_;
  }
  if (next == 0 || !timer_ || (armed_ns_ != 0 && armed_ns_ <= next)) return;
  armed_ns_ = next;
  timer_->expires_after(std::chrono::nanoseconds(std::max<int64_t>(next - NowNs(), 0)));
  timer_->async_wait([self = shared_from_this()](const error_code& ec) {
    if (ec || !self->socket_) return;
    self->armed_ns_ = 0;
    self->OnTimer();
  });
}

void Connection::OnTimer() {
  const int64_t now = NowNs();
  if (write_deadline_ns_ != 0 && now >= write_deadline_ns_) {
    if (const ExchangePtr exchange = exchange_) exchange->MarkSlow();
    return Close();
  }
  if (read_deadline_ns_ != 0 && now >= read_deadline_ns_) {
    read_deadline_ns_ = 0;
    const bool in_request = phase_ == Phase::kBody || (phase_ == Phase::kHead && head_begun_);
    if (!in_request) return Close();
    Refuse(408, "the request did not arrive in time");
  }
  ArmTimer();
}

void Connection::StartTicker(int64_t interval_ms) {
  if (!socket_) return;
  ticker_interval_ms_ = interval_ms;
  ticker_.emplace(loop_->context());
  Tick();
}

void Connection::Tick() {
  ticker_->expires_after(std::chrono::milliseconds(ticker_interval_ms_));
  ticker_->async_wait([self = shared_from_this(), exchange = exchange_](const error_code& ec) {
    if (ec || !self->socket_ || !exchange || self->exchange_ != exchange) return;
    exchange->RunTick();
    if (self->socket_ && self->exchange_ == exchange && self->ticker_) self->Tick();
  });
}

}  // namespace tenuto
