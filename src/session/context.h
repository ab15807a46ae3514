// What the session layer is wired to, and its settings. Built once by the composition root;
// everything outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/metrics.h"
#include "engine/engine.h"
#include "io/clock.h"
#include "io/runner.h"
#include "payload/store.h"
#include "session/chat_tokens.h"
#include "session/index_cache.h"
#include "session/recall_memory.h"
#include "session/window.h"
#include "tokenlog/log.h"
#include "tokenlog/writer.h"

namespace tenuto {

// Most turns, bytes and sessions, as the log counts them; 0: no limit.
struct Quotas {
  uint64_t session_turns_max = 0;
  uint64_t session_bytes_max = 0;
  uint64_t tenant_turns_max = 0;
  uint64_t tenant_bytes_max = 0;
  uint64_t tenant_sessions_max = 0;
};

// Of the server. A session may have its own: EffectiveSettings in session_settings.h.
struct SessionSettings {
  int32_t window_tokens = 0;  // most tokens of one session; <= the model's window, <= cells
  int32_t resident_idle_tokens =
      1024;  // KV tokens of idle sequences kept live while somebody else runs
  int32_t answer_reserve_tokens =
      256;  // cells promised to a turn beyond its prompt when it is admitted
  bool commit_on_disconnect = true;  // false: an answer nobody waited for is discarded
  bool keep_kv = true;       // false: store no KV and use none, only remove it with its session
  double window_high = 0.9;  // see WindowLimits
  double window_low = 0.55;
  int32_t window_grid_tokens = 0;     // 0: a sixteenth of the window
  int32_t window_answer_tokens = 0;   // kept free for an answer of unknown length; 0: an eighth
  size_t sessions_cached_max = 1024;  // sessions whose tokens stay in memory while idle
  RecallSettings recall;
  std::string timezone;  // of sessions and requests that do not say; "": UTC
  uint64_t ttl_s = 0;    // a session that was not updated for so long is deleted; 0: never
  Quotas quotas;
  size_t restore_reads_ahead = 1;  // pieces read and checked while one is imported
  size_t restore_buffer_bytes =
      0;  // of each buffer that is made at the start for such reads; 0: when needed

  // Seconds east of Greenwich at a moment: of `zone`, or where it is "" of `timezone`.
  int32_t ZoneAt(const std::string& zone, int64_t unix_ms) const;
  // Where a session's window is cut, for a turn that asks for at most `max_tokens`.
  WindowLimits Limits(std::optional<int32_t> max_tokens) const;
};

struct SessionContext {
  Engine& engine;
  TokenLog& log;        // reads; any thread
  LogWriter& writer;    // writes; answers on `core`
  PayloadStore* store;  // nullptr: there is none
  Runner& core;         // owns all session and schedule state
  Runner& pool;         // blocking work
  Clock& clock;
  Random& random;
  Metrics& metrics;
  SessionSettings settings;
  uint64_t lease_epoch = 0;       // of this process, from TokenLog::NextLeaseEpoch
  IndexCache* indexes = nullptr;  // nullptr: nothing is recalled
  std::shared_ptr<ChatTokenizer> chat = std::make_shared<ChatTokenizer>(engine);

  bool keeps_kv() const { return store != nullptr && settings.keep_kv; }
};

// Runs `work`, which blocks, on the pool and hands what it returns to `done` on the core runner.
template <typename Work, typename Done>
void AnswerFromPool(const SessionContext& context, Work work, Done done) {
  context.pool.Post([&core = context.core, work = std::move(work), done = std::move(done)] {
    auto result = std::make_shared<decltype(work())>(work());
    core.Post([result, done] { done(std::move(*result)); });
  });
}

}  // namespace tenuto
