// An Executor runs one model's forward pass over many sequences in this process. The seam below the
// embedded engine: llama/ is libllama, fake/ a deterministic toy whose KV proves which tokens it
// covers. One thread owns an Executor, except for the methods marked "any thread", which are const
// over immutable state. Results of Forward stay valid until the next Forward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "chat/message.h"
#include "engine/types.h"

namespace tenuto {

struct ForwardToken {
  SeqId seq;
  TokenPos pos = 0;
  TokenId token = 0;
  bool output = false;  // logits wanted
};

class Executor {
 public:
  virtual ~Executor() = default;

  // --- any thread ---
  virtual const EngineInfo& info() const = 0;
  virtual int32_t batch_tokens_max() const = 0;   // tokens of one Forward
  virtual int32_t batch_outputs_max() const = 0;  // outputs of one Forward
  // `add_special`: what the model wants at the start of a text (BOS). `parse_special`: "<|im_end|>"
  // is one token.
  virtual Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special,
                                                bool parse_special) const = 0;
  // Bytes of a token; may be part of a UTF-8 character. Special tokens give "" unless `special`.
  virtual std::string TokenText(TokenId token, bool special) const = 0;
  virtual bool IsEnd(TokenId token) const = 0;  // ends a turn
  // kInvalid: unknown template (message names --chat-template) or roles it can't take.
  virtual Result<std::string> RenderChat(std::span<const ChatMessage> messages,
                                         bool open_answer) const = 0;

  // --- the owning thread ---
  // Appends each token at its position. REQUIRES: positions of a sequence follow on from what it
  // holds; at most batch_tokens_max tokens and batch_outputs_max outputs. kExhausted: not enough
  // free cells, nothing changed. Any other error: the sequences of this batch are unknown, remove
  // them.
  virtual Status Forward(std::span<const ForwardToken> batch) = 0;
  // Logits of the i-th token with output=true of the last Forward: vocabulary_size floats.
  virtual std::span<const float> Logits(size_t output_index) const = 0;

  // Removes KV of positions >= end. end == 0 removes the sequence wholly and always works.
  virtual Status Truncate(SeqId seq, TokenPos end) = 0;
  // Makes `to` (must be empty) hold the first `end` positions of `from`, sharing cells.
  virtual Status CopyPrefix(SeqId from, SeqId to, TokenPos end) = 0;
  // KV of [range) as bytes that Import takes. Replaces `out`.
  virtual Status Export(SeqId seq, TokenRange range, std::vector<std::byte>& out) = 0;
  // REQUIRES: seq holds exactly [0, range.begin). After an error it still holds exactly that.
  // kExhausted: no cells; kCorrupt: the bytes are refused. Bytes must have passed all checks of
  // format/piece.h: libllama trusts them.
  virtual Status Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes) = 0;
  virtual int32_t cells_free() const = 0;
};

}  // namespace tenuto
