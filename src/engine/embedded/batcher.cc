#include "engine/embedded/batcher.h"

#include <algorithm>

namespace tenuto {

void Batcher::Plan(std::span<const std::unique_ptr<EngineRun>> runs, const BatchBudget& budget,
                   Batch& batch) {
  batch.tokens.clear();
  batch.shares.clear();
  batch.starved.clear();
  batch.decode_tokens = 0;
  batch.prefill_tokens = 0;
  tokens_left_ = budget.tokens_max;
  outputs_left_ = budget.outputs_max;
  cells_left_ = budget.cells_free;

  PlanDecode(runs, batch);
  waiting_.clear();
  for (const auto& run : runs) {
    if (!run->starved && run->waiting() > 1) waiting_.push_back(run.get());
  }
  const bool alone = batch.decode_tokens == 0;
  PlanPrefill(alone ? budget.prefill_alone_max : budget.prefill_beside_max, batch);
}

void Batcher::PlanDecode(std::span<const std::unique_ptr<EngineRun>> runs, Batch& batch) {
  const size_t count = runs.size();
  for (size_t i = 0; i < count; ++i) {
    EngineRun& run = *runs[(turn_ + i) % count];
    if (run.starved || run.waiting() != 1) continue;
    if (tokens_left_ == 0 || outputs_left_ == 0) {
      turn_ = (turn_ + i) % count;  // this one begins the next step
      return;
    }
    batch.decode_tokens += Add(run, 1, batch);
  }
  turn_ = 0;
}

void Batcher::PlanPrefill(int32_t share, Batch& batch) {
  if (waiting_.empty()) return;
  share = std::min(share, tokens_left_);
  const auto give = [&](EngineRun& run, int32_t most) {
    const int32_t added = Add(run, std::min({run.waiting(), most, share}), batch);
    share -= added;
    batch.prefill_tokens += added;
  };
  EngineRun* const oldest = waiting_.front();
  if (waiting_.size() > 1) {
    const auto shortest =
        std::min_element(waiting_.begin() + 1, waiting_.end(),
                         [](EngineRun* a, EngineRun* b) { return a->waiting() < b->waiting(); });
    EngineRun* const short_run = *shortest;
    waiting_.erase(shortest);
    waiting_.insert(waiting_.begin() + 1, short_run);
    const int32_t reserve = std::min(share / 4, short_run->waiting());
    give(*oldest, share - reserve);
  } else {
    give(*oldest, share);
  }
  for (size_t i = 1; i < waiting_.size() && share > 0; ++i)
    give(*waiting_[i], share);
}

// Adds up to `tokens_wanted` of the run's next tokens; returns how many. None for want of a cell:
// the run is starved.
int32_t Batcher::Add(EngineRun& run, int32_t tokens_wanted, Batch& batch) {
  int32_t n = std::min(tokens_wanted, tokens_left_);
  if (n <= 0) return 0;
  if (cells_left_ == 0) {
    batch.starved.push_back(&run);
    return 0;
  }
  n = std::min(n, cells_left_);
  bool output = n == run.waiting() && !run.prefill_only;
  if (output && outputs_left_ == 0) {  // all but the last, which goes with a later step
    output = false;
    if (--n == 0) return 0;
  }
  for (int32_t i = 0; i < n; ++i) {
    const TokenPos pos = run.in_kv + i;
    const bool last = i + 1 == n;
    batch.tokens.push_back({run.seq, pos, run.tokens[static_cast<size_t>(pos)], last && output});
  }
  batch.shares.push_back({&run, n, output});
  tokens_left_ -= n;
  cells_left_ -= n;
  outputs_left_ -= output ? 1 : 0;
  return n;
}

}  // namespace tenuto
