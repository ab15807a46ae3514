#include "engine/embedded/core.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "base/check.h"

namespace tenuto {

EngineCore::Counters::Counters(Metrics& metrics)
    : steps(metrics.GetCounter("tenuto_engine_steps_total", "Forward passes")),
      prefill_tokens(
          metrics.GetCounter("tenuto_engine_prefill_tokens_total", "Prompt tokens computed")),
      decode_tokens(
          metrics.GetCounter("tenuto_engine_decode_tokens_total", "Tokens of answers sampled")),
      starved(metrics.GetCounter("tenuto_engine_starved_total", "Times a run waited for KV cells")),
      failures(metrics.GetCounter("tenuto_engine_forward_failures_total",
                                  "Forward passes that failed and ended their runs")),
      batch_tokens(metrics.GetGauge("tenuto_engine_batch_tokens", "Tokens of the last step")),
      runs(metrics.GetGauge("tenuto_engine_runs", "Runs in the engine")),
      step_seconds(metrics.GetHistogram("tenuto_engine_step_seconds", "Time of a step")) {}

EngineCore::EngineCore(Executor& executor, EngineRunners runners, Clock& clock,
                       EmbeddedSettings settings, Metrics& metrics)
    : executor_(executor),
      engine_runner_(runners.engine),
      clock_(clock),
      settings_(settings),
      counters_(metrics),
      outbox_(runners.answer),
      sequences_(executor, outbox_, settings.piece_bytes_target),
      pace_(settings.step_target_ns) {
  TENUTO_CHECK(executor.batch_tokens_max() > 0 && executor.batch_outputs_max() > 0);
}

RunId EngineCore::Start(RunRequest request, RunListener listener) {
  TENUTO_CHECK(listener.on_done != nullptr);
  const RunId id{last_run_id_.fetch_add(1, std::memory_order_relaxed) + 1};
  Submit(StartCall{id, std::move(request), std::make_shared<const RunListener>(std::move(listener)),
                   std::nullopt});
  return id;
}

void EngineCore::Submit(EngineCall call) {
  {
    MutexLock lock(inbox_mutex_);
    if (std::holds_alternative<TruncateCall>(call)) ++truncations_;
    inbox_.push_back(std::move(call));
  }
  Wake();
}

void EngineCore::End(RunId run, FinishReason reason) {
  {
    MutexLock lock(inbox_mutex_);
    inbox_endings_.emplace_back(run, reason);
  }
  Wake();
}

void EngineCore::SetPressureCallback(std::function<void(RunId)> callback) {
  MutexLock lock(inbox_mutex_);
  inbox_pressure_ =
      callback ? std::make_shared<const PressureCallback>(std::move(callback)) : nullptr;
}

// Posts a task unless one is on its way.
void EngineCore::Wake() {
  {
    MutexLock lock(inbox_mutex_);
    if (scheduled_) return;
    scheduled_ = true;
  }
  engine_runner_.Post([self = shared_from_this()] { self->RunTask(); });
}

void EngineCore::RunTask() {
  MutexLock running(task_mutex_);
  if (stopped_) return;
  TakeInbox();
  ApplyEndings();
  const size_t moved = ApplyCalls();
  moved_bytes_ += moved;
  // A step is due when nothing is left to move, or when moving had its turn.
  const bool more_to_move = !calls_.empty() || sequences_.exporting();
  if (moved == 0 || !more_to_move || moved_bytes_ >= settings_.transfer_bytes_per_step) {
    moved_bytes_ = 0;
    Step();
  }
  counters_.runs.Set(static_cast<int64_t>(runs_.size()));
  outbox_.Flush();
  {
    MutexLock lock(inbox_mutex_);
    scheduled_ = HasWork() || !inbox_.empty() || !inbox_endings_.empty();
    if (!scheduled_) return;
  }
  engine_runner_.Post([self = shared_from_this()] { self->RunTask(); });
}

bool EngineCore::HasWork() const {
  return !calls_.empty() || sequences_.exporting() ||
         std::any_of(runs_.begin(), runs_.end(), [](const auto& run) { return !run->starved; });
}

void EngineCore::TakeInbox() {
  MutexLock lock(inbox_mutex_);
  if (calls_.empty()) {
    calls_.swap(inbox_);
  } else {
    calls_.insert(calls_.end(), std::make_move_iterator(inbox_.begin()),
                  std::make_move_iterator(inbox_.end()));
    inbox_.clear();
  }
  endings_.swap(inbox_endings_);
  pressure_ = inbox_pressure_;
  truncations_seen_ = truncations_;
}

void EngineCore::ApplyEndings() {
  for (const auto& [id, reason] : endings_) {
    const auto it = std::find_if(runs_.begin(), runs_.end(),
                                 [id = id](const auto& run) { return run->id == id; });
    if (it != runs_.end()) {
      FinishRun(**it, reason);
      RemoveEnded();
      continue;
    }
    for (EngineCall& call : calls_) {
      auto* start = std::get_if<StartCall>(&call);
      if (start != nullptr && start->id == id) start->ended = reason;
    }
  }
  endings_.clear();
}

// Applies what can be applied now; returns the bytes of KV moved: one piece, or none when none is
// left to move.
size_t EngineCore::ApplyCalls() {
  size_t moved = 0;
  blocked_.clear();
  size_t kept = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    EngineCall& call = calls_[i];
    const auto* import = std::get_if<ImportCall>(&call);
    const bool not_now =
        import != nullptr && (moved > 0 || (export_turn_ && sequences_.exporting()));
    if (not_now || Blocked(call)) {
      Block(call);
      if (kept != i) calls_[kept] = std::move(call);
      ++kept;
      continue;
    }
    if (import != nullptr) moved = std::max<size_t>(1, import->bytes.size());
    std::visit([this](auto& c) { Apply(c); }, call);
  }
  calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(kept), calls_.end());
  if (moved > 0) {
    export_turn_ = true;
  } else if (sequences_.exporting()) {
    moved = std::max<size_t>(1, sequences_.ExportPiece());
    export_turn_ = false;
  }
  return moved;
}

