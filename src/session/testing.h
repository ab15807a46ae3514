// A whole session stack in virtual time over fakes, for tests of this layer: one call asks a turn
// and waits for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/embedded/engine.h"
#include "engine/fake/executor.h"
#include "io/fake.h"
#include "payload/fake.h"
#include "session/manager.h"
#include "tokenlog/memory/log.h"
#include "tokenlog/writer.h"

namespace tenuto {

// What outlives a restart.
struct TestDisk {
  MemoryTokenLog log;
  MemoryPayloadStore payloads;
};

struct TestStackOptions {
  FakeExecutorSettings model = DefaultModel();
  SessionSettings session = DefaultSession();
  bool keep_kv = true;
  int64_t engine_task_ns = 0;  // at most so long takes each task of the engine

  static FakeExecutorSettings DefaultModel() {
    FakeExecutorSettings model;
    model.window = 500;
    model.cells = 1000;
    model.sequences = 4;
    model.kv_bytes_per_token = 64;
    return model;
  }
  static SessionSettings DefaultSession() {
    SessionSettings session;
    session.window_tokens = 500;
    session.resident_idle_tokens = 1000;
    session.answer_reserve_tokens = 20;
    return session;
  }
};

// A minimal scheduler: what is ready is admitted at once, or waits for the next turn to end.
class TestStack {
 public:
  // Each process draws other turn ids, as real ones do. A test that tells a story twice begins
  // both with the same.
  static uint64_t NextSeed() { return ++last_seed; }
  static inline uint64_t last_seed = 0;

  explicit TestStack(TestDisk& disk, TestStackOptions options = {})
      : core(world.NewRunner("core")),
        engine_runner(world.NewRunner("engine", options.engine_task_ns)),
        log_runner(world.NewRunner("log")),
        pool(world.NewRunner("pool")),
        executor(options.model),
        engine(executor, EngineRunners{engine_runner, core}, world.clock(), EmbeddedSettings{},
               metrics),
        writer(disk.log, log_runner, core),
        indexes(nullptr, world.clock(), metrics),
        manager(SessionContext{engine, disk.log, writer, options.keep_kv ? &disk.payloads : nullptr,
                               core, pool, world.clock(), world.random(), metrics, options.session,
                               disk.log.NextLeaseEpoch().value(), &indexes}) {
    manager.SetEvents({[this](TurnPtr turn) { Admit(std::move(turn)); },
                       [this](TurnPtr turn) { Admit(std::move(turn)); },
                       [this](const TurnPtr&) { AdmitWaiting(); }, [this] { AdmitWaiting(); }});
    engine.SetPressureCallback([this](RunId) {
      if (manager.residency().EvictOldestIdle() || running.size() < 2) return;
      manager.Preempt(running.back());
    });
  }

  struct Answer {
    std::optional<Result<TurnOutcome>> result;
    std::string streamed;
    TurnPtr turn;
    bool ok() const { return result && result->ok(); }
    const TurnOutcome& operator*() const { return result->value(); }
    Code code() const { return result->error().code(); }
  };
  using AnswerPtr = std::shared_ptr<Answer>;

  static TurnRequest Chat(const std::string& session, const std::string& text) {
    TurnRequest request;
    if (!session.empty()) request.session = ParseSessionKey(session).value();
    request.messages = {{"user", text, ""}};
    request.sampling.temperature = 0;
    request.seed_given = true;
    return request;
  }

  AnswerPtr Submit(TurnRequest request) {
    auto answer = std::make_shared<Answer>();
    auto turn = std::make_shared<Turn>();
    answer->turn = turn;
    turn->request = std::move(request);
    turn->submitted_ns = world.clock().MonotonicNs();
    turn->sink.on_chunk = [answer](const RunChunk& chunk) { answer->streamed += chunk.text; };
    turn->sink.on_done = [answer](Result<TurnOutcome> result) {
      answer->result = std::move(result);
    };
    core.Post([this, turn] {
      manager.SetIdle(false);
      manager.Begin(turn);
    });
    return answer;
  }

  // Until nothing is left to do, KV stored included.
  void Settle() {
    while (world.Step()) {
    }
  }

  AnswerPtr Ask(TurnRequest request) {
    auto answer = Submit(std::move(request));
    Settle();
    return answer;
  }
  AnswerPtr Ask(const std::string& session, const std::string& text) {
    return Ask(Chat(session, text));
  }

  // Runs `task` on the core runner and all that follows from it.
  void OnCore(std::function<void()> task) {
    core.Post(std::move(task));
    Settle();
  }
  void EvictAll() {
    OnCore([this] {
      while (manager.residency().EvictOldestIdle()) {
      }
    });
  }

  SimWorld world{NextSeed()};
  Metrics metrics;
  Runner& core;
  Runner& engine_runner;
  Runner& log_runner;
  Runner& pool;
  FakeExecutor executor;
  EmbeddedEngine engine;
  LogWriter writer;
  IndexCache indexes;
  SessionManager manager;
  std::vector<TurnPtr> waiting;
  std::vector<TurnPtr> running;
  bool idle_time = true;  // false: as busy as a server can be

 private:
  void Admit(TurnPtr turn) {
    std::erase(running, turn);
    waiting.push_back(std::move(turn));
    AdmitWaiting();
  }
  void AdmitWaiting() {
    std::erase_if(running, [](const TurnPtr& turn) { return turn->phase == TurnPhase::kDone; });
    while (!waiting.empty() && manager.Admit(waiting.front())) {
      const TurnPtr turn = waiting.front();
      waiting.erase(waiting.begin());
      running.push_back(turn);
      manager.Run(turn);
    }
    manager.SetIdle(idle_time && running.empty() && waiting.empty());
  }
};

}  // namespace tenuto
