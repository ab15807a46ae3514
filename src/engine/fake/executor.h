// FakeExecutor: a toy model for tests and the simulator. It answers in readable letters, the same
// for the same tokens on every machine, and its KV proves which tokens it covers: the logits of a
// position are a function of the bytes that the sequence's cells hold, so a wrong, foreign or
// misplaced import changes the answer. It does not check the hashes it imports, for then it would
// hide what the layers above it fail to check.
//
// Vocabulary: 256 bytes, then <|endoftext|>, <|im_start|>, <|im_end|>. Template: ChatML without a
// default system prompt unless one is set. An answer ends after answer_tokens_min ..
// answer_tokens_max tokens, drawn from its prompt. Threads: as Executor. `spend` is called on the
// owning thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cell_ledger.h"
#include "engine/executor.h"

namespace tenuto {

struct FakeExecutorSettings {
  uint64_t model_seed = 1;  // another seed is another model: other answers, other fingerprint
  int32_t window = 2048;    // tokens the model "was trained for"
  int32_t cells = 4096;
  int32_t sequences = 16;
  int32_t batch_tokens_max = 512;
  int32_t batch_outputs_max = 64;
  size_t kv_bytes_per_token = 16;  // at least 16; what is beyond is filling that Import checks
  int32_t answer_tokens_min = 5;
  int32_t answer_tokens_max = 60;
  bool range_export = true;  // false: behaves like a recurrent model, see EngineInfo
  std::string default_system;
  std::string config = "default";  // stands for KV types and layout: goes into the fingerprint

  // Called by each TokenText, on its thread. Empty: nothing is.
  std::function<void()> on_token_text;
  // Told how long an operation takes; a simulator moves its clock, a load test sleeps. Empty: no
  // time passes.
  std::function<void(int64_t ns)> spend;
  int64_t forward_ns = 0;        // per Forward
  int64_t prefill_token_ns = 0;  // per token without output
  int64_t decode_token_ns = 0;   // per token with output
  int64_t copy_mib_ns = 0;       // per MiB exported or imported
};

class FakeExecutor : public Executor {
 public:
  static constexpr TokenId kEndOfText = 256;
  static constexpr TokenId kMessageStart = 257;
  static constexpr TokenId kMessageEnd = 258;
  static constexpr int32_t kVocabulary = 259;

  // REQUIRES: settings make sense (positive sizes, kv_bytes_per_token >= 16, sequences <=
  // kSequencesMax).
  explicit FakeExecutor(FakeExecutorSettings settings);

  // The n-th call from now (1: the next) fails with `code` and changes nothing, except that a
  // Forward failing with anything but kExhausted leaves half of its batch behind, as a real one
  // may. 0: off.
  void FailForward(int32_t n, Code code) { fail_forward_ = {n, code}; }
  void FailImport(int32_t n, Code code) { fail_import_ = {n, code}; }
  void FailExport(int32_t n, Code code) { fail_export_ = {n, code}; }

  // For assertions: tokens that the cells of a sequence hold now, and how many tokens Forward has
  // computed so far.
  std::vector<TokenId> HeldTokens(SeqId seq) const;
  uint64_t forward_tokens() const { return forward_tokens_; }
  uint64_t forward_calls() const { return forward_calls_; }

  const EngineInfo& info() const override { return info_; }
  int32_t batch_tokens_max() const override { return settings_.batch_tokens_max; }
  int32_t batch_outputs_max() const override { return settings_.batch_outputs_max; }
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special,
                                        bool parse_special) const override;
  std::string TokenText(TokenId token, bool special) const override;
  bool IsEnd(TokenId token) const override;
  Result<std::string> RenderChat(std::span<const ChatMessage> messages,
                                 bool open_answer) const override;

  Status Forward(std::span<const ForwardToken> batch) override;
  std::span<const float> Logits(size_t output_index) const override;
  Status Truncate(SeqId seq, TokenPos end) override;
  Status CopyPrefix(SeqId from, SeqId to, TokenPos end) override;
  Status Export(SeqId seq, TokenRange range, std::vector<std::byte>& out) override;
  Status Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes) override;
  int32_t cells_free() const override { return ledger_.free(); }

 private:
  struct Cell {  // the KV of one position
    TokenId token = 0;
    TokenPos pos = 0;
    uint64_t hash = 0;  // of all tokens up to here
  };
  struct Fault {
    int32_t countdown = 0;
    Code code = Code::kIo;
    bool Hit();
  };

  EngineInfo MakeInfo() const;
  Status CheckSequence(SeqId seq) const;
  Status CheckBatch(std::span<const ForwardToken> batch) const;
  const Cell& At(SeqId seq, TokenPos pos) const;
  void AppendToken(const ForwardToken& token);
  void ComputeLogits(SeqId seq);
  void Spend(int64_t ns) const;

  const FakeExecutorSettings settings_;
  const EngineInfo info_;
  CellLedger ledger_;
  std::vector<Cell> cells_;
  std::vector<float> logits_;  // kVocabulary each
  size_t outputs_ = 0;
  Fault fail_forward_, fail_import_, fail_export_;
  uint64_t forward_tokens_ = 0, forward_calls_ = 0;
};

}  // namespace tenuto
