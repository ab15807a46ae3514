// What KV depends on, as text: the weights, the vocabulary, the library, KV types and layout, RoPE,
// and environment variables that change numbers. Not in it, because stored KV may be used across
// them: the number of cells, sequences and threads, batch sizes, and how many layers are on a GPU.
// Internal to this folder. Pure, thread-safe.
#pragma once

#include <llama.h>

#include <cstdint>
#include <map>
#include <string>

#include "crypto/hash.h"

namespace tenuto {

struct FingerprintFacts {
  std::string library;         // LlamaLibraryVersion
  uint32_t state_version = 0;  // LLAMA_STATE_SEQ_VERSION
  std::string architecture;
  int rope_type = 0;
  std::map<std::string, std::string> rope;         // all metadata whose key says ".rope."
  std::map<std::string, std::string> environment;  // FingerprintEnvironment
  Digest256 weights;
  Digest256 vocabulary;
  std::string type_k;
  std::string type_v;
  bool flash_attention = false;
  bool swa_full = false;
  std::string layout;  // StateLayout::Describe
};

// Texts, attributes and scores of all tokens, and which of them end a turn.
Digest256 VocabularyDigest(const llama_vocab* vocab);

// Library, architecture and RoPE of a loaded model, and this process's environment.
FingerprintFacts ModelFacts(const llama_model* model);
// Variables that libllama or ggml read and that change numbers or what stored ones mean, with their
// values; "(unset)" where there is none.
std::map<std::string, std::string> FingerprintEnvironment();

// One "key=value" a line.
std::string FingerprintText(const FingerprintFacts& facts);

}  // namespace tenuto
