// The step of EngineCore: plan a batch, forward it, sample, and give out what became visible.
#include <algorithm>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "engine/embedded/core.h"

namespace tenuto {

void EngineCore::Step() {
  const int64_t start_ns = clock_.MonotonicNs();
  pressure_told_ = false;
  if (!ForwardBatch()) {
    RemoveEnded();
    return;
  }
  for (const BatchShare& share : batch_.shares) {
    if (share.run->first_step_ns < 0) share.run->first_step_ns = start_ns;
  }
  ApplyBatch();
  RemoveEnded();

  const int64_t step_ns = clock_.MonotonicNs() - start_ns;
  pace_.Record(step_ns, batch_.decode_tokens, batch_.prefill_tokens);
  counters_.steps.Add();
  counters_.batch_tokens.Set(static_cast<int64_t>(batch_.tokens.size()));
  counters_.step_seconds.Observe(1e-9 * static_cast<double>(step_ns));
}

// False when nothing was forwarded: no run could go on, or those of the batch ended with an error.
bool EngineCore::ForwardBatch() {
  int32_t ready = 0;
  for (const auto& run : runs_)
    ready += !run->starved && run->waiting() == 1 ? 1 : 0;
  BatchBudget budget;
  budget.tokens_max = executor_.batch_tokens_max();
  budget.outputs_max = executor_.batch_outputs_max();
  budget.cells_free = executor_.cells_free();
  budget.prefill_alone_max = kPrefillChunkTokens;
  budget.prefill_beside_max = pace_.PrefillBeside(ready);

  batcher_.Plan(runs_, budget, batch_);
  for (EngineRun* run : batch_.starved)
    MarkStarved(*run);
  while (!batch_.tokens.empty()) {
    const Status status = executor_.Forward(batch_.tokens);
    if (status) return true;
    if (status.error().code() != Code::kExhausted) {
      counters_.failures.Add();
      Log(LogLevel::kError, "engine.forward_failed",
          {{"code", CodeName(status.error().code())},
           {"tokens", static_cast<uint64_t>(batch_.tokens.size())},
           {"detail", status.error().message()}});
      for (const BatchShare& share : batch_.shares)
        FailRun(*share.run, status.error());
      return false;
    }
    // Cells are free but not usable for this batch (or the count was wrong): try with fewer.
    if (batch_.tokens.size() == 1) {
      MarkStarved(*batch_.shares.front().run);
      return false;
    }
    budget.cells_free = static_cast<int32_t>(batch_.tokens.size() / 2);
    batcher_.Plan(runs_, budget, batch_);
  }
  return false;
}

void EngineCore::ApplyBatch() {
  size_t output = 0;
  for (const BatchShare& share : batch_.shares) {
    EngineRun& run = *share.run;
    const bool decoded = run.decoding();
    run.in_kv += share.tokens;
    sequences_.Appended(run.seq, share.tokens);
    if (!decoded) {
      counters_.prefill_tokens.Add(static_cast<uint64_t>(share.tokens));
      EmitProgress(run);
    }
    if (share.output) TakeOutput(run, executor_.Logits(output++));
  }
  // Only now may the executor be changed: logits are valid until then.
  for (const BatchShare& share : batch_.shares) {
    EngineRun& run = *share.run;
    if (run.failure) {
      FailRun(run, *run.failure);
    } else if (run.finish) {
      FinishRun(run, *run.finish);
    } else if (run.prefill_only && run.waiting() == 0) {
      FinishRun(run, FinishReason::kLength);
    } else {
      EmitChunk(run);
    }
  }
}

// Samples the run's next token and decides whether that was the last one.
void EngineCore::TakeOutput(EngineRun& run, std::span<const float> logits) {
  const Result<TokenId> token =
      run.sampler.Sample(logits, run.tokens, run.answer_index(), scratch_);
  if (!token) {
    run.failure = token.error();
    return;
  }
  if (run.first_token_ns < 0) run.first_token_ns = clock_.MonotonicNs();
  counters_.decode_tokens.Add();
  if (!run.ignore_end && executor_.IsEnd(*token)) {
    run.finish = FinishReason::kStop;
    return;
  }
  run.tokens.push_back(*token);
  --run.new_tokens_left;
  run.text.Add(*token);
  const EngineInfo& info = executor_.info();
  const auto size = static_cast<int32_t>(run.tokens.size());
  if (run.text.stopped()) {
    run.finish = FinishReason::kStop;
  } else if (run.new_tokens_left == 0 || (info.model_window > 0 && size >= info.model_window) ||
             run.in_kv >= info.cells) {
    run.finish = FinishReason::kLength;
  }
}

void EngineCore::MarkStarved(EngineRun& run) {
  run.starved = true;
  counters_.starved.Add();
  if (pressure_ != nullptr && !std::exchange(pressure_told_, true)) TellPressure(run.id);
}

// The owner may have truncated something between this step and the call: then the step is tried
// again after that anyway, and making more room for the old one would be too much.
void EngineCore::TellPressure(RunId starved) {
  outbox_.Add([self = shared_from_this(), pressure = pressure_, seen = truncations_seen_, starved] {
    {
      MutexLock lock(self->inbox_mutex_);
      if (self->truncations_ != seen) return;
    }
    (*pressure)(starved);
  });
}

void EngineCore::FreedSomething() {
  for (const auto& run : runs_)
    run->starved = false;
}

void EngineCore::EmitChunk(EngineRun& run) {
  if (!run.text.has_chunk()) return;
  RunChunk chunk = run.text.TakeChunk();
  if (!run.listener->on_chunk) return;
  outbox_.Add([listener = run.listener, chunk = std::move(chunk)]() mutable {
    listener->on_chunk(std::move(chunk));
  });
}

void EngineCore::EmitProgress(const EngineRun& run) {
  if (!run.listener->on_prefill) return;
  outbox_.Add([listener = run.listener, done = run.prefilled(),
               total = run.prefill_end - run.begin] { listener->on_prefill(done, total); });
}

void EngineCore::FinishRun(EngineRun& run, FinishReason reason) {
  if (reason != FinishReason::kPreempted) run.text.Finish();
  EmitChunk(run);
  RunResult result;
  result.reason = reason;
  result.answer = run.Answer();
  result.stop_string = run.text.stop_string();
  result.kv_end = run.KvEnd();
  result.prefilled = run.prefilled();
  result.times = run.Times(clock_.MonotonicNs());
  if (result.kv_end < run.in_kv) {
    if (const Status status = sequences_.Truncate(run.seq, result.kv_end); !status) {
      // A model whose state can't go back: what it holds belongs to no known tokens any more.
      sequences_.Drop(run.seq, status.error());
      result.kv_end = 0;
    }
  }
  outbox_.Add([listener = run.listener, result = std::move(result)]() mutable {
    listener->on_done(std::move(result));
  });
  ended_.push_back(&run);
}

void EngineCore::FailRun(EngineRun& run, const Error& error) {
  sequences_.Drop(run.seq, error);
  outbox_.Add([listener = run.listener, error] { listener->on_done(error); });
  ended_.push_back(&run);
}

void EngineCore::RemoveEnded() {
  if (ended_.empty()) return;
  std::erase_if(runs_, [this](const auto& run) {
    return std::find(ended_.begin(), ended_.end(), run.get()) != ended_.end();
  });
  ended_.clear();
  FreedSomething();
}

}  // namespace tenuto
