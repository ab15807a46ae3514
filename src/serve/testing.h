// A whole server over fakes, on a free port of 127.0.0.1, and a client that sends bytes as they
// are. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "engine/embedded/engine.h"
#include "engine/fake/executor.h"
#include "io/clock.h"
#include "io/runner.h"
#include "payload/fake.h"
#include "schedule/service.h"
#include "serve/server.h"
#include "session/index_cache.h"
#include "session/manager.h"
#include "tokenlog/memory/log.h"
#include "tokenlog/writer.h"

namespace tenuto {

// Holds the engine's thread before each step while it is closed.
class Gate {
 public:
  void Close() { Set(false); }
  void Open() { Set(true); }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  void Set(bool open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

struct TestServerOptions {
  TestServerOptions() {
    model.cells = 8192;
    model.window = 4096;
    model.sequences = 16;
    serve.port = 0;
    serve.model_alias = "tiny";
  }
  FakeExecutorSettings model;
  ServeSettings serve;
  ServiceSettings service;
};

class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {})
      : executor_(WithGate(options.model, &gate)),
        engine_(executor_, EngineRunners{engine_runner_, core_}, SystemClock(), EmbeddedSettings{},
                metrics),
        writer_(log, log_runner_, core_),
        indexes_(nullptr, SystemClock(), metrics),
        sessions_(SessionContext{engine_, log, writer_, &payloads_, core_, pool_, SystemClock(),
                                 SystemRandom(), metrics, Sessions(options.model),
                                 log.NextLeaseEpoch().value(), &indexes_}),
        service(options.service, sessions_, core_, metrics) {
    auto opened = HttpServer::Open(options.serve, service, metrics);
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    http = std::move(opened).value();
  }
  ~TestServer() {
    gate.Open();
    http->Stop();
    engine_runner_.DrainAndStop();
    pool_.DrainAndStop();
    log_runner_.DrainAndStop();
    core_.DrainAndStop();
  }

  // Ends the service as a program does on SIGTERM, up to Stop.
  void Shutdown() {
    http->BeginShutdown();
    std::promise<void> done;
    service.Shutdown([&] { done.set_value(); });
    done.get_future().wait();
    http->Stop();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(http->port()); }

  Gate gate;
  Metrics metrics;
  MemoryTokenLog log;

 private:
  static FakeExecutorSettings WithGate(FakeExecutorSettings model, Gate* gate) {
    model.forward_ns = 1;
    model.spend = [gate](int64_t) { gate->Pass(); };
    return model;
  }
  static SessionSettings Sessions(const FakeExecutorSettings& model) {
    SessionSettings settings;
    settings.window_tokens = model.window;
    settings.answer_reserve_tokens = 16;
    return settings;
  }

  MemoryPayloadStore payloads_;
  ThreadRunner core_{"core"};
  ThreadRunner engine_runner_{"engine"};
  ThreadRunner log_runner_{"log"};
  PoolRunner pool_{"pool", 2};
  FakeExecutor executor_;
  EmbeddedEngine engine_;
  LogWriter writer_;
  IndexCache indexes_;
  SessionManager sessions_;

 public:
  Service service;
  std::unique_ptr<HttpServer> http;
};

}  // namespace tenuto
