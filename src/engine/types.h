// What sessions and engines say to each other: sampling settings, a run's request and result, an
// engine's facts. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "crypto/hash.h"
#include "format/piece.h"

namespace tenuto {

struct SamplingParams {
  double temperature = 0.8;  // <= 0: greedy
  int32_t top_k = 40;        // <= 0: off
  double top_p = 0.95;       // >= 1: off
  double min_p = 0.05;       // <= 0: off
  double repeat_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  int32_t penalty_last_n = 64;  // tokens that penalties look back on; 0: off, -1: the whole window
  uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to logits first; -inf bans
};

enum class FinishReason : uint8_t {
  kStop,       // end-of-turn token or a stop string
  kLength,     // max_new_tokens or the window's end
  kCancelled,  // Cancel()
  kPreempted,  // Preempt(): goes on later
};

struct RunRequest {
  SeqId seq;
  // The sequence already holds KV of exactly [0, begin); anything past it is removed first.
  TokenPos begin = 0;
  // All tokens of the window so far. [begin, size) are prefilled; at least one (the N-1 rule,
  // INV-6).
  std::vector<TokenId> tokens;
  // The last `answered` of `tokens` were sampled by an earlier, preempted part of this very run:
  // penalties, the random stream, stop strings and text go on after them.
  int32_t answered = 0;
  // New tokens that may still be sampled, `answered` not counted. >= 0: 0 only prefills.
  int32_t max_new_tokens = 0;
  SamplingParams sampling;
  std::vector<std::string> stop;
  bool ignore_end = false;  // go on past end-of-turn tokens
};

// A piece of the answer. `text` is whole UTF-8 and never holds part of a stop string; several
// tokens may share one.
struct RunChunk {
  std::vector<TokenId> tokens;
  std::string text;
};

struct RunTimes {          // nanoseconds
  int64_t prefill_ns = 0;  // from the first step with this run to its first sampled token
  int64_t decode_ns = 0;   // from there to the end
};

struct RunResult {
  FinishReason reason = FinishReason::kStop;
  // The answer's tokens, `answered` included: what the log keeps. Decodes to exactly the text that
  // was streamed: when a stop string began inside a token, that token is replaced by the tokens of
  // its visible part.
  std::vector<TokenId> answer;
  std::string stop_string;  // the one that matched, or ""
  TokenPos kv_end =
      0;  // the sequence now holds KV of [0, kv_end), and those tokens are prompt + answer
  int32_t prefilled = 0;
  RunTimes times;
};

// Called on the runner that the engine was given for answers; never after on_done.
struct RunListener {
  std::function<void(RunChunk)> on_chunk;
  std::function<void(int32_t prefilled, int32_t total)> on_prefill;  // progress; may be empty
  // Exactly once. An error that comes before the first step (kInvalid, kConflict, kExhausted) left
  // the sequence as it was, but for positions past `begin`; one that comes later left it empty.
  std::function<void(Result<RunResult>)> on_done;
};

struct RunId {
  uint64_t value = 0;
  auto operator<=>(const RunId&) const = default;
};

// Exported KV of one range, cut into payloads of at most kPieceBytesMax, in order, ranges adjacent.
struct ExportedPiece {
  TokenRange range;
  std::vector<std::byte> payload;
};

struct EngineInfo {
  std::string model_name;  // of the GGUF's metadata, or the file's name
  std::string model_path;
  int64_t model_parameters = 0;
  int64_t model_bytes = 0;
  int32_t vocabulary_size = 0;
  int32_t model_window = 0;     // tokens the model was trained for
  int32_t cells = 0;            // KV cells shared by all sequences
  int32_t sequences = 0;        // SeqIds 0 .. sequences-1 may be used
  int32_t token_bytes_max = 0;  // longest text of one token
  size_t kv_bytes_per_token = 0;
  PieceCodec codec = PieceCodec::kFake;
  // Export and Import of a range work, and Truncate and CopyPrefix work at any position. False for
  // models with a sliding window or a recurrent state: their sequences are recomputed from the log.
  bool range_export = true;
  Digest256 vocabulary;   // digest of all token texts and attributes
  Digest256 fingerprint;  // weights, vocabulary, executor and its version, KV types and layout,
                          // rope, environment
  std::string fingerprint_text;  // the same, readable: one "key=value" a line
  std::string default_system;    // DefaultSystemPrompt of the model's template
};

}  // namespace tenuto
