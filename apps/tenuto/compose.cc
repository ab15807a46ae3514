#include "compose.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <memory>
#include <thread>

#include "base/limits.h"
#include "base/log.h"
#include "format/piece.h"
#include "human_text.h"
#include "io/clock.h"
#include "model.h"
#include "payload/segment/store.h"
#include "schedule/service.h"
#include "serve/server.h"
#include "session/heap.h"
#include "session/manager.h"
#include "session/verify.h"
#include "sessions_command.h"
#include "stop_signals.h"
#include "store_layout.h"
#include "sweep.h"
#include "tokenlog/sqlite/log.h"
#include "tokenlog/writer.h"

namespace tenuto {
namespace {

constexpr int kPoolThreads = 2;
// Of the store's volume, left to the token log: thousands of turns.
constexpr uint64_t kFreeBytesMin = 64 * kMiB;
// Idle tokens beside a running turn, where --resident-tokens is not given: docs/decisions/0002 has
// the figures.
constexpr int32_t kResidentTokensCpu = 1024;

constexpr int64_t kIndexPauseNs = 15'000'000'000;
constexpr int64_t kSweepPauseNs = 5'000'000'000;
constexpr int64_t kSweepGoOnNs = 1'000'000'000;
constexpr int64_t kLockWaitNs = 3'000'000'000;
constexpr std::chrono::milliseconds kLockPause{50};

int Fail(const Error& error) {
  fmt::print(stderr, "tenuto: {}\n", error.message());
  return 1;
}

// Everything of a running server. Members go in the other order than they stand here, which is from
// what is used to what uses it; before that the destructor has stopped every thread.
struct Server {
  Metrics metrics;
  WritableStore store;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<SqliteTokenLog> log;
  std::unique_ptr<SegmentStore> payloads;
  std::unique_ptr<IndexCache> indexes;
  std::unique_ptr<ThreadRunner> core;
  std::unique_ptr<ThreadRunner> engine_runner;
  std::unique_ptr<ThreadRunner> log_runner;
  std::unique_ptr<PoolRunner> pool;
  std::unique_ptr<EmbeddedEngine> engine;
  std::unique_ptr<LogWriter> writer;
  std::unique_ptr<SessionManager> sessions;
  std::unique_ptr<Service> service;
  std::unique_ptr<HttpServer> http;

