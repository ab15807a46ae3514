// What KV depends on, as text: the weights, the vocabulary, the library, KV types and layout, RoPE,
// and environment variables that change numbers. Not in it, because stored KV may be used across
// them: the number of cells, sequences and threads, batch sizes, and how many layers are on a GPU.
// Internal to this folder. Pure, thread-safe.
#pragma once

#include <llama.h>

#include <string>

#include "crypto/hash.h"

namespace tenuto {

struct FingerprintFacts {
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

// One "key=value" a line.
std::string FingerprintText(const llama_model* model, const FingerprintFacts& facts);

}  // namespace tenuto
