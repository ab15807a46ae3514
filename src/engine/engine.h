// An Engine turns token sequences into tokens: continuous batching, sampling, stop strings, KV in
// and out. The seam between sessions and whatever computes: embedded/ here, upstream servers later.
// Thread-safe. Every callback runs on the answer runner given at construction; calls on one
// sequence take effect in the order made. The caller owns the SeqIds: it decides which sequence
// holds what.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "chat/message.h"
#include "engine/types.h"

namespace tenuto {

class Engine {
 public:
  using StatusDone = std::function<void(Status)>;
  using ExportDone = std::function<void(Result<std::vector<ExportedPiece>>)>;

  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  virtual Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special,
                                                bool parse_special) const = 0;
  virtual std::string TokenText(TokenId token, bool special) const = 0;
  virtual Result<std::string> RenderChat(std::span<const ChatMessage> messages,
                                         bool open_answer) const = 0;

  // One run at a time per sequence. Ends with listener.on_done.
  virtual RunId Start(RunRequest request, RunListener listener) = 0;
  // Ends the run after the step at hand, with kCancelled (or however it ended meanwhile). No effect
  // when it is done.
  virtual void Cancel(RunId run) = 0;
  // Likewise with kPreempted: Start it again with `answered` set and it goes on as if nothing had
  // happened.
  virtual void Preempt(RunId run) = 0;

  // Appends a checked piece: see Executor::Import. `bytes` stay alive until done. Between steps.
  virtual void Import(SeqId seq, TokenRange range, std::shared_ptr<const void> buffer,
                      std::span<const std::byte> bytes, StatusDone done) = 0;
  // Exports [range) cut into pieces. Does not stop the sequence from being used.
  virtual void Export(SeqId seq, TokenRange range, ExportDone done) = 0;
  virtual void Truncate(SeqId seq, TokenPos end, StatusDone done) = 0;
  virtual void CopyPrefix(SeqId from, SeqId to, TokenPos end, StatusDone done) = 0;

  // A run could not get cells for its next token: called on the answer runner, at most once per
  // step, and not for a step before the owner's last Truncate. The owner must truncate idle
  // sequences or Preempt a run; the step is tried again after that.
  virtual void SetPressureCallback(std::function<void(RunId starved)> callback) = 0;
};

}  // namespace tenuto
