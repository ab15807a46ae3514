// EmbeddedEngine: an Engine over an Executor in this process. Continuous batching: each step
// forwards one token of every decoding run and a share of the waiting prompts; imports, exports and
// truncations go between steps. Thread-safe, see Engine. All executor calls happen on
// `runners.engine`, all callbacks on `runners.answer`. The executor's sequences must be empty at
// the start, and nobody else may change them. Executor, runners, clock and metrics outlive the
// engine. The destructor waits for the step at hand and answers all that is open with kUnavailable
// (which is dropped when the answer runner stopped before).
//
// Errors of a run: one that comes before its first step (kInvalid, kConflict, kExhausted: more
// tokens than cells) left the sequence as it was, except that positions past `begin` may be gone.
// One that comes later (a failed step, nothing left to draw) left the sequence empty. Truncate,
// Import and CopyPrefix into a sequence that has a run: kConflict. Order: calls on one sequence
// take effect in the order made; Cancel and Preempt overtake what waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/metrics.h"
#include "engine/engine.h"
#include "engine/executor.h"
#include "io/clock.h"
#include "io/runner.h"

namespace tenuto {

class EngineCore;

struct EmbeddedSettings {
  // Time that a step with decoding runs should take: it limits the prompt tokens that go along.
  int64_t step_target_ns = 100'000'000;
  size_t piece_bytes_target =
      kPieceBytesTarget;  // payload of an exported piece; at most kPieceBytesMax
  size_t transfer_bytes_per_step =
      16 * kMiB;  // KV moved between two steps before the next step has its turn
};

struct EngineRunners {
  Runner& engine;
  Runner& answer;
};

class EmbeddedEngine : public Engine {
 public:
  EmbeddedEngine(Executor& executor, EngineRunners runners, Clock& clock, EmbeddedSettings settings,
                 Metrics& metrics);
  ~EmbeddedEngine() override;
  EmbeddedEngine(const EmbeddedEngine&) = delete;
  EmbeddedEngine& operator=(const EmbeddedEngine&) = delete;

  const EngineInfo& info() const override;
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special,
                                        bool parse_special) const override;
  std::string TokenText(TokenId token, bool special) const override;
  Result<std::string> RenderChat(std::span<const ChatMessage> messages,
                                 bool open_answer) const override;

  RunId Start(RunRequest request, RunListener listener) override;
  void Cancel(RunId run) override;
  void Preempt(RunId run) override;
  void Import(SeqId seq, TokenRange range, std::shared_ptr<const void> buffer,
              std::span<const std::byte> bytes, StatusDone done) override;
  void Export(SeqId seq, TokenRange range, ExportDone done) override;
  void Truncate(SeqId seq, TokenPos end, StatusDone done) override;
  void CopyPrefix(SeqId from, SeqId to, TokenPos end, StatusDone done) override;
  void SetPressureCallback(std::function<void(RunId starved)> callback) override;

 private:
  Executor& executor_;
  std::shared_ptr<EngineCore> core_;
};

}  // namespace tenuto
