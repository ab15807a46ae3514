// Decides what goes into a step: one token of each run that decodes, then chunks of prompts. Pure:
// looks at runs and budgets, touches neither the executor nor a clock. Engine's runner only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/embedded/run.h"
#include "engine/executor.h"

namespace tenuto {

inline constexpr int32_t kPrefillShareMin =
    16;  // prompt tokens of a step that also decodes, however slow steps are

struct BatchBudget {
  int32_t tokens_max = 0;
  int32_t outputs_max = 0;
  int32_t cells_free = 0;
  int32_t prefill_alone_max = 0;   // prompt tokens of a step without decoding runs
  int32_t prefill_beside_max = 0;  // of one with them
};

struct BatchShare {
  EngineRun* run = nullptr;
  int32_t tokens = 0;   // run->tokens[in_kv, in_kv + tokens)
  bool output = false;  // logits of the last of them
};

// A step. The vectors keep their memory from step to step.
struct Batch {
  std::vector<ForwardToken> tokens;
  std::vector<BatchShare>
      shares;  // in the order of `tokens`; outputs come in the order of shares with one
  std::vector<EngineRun*> starved;  // could not get a single cell
  int32_t decode_tokens = 0;        // of runs with one token to go
  int32_t prefill_tokens = 0;       // the others
};

class Batcher {
 public:
  // Fills `batch` from `runs` (oldest first; starved ones are passed over).
  // Runs with one token to go (all that decode, and prompts whose last token is left): all of them;
  // where a budget of the executor does not allow it, they take turns. Cells go to the oldest
  // first. Prefill: first come, first served; but where several wait, a quarter of the share goes
  // to the one with the fewest tokens left, so that a short turn does not wait for a long document.
  void Plan(std::span<const std::unique_ptr<EngineRun>> runs, const BatchBudget& budget,
            Batch& batch);

 private:
  void PlanDecode(std::span<const std::unique_ptr<EngineRun>> runs, Batch& batch);
  void PlanPrefill(int32_t share, Batch& batch);
  int32_t Add(EngineRun& run, int32_t tokens_wanted, Batch& batch);

  std::vector<EngineRun*> waiting_;  // runs with more than one token of prompt to prefill
  size_t turn_ = 0;                  // where decoding starts when not all fit
  int32_t tokens_left_ = 0;
  int32_t outputs_left_ = 0;
  int32_t cells_left_ = 0;
};

}  // namespace tenuto
