// What a LlamaExecutor is made of. Internal to this folder; one thread, except for what Executor
// marks "any thread".
#pragma once

#include <llama.h>

#include <cstdint>
#include <vector>

#include "engine/cell_ledger.h"
#include "engine/embedded/llama/executor.h"
#include "engine/embedded/llama/library.h"
#include "engine/embedded/llama/state_check.h"
#include "engine/embedded/llama/template.h"
#include "engine/types.h"

namespace tenuto {

// The arrays behind a llama_batch, kept so that a step allocates nothing.
struct BatchArrays {
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<int32_t> sequence_counts;
  std::vector<llama_seq_id> sequences;
  std::vector<llama_seq_id*> sequence_lists;
  std::vector<int8_t> outputs;

  void Resize(size_t size);
  llama_batch View();
};

// What llama_decode's `code` for a batch of so many tokens means to callers of Forward: 0 is ok, 1
// no slot in the KV (libllama has put its memory back), 2 aborted, negative a batch or a pass that
// failed.
Status DecodeStatus(int32_t code, size_t tokens, int32_t cells_free);

struct LlamaExecutor::Parts {
  LlamaSettings settings;
  LlamaModelHandle model;  // outlives the context
  LlamaContextHandle context;
  const llama_vocab* vocab = nullptr;
  llama_memory_t memory = nullptr;
  LlamaChatTemplate chat_template;
  EngineInfo info;
  StateLayout layout;          // valid where info.range_export
  int32_t sliding_window = 0;  // tokens; 0: none
  bool recurrent = false;      // wholly or in part
  llama_seq_id scratch = 0;

  CellLedger ledger{0, 0};
  BatchArrays batch;
  std::vector<int32_t> output_rows;  // index in the batch of each output of the last Forward
};

}  // namespace tenuto
