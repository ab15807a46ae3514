// Loop, Exchange and the count of connections: what stands between connections and the rest of the
// program.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "serve/http/connection.h"

namespace tenuto {
namespace {

constexpr size_t kScratchBytes = 64 * kKiB;

}  // namespace

// --- HttpShared ---

size_t HttpShared::connections() const {
  MutexLock lock(mutex_);
  return connections_;
}

bool HttpShared::TryAddConnection() {
  MutexLock lock(mutex_);
  if (connections_ >= limits.connections_max) return false;
  ++connections_;
  return true;
}

void HttpShared::RemoveConnection() {
  MutexLock lock(mutex_);
  --connections_;
  if (connections_ == 0) none_.NotifyAll();
}

void HttpShared::WaitForNone(int64_t milliseconds) {
  using Steady = std::chrono::steady_clock;
  const auto deadline = Steady::now() + std::chrono::milliseconds(milliseconds);
  MutexLock lock(mutex_);
  while (connections_ != 0 && Steady::now() < deadline)
    none_.WaitUntil(mutex_, deadline);
}

// --- Loop ---

Loop::Loop() : context_(std::make_unique<boost::asio::io_context>(1)), scratch_(kScratchBytes, 0) {}

Loop::~Loop() {
  Stop({});
}

void Loop::Start() {
  thread_ = std::thread([this] {
    const auto guard = boost::asio::make_work_guard(*context_);
    while (!stopping_)
      context_->run_one();
    // What was closed has handlers left to run.
    context_->poll();
  });
}

void Loop::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (closed_) return;
  boost::asio::post(*context_, std::move(task));
}

void Loop::Stop(std::function<void()> last) {
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    if (thread_.joinable()) {
      boost::asio::post(*context_, [this, last = std::move(last)] {
        CloseAll();
        if (last) last();
        stopping_ = true;
      });
    }
  }
  if (thread_.joinable()) thread_.join();
}

void Loop::DestroyContext() {
  context_.reset();
}

void Loop::Add(std::shared_ptr<Connection> connection) {
  Connection* raw = connection.get();
  connections_.emplace(raw, std::move(connection));
}

void Loop::Remove(Connection* connection) {
  connections_.erase(connection);
}

void Loop::CloseWhenIdle() {
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [raw, connection] : connections_)
    all.push_back(connection);
  for (const auto& connection : all)
    connection->CloseWhenIdle();
}

void Loop::CloseAll() {
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [raw, connection] : connections_)
    all.push_back(connection);
  for (const auto& connection : all)
    connection->Close();
}

// --- Exchange ---

Exchange::Exchange(std::shared_ptr<Connection> connection, std::shared_ptr<Loop> loop,
                   HttpRequest request)
    : connection_(std::move(connection)),
      loop_(std::move(loop)),
      request_(std::move(request)),
      last_write_ns_(SystemClock().MonotonicNs()) {}

Exchange::~Exchange() = default;

std::string Exchange::TakeBody() {
  if (connection_) connection_->ReleaseBody();
  return std::move(request_.body);
}

void Exchange::Post(std::function<void()> task) {
  loop_->Post(std::move(task));
}

void Exchange::Reply(const HttpResponse& response) {
  if (!open()) return;
  End();
  connection_->Reply(response);
}

void Exchange::BeginStream(const HttpResponse& head) {
  if (!open() || streaming_) return;
  streaming_ = true;
  last_write_ns_ = SystemClock().MonotonicNs();
  connection_->BeginStream(head);
}

bool Exchange::Write(std::string_view bytes) {
  if (!open() || !streaming_) return false;
  last_write_ns_ = SystemClock().MonotonicNs();
  const auto connection = connection_;  // a slow client's connection lets go of us in there
  return connection->WriteStream(bytes);
}

size_t Exchange::unsent() const {
  return connection_ == nullptr ? 0 : connection_->backlog();
}

void Exchange::Finish() {
  if (!open() || !streaming_) return;
  End();
  const auto connection = connection_;
  connection->FinishStream();
}

void Exchange::SetGone(std::function<void(bool slow)> gone) {
  if (open()) gone_ = std::move(gone);
}

void Exchange::SetTicker(int64_t interval_ms, std::function<void()> tick) {
  if (!open() || tick_) return;
  tick_ = std::move(tick);
  connection_->StartTicker(interval_ms);
}

void Exchange::End() {
  over_ = true;
  gone_ = nullptr;
  tick_ = nullptr;
}

void Exchange::Detach() {
  End();
  connection_.reset();
}

void Exchange::Gone() {
  const auto gone = std::exchange(gone_, nullptr);
  Detach();
  if (gone) gone(slow_);
}

void Exchange::RunTick() {
  const auto tick = tick_;  // it may end the exchange, and with it tick_
  if (tick) tick();
}

}  // namespace tenuto