  ~Server() {
    if (http) http->Stop();
    // Those that answer to the core, then the core, so that no answer finds it gone.
    if (engine_runner) engine_runner->DrainAndStop();
    if (pool) pool->DrainAndStop();
    if (log_runner) log_runner->DrainAndStop();
    if (core) core->DrainAndStop();
    if (indexes) indexes->FlushAll();
  }
};

// Indexes that nobody asks leave memory.
void KeepIndexesSmall(Server& server) {
  server.pool->After(kIndexPauseNs, [&server] {
    server.indexes->DropIdle();
    KeepIndexesSmall(server);
  });
}

// Sessions whose time to live is over go. A pass that did not come to the end is soon followed by
// the next.
void SweepSessions(Server& server, int64_t pause_ns) {
  server.core->After(pause_ns, [&server] {
    server.sessions->SweepExpired(
        [&server](bool more) { SweepSessions(server, more ? kSweepGoOnNs : kSweepPauseNs); });
  });
}

SessionSettings SessionSettingsOf(const ServeConfig& config, const EngineInfo& info) {
  SessionSettings settings;
  settings.window_tokens = WindowTokens(config, info);
  settings.window_high = config.window_high / 100.0;
  settings.window_low = config.window_low / 100.0;
  settings.window_grid_tokens = config.window_grid;
  settings.window_answer_tokens = config.answer_tokens;
  settings.recall.mode = config.recall;
  settings.recall.tokens_max = config.recall_tokens;
  settings.recall.share_max = config.recall_share / 100.0;
  settings.ttl_s = static_cast<uint64_t>(config.session_ttl);
  settings.quotas = {static_cast<uint64_t>(config.session_turns_max),
                     static_cast<uint64_t>(config.session_bytes_max),
                     static_cast<uint64_t>(config.tenant_turns_max),
                     static_cast<uint64_t>(config.tenant_bytes_max),
                     static_cast<uint64_t>(config.tenant_sessions_max)};
  settings.keep_kv = !config.no_kv_store;
  if (settings.keep_kv) settings.restore_buffer_bytes = kPieceBytesTarget + kPieceHeaderBytes;
  settings.resident_idle_tokens = config.resident_tokens > 0 ? config.resident_tokens
                                  : config.n_gpu_layers > 0  ? info.cells
                                                             : kResidentTokensCpu;
  settings.commit_on_disconnect = config.on_disconnect == OnDisconnect::kCommit;
  return settings;
}

// On the thread that will compute: OpenMP keeps a team of threads for each thread that ever
// computed, and with more of them than cores it stops spinning between steps, which costs decode
// speed.
Status OpenExecutorOn(Runner& runner, Server& server, const ServeConfig& config) {
  std::promise<Status> opened;
  runner.Post([&] {
    auto executor = OpenExecutor(config, config.parallel, server.store.paths.cache);
    if (executor.ok()) server.executor = std::move(*executor);
    opened.set_value(executor.ok() ? Ok() : Status(std::move(executor).error()));
  });
  return opened.get_future().get();
}

Status BuildEngine(Server& server, const ServeConfig& config) {
  Log(LogLevel::kInfo, "model.loading", {{"model", config.model}});
  server.core = std::make_unique<ThreadRunner>("core");
  server.engine_runner = std::make_unique<ThreadRunner>("engine");
  server.log_runner = std::make_unique<ThreadRunner>("log");
  server.pool = std::make_unique<PoolRunner>("pool", kPoolThreads);
  TENUTO_TRY(OpenExecutorOn(*server.engine_runner, server, config));
  server.engine = std::make_unique<EmbeddedEngine>(
      *server.executor, EngineRunners{*server.engine_runner, *server.core}, SystemClock(),
      EmbeddedSettings{}, server.metrics);
  return Ok();
}

Result<ServiceSettings> ServiceSettingsOf(const ServeConfig& config) {
  ServiceSettings service;
  service.admission.turns_running_max = config.parallel;
  service.admission.tenant_turns_running_max = config.tenant_turns_running;
  TENUTO_ASSIGN(service.admission.tenant_weights, ParseTenantWeights(config.tenant_weights));
  service.limits.turns_queued_max = static_cast<size_t>(config.turns_queued);
  service.limits.tenant_turns_queued_max = static_cast<size_t>(config.tenant_turns_queued);
  service.limits.tenant_tokens_per_minute = config.tenant_tokens_per_minute;
  service.limits.queue_timeout_s = config.queue_timeout;
  return service;
}

Status BuildSessions(Server& server, const ServeConfig& config) {
  TENUTO_ASSIGN(server.log, SqliteTokenLog::Open(server.store.paths.log, SqliteMode::kWriter));
  TENUTO_ASSIGN(const uint64_t epoch, server.log->NextLeaseEpoch());
  TENUTO_ASSIGN(server.payloads, SegmentStore::Open(std::move(server.store.kv), SystemRandom(),
                                                    {.free_bytes_min = kFreeBytesMin}));
  TENUTO_TRY(SweepPieces(*server.payloads, *server.log, server.metrics));
  server.indexes =
      std::make_unique<IndexCache>(std::move(server.store.recall), SystemClock(), server.metrics);
  TENUTO_TRY(SweepIndexes(*server.indexes, *server.log));
  KeepIndexesSmall(server);
  server.pool->Post([&server] { server.indexes->WarmTools(); });
  server.writer = std::make_unique<LogWriter>(*server.log, *server.log_runner, *server.core);
  server.sessions = std::make_unique<SessionManager>(SessionContext{
      *server.engine, *server.log, *server.writer, server.payloads.get(), *server.core,
      *server.pool, SystemClock(), SystemRandom(), server.metrics,
      SessionSettingsOf(config, server.executor->info()), epoch, server.indexes.get()});
  SweepSessions(server, kSweepGoOnNs);
  TENUTO_ASSIGN(const ServiceSettings service, ServiceSettingsOf(config));
  server.service =
      std::make_unique<Service>(service, *server.sessions, *server.core, server.metrics);
  return Ok();
}

ServeSettings ServeSettingsOf(const ServeConfig& config) {
  ServeSettings settings;
  settings.host = config.host;
  settings.port = static_cast<uint16_t>(config.port);
  settings.api_key = config.api_key;
  settings.model_alias = config.alias;
  settings.strict = config.strict;
  return settings;
}

Status BuildHttp(Server& server, const ServeConfig& config) {
  ServeSettings settings = ServeSettingsOf(config);
  settings.control_socket = server.store.paths.control_socket;
  TENUTO_ASSIGN(server.http, HttpServer::Open(settings, *server.service, server.metrics));
  return Ok();
}

// Gives a process that was killed a moment ago time to go.
TryAgain ForAWhile() {
  const int64_t end_ns = SystemClock().MonotonicNs() + kLockWaitNs;
  return [end_ns] {
    if (SystemClock().MonotonicNs() >= end_ns) return false;
    std::this_thread::sleep_for(kLockPause);
    return true;
  };
}

// The model comes first, then the port: a start that can't succeed makes no folder and waits for no
// lock. A store that is there already is left as it is by a model that does not load and by a port
// that is taken, so the longer checks are spared then, and what is wrong with it is said first.
Status CheckBeforeStore(const ServeConfig& config) {
  TENUTO_TRY(CheckModelFiles(config));
  const auto store = CheckStore(config.store);
  if (!store || store->exists) return Ok();
  TENUTO_TRY(CheckModel(config));
  return HttpServer::CheckAddress(ServeSettingsOf(config));
}

// A start that finds no room: the sentence says where, and what may go; the log, what was tried.
Error AtStart(const ServeConfig& config, const Error& error) {
  if (error.code() != Code::kExhausted) return error;
  Log(LogLevel::kError, "store.full", {{"error", error.message()}});
  return StoreIsFull(config.store);
}

Status Build(Server& server, const ServeConfig& config) {
  TENUTO_TRY(CheckBeforeStore(config));
  auto store = OpenStoreForWriting(config.store, ForAWhile());
  if (!store) return AtStart(config, store.error());
  server.store = std::move(*store);
  TENUTO_TRY(BuildEngine(server, config));
  if (const auto built = BuildSessions(server, config); !built)
    return AtStart(config, built.error());
  return BuildHttp(server, config);
}

std::string UrlOf(const ServeConfig& config, uint16_t port) {
  const bool bare_v6 = config.host.find(':') != std::string::npos && config.host.front() != '[';
  return fmt::format("http://{}:{}", bare_v6 ? "[" + config.host + "]" : config.host, port);
}

// Settings that hold otherwise than they were given.
void WarnOfChanged(const ServeConfig& config, const EngineInfo& info, int32_t window) {
  if (config.ctx_size > 0 && info.cells > config.ctx_size) {
    Log(LogLevel::kWarn, "serve.cells_raised",
        {{"asked", config.ctx_size}, {"cells", info.cells}, {"window", window}});
  }
  if (config.n_gpu_layers > 0 && !config.fake_executor && !HasGpu()) {
    Log(LogLevel::kWarn, "serve.no_gpu",
        {{"n_gpu_layers", config.n_gpu_layers},
         {"meaning", "this libllama has no GPU that it can use: every layer is on the CPU"}});
  }
  if (config.window > window) {
    Log(LogLevel::kWarn, "serve.window_lowered",
        {{"asked", config.window},
         {"window", window},
         {"model_window", info.model_window},
         {"cells", info.cells}});
  }
}

void SayReady(const Server& server, const ServeConfig& config) {
  const EngineInfo& info = server.executor->info();
  const int32_t window = server.service->window_tokens();
  WarnOfChanged(config, info, window);
  Log(LogLevel::kInfo, "serve.listening",
      {{"host", config.host},
       {"port", int64_t{server.http->port()}},
       {"model", info.model_name},
       {"store", config.store},
       {"cells", info.cells},
       {"window", window},
       {"parallel", config.parallel},
       {"fingerprint", info.fingerprint.Hex().substr(0, 16)}});
  const std::string name = config.alias.empty() ? info.model_name : config.alias;
  fmt::print("Ready on {}, store {}, model {}\n", UrlOf(config, server.http->port()),
             TerminalText(config.store), TerminalText(name));
  std::fflush(stdout);
}

Status Check(const ServeConfig& config, bool& exists) {
  TENUTO_TRY(CheckModel(config));
  TENUTO_ASSIGN(const StoreCheck store, CheckStore(config.store));
  exists = store.exists;
  const auto log = SqliteTokenLog::Open(StorePathsOf(config.store).log, SqliteMode::kReader);
  if (!log && log.error().code() != Code::kNotFound) return log.error();
  return Ok();
}

void Stop(Server& server) {
  server.http->BeginShutdown();
  Mutex mutex;
  std::condition_variable_any condition;
  bool stopped = false;
  server.service->Shutdown([&] {
    const MutexLock lock(mutex);
    stopped = true;
    condition.notify_all();
  });
  mutex.Lock();
  while (!stopped)
    condition.wait(mutex);
  mutex.Unlock();
  server.http->Stop();
}

void PrintReport(const VerifyReport& report) {
  fmt::print("log tokens              {}\n", report.log_tokens);
  fmt::print("stored tokens           {} in {} pieces, {} bytes\n", report.stored_tokens,
             report.pieces, report.piece_bytes);
  for (const KvReason& reason : report.unusable)
    fmt::print("not usable              {} tokens: {} ({})\n", reason.tokens, reason.code,
               reason.detail);
  if (report.nothing_stored()) return;
  if (report.positions.empty()) {
    fmt::print("nothing was compared    the first stored piece can't be used, see above\n");
    return;
  }
  fmt::print("bytes after import and export  {}\n",
             report.bytes_equal() ? "equal"
                                  : fmt::format("{} pieces differ, {} damaged",
                                                report.pieces_unequal, report.damaged_pieces));
  fmt::print("logits at positions     {}\n", fmt::join(report.positions, ", "));
  fmt::print("restored - recomputed   {:.6g} (of logits up to {:.3g})\n",
             report.restored_difference, report.logit_magnitude);
  fmt::print(
      "bound                   {:.6g} (twice what recomputing in other batches and cells differs: "
      "{:.6g})\n",
      report.bound(), report.recompute_difference);
}

Result<VerifyReport> Verify(const ServeConfig& config, const std::string& session) {
  TENUTO_ASSIGN(const SessionKey key, ReadSessionName(session));
  TENUTO_ASSIGN(const StorePaths paths, OpenStoreForReading(config.store));
  TENUTO_ASSIGN(const auto log, SqliteTokenLog::Open(paths.log, SqliteMode::kReader));
  // Looked for before the model is loaded.
  if (const auto row = log->FindSession(key); !row)
    return row.error().code() == Code::kNotFound ? NoSession(key, paths.root) : row.error();
  TENUTO_ASSIGN(auto kv, OpenDirForReading(paths.kv));
  const auto payloads = SegmentStore::OpenForReading(std::move(kv), SystemRandom());
  fmt::print(stderr, "loading {}\n", config.fake_executor ? "the fake executor" : config.model);
  // Where the store has no cache of content hashes yet, none is made.
  const std::string cache = OpenDirForReading(paths.cache) ? paths.cache : "";
  TENUTO_ASSIGN(const auto executor, OpenExecutor(config, 3, cache));
  return VerifySession(*executor, *log, *payloads, key,
                       [](const std::string& what) { fmt::print(stderr, "{}\n", what); });
}

}  // namespace

int RunServe(const ServeConfig& config) {
  auto signals = StopSignals::Open();
  if (!signals) return Fail(signals.error());
  // What they are about comes as an error of the write.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  ReturnLargeBlocksAtOnce();
  Server server;
  if (auto built = Build(server, config); !built.ok()) return Fail(built.error());
  (*signals)->Serve();
  SayReady(server, config);
  Log(LogLevel::kInfo, "serve.signal", {{"signal", (*signals)->Wait()}});
  Stop(server);
  Log(LogLevel::kInfo, "serve.stopped");
  return 0;
}

int RunCheck(const ServeConfig& config) {
  signal(SIGXFSZ, SIG_IGN);  // as above: the check writes, too
  bool exists = false;
  if (auto checked = Check(config, exists); !checked.ok()) return Fail(checked.error());
  fmt::print("ok: model {}, store {}{}, {}\n", config.fake_executor ? "(fake)" : config.model,
             config.store, exists ? "" : " (new)",
             UrlOf(config, static_cast<uint16_t>(config.port)));
  return 0;
}

int RunVerify(const ServeConfig& config, const std::string& session) {
  const auto report = Verify(config, session);
  if (!report.ok()) return Fail(report.error());
  PrintReport(*report);
  if (report->nothing_stored()) {
    fmt::print("nothing stored for this session: nothing to compare\n");
    return 0;
  }
  fmt::print("{}\n", report->good() ? "OK" : "NOT EQUAL");
  return report->good() ? 0 : 1;
}

std::string VersionText() {
  return fmt::format("tenuto {}\nlibllama {}\n", TENUTO_VERSION, ExecutorVersion());
}

}  // namespace tenuto
