// LlamaExecutor: libllama behind the Executor seam, for any GGUF it loads. One unified KV cache for
// all sequences with one sequence more than the caller may use: ranges are exported and imported
// through it, so that a piece of KV can be appended to a sequence (docs/decisions/0002, notes on
// the state's bytes in docs/formats/llama_state.md). Threads: as Executor. libllama's log comes out
// of Log() at debug level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/executor.h"

namespace tenuto {

enum class FlashAttention : uint8_t { kOff, kOn, kAuto };

// "off", "on", "auto" (or 0 and 1, as llama-server takes them). kInvalid otherwise.
Result<FlashAttention> ParseFlashAttention(std::string_view text);
// Names that LlamaSettings::type_k and type_v take, for messages: "f32, f16, bf16, q8_0, ...".
std::string LlamaCacheTypeNames();

// What can be told of a model before it is loaded, in the words of LlamaExecutor::Open: that its
// files are whole GGUFs.
Status CheckLlamaFiles(const std::string& model_path);
// Also that libllama knows its architecture and vocabulary: reads no weights, takes a moment.
Status CheckLlamaModel(const std::string& model_path);

struct LlamaSettings {
  std::string model_path;
  // KV cells shared by all sequences. 0: one and a half of the model's window, at most what a
  // quarter of the available memory holds.
  int32_t cells = 0;
  int32_t sequences = 16;     // at most kSequencesMax - 1: one more is needed inside
  int32_t threads = 0;        // 0: one per processor this process may run on
  int32_t threads_batch = 0;  // of batches of more than one token; 0: as threads
  int32_t batch_tokens_max = 512;
  int32_t ubatch_tokens = 512;  // tokens computed at once; at most batch_tokens_max counts
  int32_t outputs_max = 32;     // logits of one Forward; buffers grow with it, and with `sequences`
  // Auto: off on a CPU, on when layers are on a GPU or V is quantised (docs/decisions/0001).
  FlashAttention flash_attention = FlashAttention::kAuto;
  std::string type_k = "f16";
  std::string type_v = "f16";  // a quantised V needs flash attention
  int32_t gpu_layers = 0;      // negative: all
  // Models with a sliding window keep its whole KV, so that a live sequence can go back anywhere;
  // costs memory.
  bool swa_full = true;
  std::string chat_template;  // "": the model's own; a built-in's name; a file
  std::string cache_dir;      // for the digest of the weights; "": none
};

class LlamaExecutor : public Executor {
 public:
  // Loads the model and checks that this library does what this class relies on. Every error is one
  // sentence: kNotFound, kDenied, kIo (the file); kCorrupt (cut, not a GGUF); kInvalid (settings,
  // an architecture or template that libllama does not know, a model that does not generate text);
  // kExhausted (memory); kUnavailable (another libllama).
  static Result<std::unique_ptr<LlamaExecutor>> Open(const LlamaSettings& settings);
  ~LlamaExecutor() override;

  const EngineInfo& info() const override;
  int32_t batch_tokens_max() const override;
  int32_t batch_outputs_max() const override;
  Result<std::vector<TokenId>> Tokenize(std::string_view text, bool add_special,
                                        bool parse_special) const override;
  std::string TokenText(TokenId token, bool special) const override;
  bool IsEnd(TokenId token) const override;
  Result<std::string> RenderChat(std::span<const ChatMessage> messages,
                                 bool open_answer) const override;

  Status Forward(std::span<const ForwardToken> batch) override;
  std::span<const float> Logits(size_t output_index) const override;
  // kInvalid, nothing changed: the model's state can't go back to `end` (EngineInfo::range_export
  // is false then).
  Status Truncate(SeqId seq, TokenPos end) override;
  Status CopyPrefix(SeqId from, SeqId to, TokenPos end) override;
  Status Export(SeqId seq, TokenRange range, std::vector<std::byte>& out) override;
  Status Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes) override;
  int32_t cells_free() const override;

 private:
  struct Parts;
  friend class LlamaOpener;
  friend class LlamaExecutorPeer;  // of a test: what CheckState keeps from LoadState
  explicit LlamaExecutor(std::unique_ptr<Parts> parts);

  Status CheckSequence(SeqId seq) const;
  Status CheckBatch(std::span<const ForwardToken> batch) const;
  Status CanEndAt(SeqId seq, TokenPos end) const;
  Status LoadState(SeqId seq, TokenRange range, std::span<const std::byte> bytes);
  bool ReadIntoScratch(TokenRange range, std::span<const std::byte> bytes);
  void ClearFreeCells(SeqId seq);

  std::unique_ptr<Parts> parts_;
};

}  // namespace tenuto
