// The embedded engine's inside: a queue of calls and a loop of steps on the engine's runner.
// EmbeddedEngine is its door. A task of the loop applies the calls made meanwhile, moves at most
// one piece of KV, takes a step when it is due, and posts itself again while there is something to
// do; an idle engine has no task at all. Start .. Stop are thread-safe. Lives as long as a task
// that was posted, so shared.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/embedded/batcher.h"
#include "engine/embedded/engine.h"
#include "engine/embedded/outbox.h"
#include "engine/embedded/pace.h"
#include "engine/embedded/run.h"
#include "engine/embedded/sampler.h"
#include "engine/embedded/sequence_set.h"
#include "engine/engine.h"
#include "engine/executor.h"

namespace tenuto {

struct StartCall {
  RunId id;
  RunRequest request;
  std::shared_ptr<const RunListener> listener;
  std::optional<FinishReason> ended;  // cancelled or preempted before it began
};
struct ImportCall {
  SeqId seq;
  TokenRange range;
  std::shared_ptr<const void> buffer;
  std::span<const std::byte> bytes;
  Engine::StatusDone done;
};
struct ExportCall {
  SeqId seq;
  TokenRange range;
  Engine::ExportDone done;
};
struct TruncateCall {
  SeqId seq;
  TokenPos end = 0;
  Engine::StatusDone done;
};
struct CopyCall {
  SeqId from, to;
  TokenPos end = 0;
  Engine::StatusDone done;
};
using EngineCall = std::variant<StartCall, ImportCall, ExportCall, TruncateCall, CopyCall>;

class EngineCore : public std::enable_shared_from_this<EngineCore> {
 public:
  EngineCore(Executor& executor, EngineRunners runners, Clock& clock, EmbeddedSettings settings,
             Metrics& metrics);

  RunId Start(RunRequest request, RunListener listener);
  void End(RunId run, FinishReason reason);
  void Submit(EngineCall call);
  void SetPressureCallback(std::function<void(RunId)> callback);
  // Waits for the task at hand, then answers all that is open with kUnavailable. No executor call
  // after it returns.
  void Stop();

 private:
  using PressureCallback = std::function<void(RunId)>;
  struct Counters {
    explicit Counters(Metrics& metrics);
    Counter& steps;
    Counter& prefill_tokens;
    Counter& decode_tokens;
    Counter& starved;
    Counter& failures;
    Gauge& batch_tokens;
    Gauge& runs;
    Histogram& step_seconds;
  };

  // core.cc: the queue of calls.
  void Wake();
  void RunTask();
  void TakeInbox();
  void ApplyEndings();
  bool HasWork() const;
  size_t ApplyCalls();
  bool Blocked(const EngineCall& call) const;
  void Block(const EngineCall& call);
  void Apply(StartCall& call);
  void Apply(ImportCall& call);
  void Apply(ExportCall& call);
  void Apply(TruncateCall& call);
  void Apply(CopyCall& call);
  void Answer(Engine::StatusDone done, Status status);
  void Refuse(EngineCall& call, const Error& error);
  Status CheckIdle(SeqId seq) const;

  // step.cc: the step.
  void Step();
  bool ForwardBatch();
  void ApplyBatch();
  void TakeOutput(EngineRun& run, std::span<const float> logits);
  void MarkStarved(EngineRun& run);
  void TellPressure(RunId starved);
  void FreedSomething();
  void EmitChunk(EngineRun& run);
  void EmitProgress(const EngineRun& run);
  void FinishRun(EngineRun& run, FinishReason reason);
  void FailRun(EngineRun& run, const Error& error);
  void RemoveEnded();

  // Given at construction.
  Executor& executor_;
  Runner& engine_runner_;
  Clock& clock_;
  const EmbeddedSettings settings_;
  Counters counters_;
  std::atomic<uint64_t> last_run_id_{0};

  // Any thread.
  Mutex inbox_mutex_;
  std::vector<EngineCall> inbox_ TENUTO_GUARDED_BY(inbox_mutex_);
  std::vector<std::pair<RunId, FinishReason>> inbox_endings_ TENUTO_GUARDED_BY(inbox_mutex_);
  std::shared_ptr<const PressureCallback> inbox_pressure_ TENUTO_GUARDED_BY(inbox_mutex_);
  uint64_t truncations_ TENUTO_GUARDED_BY(inbox_mutex_) = 0;  // asked for so far
  bool scheduled_ TENUTO_GUARDED_BY(inbox_mutex_) = false;

  // Tasks on the engine's runner, and Stop(): whoever holds task_mutex_, which nobody waits for in
  // normal operation.
  Mutex task_mutex_;
  bool stopped_ TENUTO_GUARDED_BY(task_mutex_) = false;
  Outbox outbox_;
  SequenceSet sequences_;
  std::vector<EngineCall> calls_;
  std::vector<std::pair<RunId, FinishReason>> endings_;
  std::shared_ptr<const PressureCallback> pressure_;
  bool pressure_told_ = false;                    // in this step
  uint64_t truncations_seen_ = 0;                 // `truncations_` when the inbox was taken
  std::vector<SeqId> blocked_;                    // sequences whose calls wait behind an import
  bool export_turn_ = false;                      // imports and exports take turns
  size_t moved_bytes_ = 0;                        // KV moved since the last step
  std::vector<std::unique_ptr<EngineRun>> runs_;  // oldest first
  std::vector<const EngineRun*> ended_;           // answered, to be removed after the step
  Batcher batcher_;
  Batch batch_;
  StepPace pace_;
  SamplerScratch scratch_;
};

}  // namespace tenuto
