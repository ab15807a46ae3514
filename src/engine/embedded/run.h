// One run inside the engine: what was asked, how far its sequence is, and its answer so far. Owned
// by EngineCore, used on the engine's runner only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/embedded/answer_text.h"
#include "engine/embedded/sampler.h"
#include "engine/executor.h"
#include "engine/types.h"

namespace tenuto {

// Everything about a request that can be said before anything is touched. kInvalid; kExhausted:
// more tokens than cells.
Status CheckRunRequest(const RunRequest& request, const EngineInfo& info);

struct EngineRun {
  // REQUIRES: CheckRunRequest(request) passed.
  EngineRun(RunId run_id, RunRequest request, std::shared_ptr<const RunListener> run_listener,
            const Executor& executor);

  const RunId id;
  const SeqId seq;
  const std::shared_ptr<const RunListener> listener;
  const Sampler sampler;
  const bool ignore_end;
  const TokenPos begin;         // the sequence held [0, begin) at the start
  const int32_t prompt_tokens;  // tokens[0, prompt_tokens) are not answer
  const int32_t prefill_end;    // tokens[0, prefill_end) were given at the start
  const bool prefill_only;      // nothing is to be sampled

  std::vector<TokenId> tokens;  // the window: prompt, then the answer so far
  TokenPos in_kv;               // the sequence holds tokens[0, in_kv)
  int32_t new_tokens_left;
  AnswerText text;
  bool starved = false;                // waits for cells; not planned until something was freed
  std::optional<FinishReason> finish;  // set by the step that ends it
  std::optional<Error> failure;
  int64_t first_step_ns = -1;  // monotonic; -1: not yet
  int64_t first_token_ns = -1;

  int32_t waiting() const {
    return static_cast<int32_t>(tokens.size()) - in_kv;
  }  // tokens still to be forwarded
  bool decoding() const { return static_cast<int32_t>(tokens.size()) > prefill_end; }
  uint64_t answer_index() const { return tokens.size() - static_cast<size_t>(prompt_tokens); }
  int32_t prefilled() const;
  // The answer as it stands: all of it, or what is left of it after a stop string.
  std::vector<TokenId> Answer() const;
  // How much of what the sequence holds belongs to prompt and answer.
  TokenPos KvEnd() const;
  RunTimes Times(int64_t now_ns) const;
};

}  // namespace tenuto