bool EngineCore::Blocked(const EngineCall& call) const {
  if (blocked_.empty()) return false;
  const auto blocked = [this](SeqId seq) {
    return std::find(blocked_.begin(), blocked_.end(), seq) != blocked_.end();
  };
  if (const auto* start = std::get_if<StartCall>(&call)) return blocked(start->request.seq);
  if (const auto* import = std::get_if<ImportCall>(&call)) return blocked(import->seq);
  if (const auto* exported = std::get_if<ExportCall>(&call)) return blocked(exported->seq);
  if (const auto* truncate = std::get_if<TruncateCall>(&call)) return blocked(truncate->seq);
  const auto& copy = std::get<CopyCall>(call);
  return blocked(copy.from) || blocked(copy.to);
}

// Later calls on this call's sequences wait for it.
void EngineCore::Block(const EngineCall& call) {
  if (const auto* start = std::get_if<StartCall>(&call)) blocked_.push_back(start->request.seq);
  if (const auto* import = std::get_if<ImportCall>(&call)) blocked_.push_back(import->seq);
  if (const auto* exported = std::get_if<ExportCall>(&call)) blocked_.push_back(exported->seq);
  if (const auto* truncate = std::get_if<TruncateCall>(&call)) blocked_.push_back(truncate->seq);
  if (const auto* copy = std::get_if<CopyCall>(&call)) {
    blocked_.push_back(copy->from);
    blocked_.push_back(copy->to);
  }
}

Status EngineCore::CheckIdle(SeqId seq) const {
  for (const auto& run : runs_) {
    if (run->seq == seq) {
      return Error(Code::kConflict, "sequence " + std::to_string(seq.value) + " has a run");
    }
  }
  return Ok();
}

void EngineCore::Apply(StartCall& call) {
  const auto prepare = [&]() -> Status {
    TENUTO_TRY(CheckRunRequest(call.request, executor_.info()));
    TENUTO_TRY(CheckIdle(call.request.seq));
    const TokenPos held = sequences_.held(call.request.seq);
    if (held < call.request.begin) {
      return Error(Code::kInvalid, "begin " + std::to_string(call.request.begin) +
                                       " of a sequence that holds " + std::to_string(held));
    }
    return sequences_.Truncate(call.request.seq, call.request.begin);
  };
  if (const Status status = prepare(); !status) {
    outbox_.Add([listener = call.listener, error = status.error()] { listener->on_done(error); });
    return;
  }
  runs_.push_back(std::make_unique<EngineRun>(call.id, std::move(call.request),
                                              std::move(call.listener), executor_));
  EngineRun& run = *runs_.back();
  if (call.ended) {
    FinishRun(run, *call.ended);
  } else if (run.text.stopped()) {  // only if the stop strings changed since the run was preempted
    FinishRun(run, FinishReason::kStop);
  }
  RemoveEnded();
  FreedSomething();
}

void EngineCore::Apply(ImportCall& call) {
  Status status = CheckIdle(call.seq);
  if (status) status = sequences_.Import(call.seq, call.range, call.bytes);
  Answer(std::move(call.done), std::move(status));
}

void EngineCore::Apply(ExportCall& call) {
  sequences_.StartExport(call.seq, call.range, std::move(call.done));
}

void EngineCore::Apply(TruncateCall& call) {
  Status status = CheckIdle(call.seq);
  if (status) status = sequences_.Truncate(call.seq, call.end);
  Answer(std::move(call.done), std::move(status));
  FreedSomething();
}

void EngineCore::Apply(CopyCall& call) {
  Status status = CheckIdle(call.to);
  if (status) status = sequences_.CopyPrefix(call.from, call.to, call.end);
  Answer(std::move(call.done), std::move(status));
}

void EngineCore::Answer(Engine::StatusDone done, Status status) {
  if (!done) return;
  outbox_.Add([done = std::move(done), status = std::move(status)] { done(status); });
}

void EngineCore::Refuse(EngineCall& call, const Error& error) {
  if (auto* start = std::get_if<StartCall>(&call)) {
    outbox_.Add([listener = start->listener, error] { listener->on_done(error); });
  } else if (auto* import = std::get_if<ImportCall>(&call)) {
    Answer(std::move(import->done), error);
  } else if (auto* exported = std::get_if<ExportCall>(&call)) {
    outbox_.Add([done = std::move(exported->done), error] { done(error); });
  } else if (auto* truncate = std::get_if<TruncateCall>(&call)) {
    Answer(std::move(truncate->done), error);
  } else if (auto* copy = std::get_if<CopyCall>(&call)) {
    Answer(std::move(copy->done), error);
  }
}

void EngineCore::Stop() {
  MutexLock running(task_mutex_);
  if (stopped_) return;
  stopped_ = true;
  TakeInbox();
  const Error error(Code::kUnavailable, "the engine is shutting down");
  for (const auto& run : runs_) {
    outbox_.Add([listener = run->listener, error] { listener->on_done(error); });
  }
  runs_.clear();
  counters_.runs.Set(0);
  for (EngineCall& call : calls_)
    Refuse(call, error);
  calls_.clear();
  sequences_.FailExports(error);
  outbox_.Flush();
}

}  // namespace tenuto
