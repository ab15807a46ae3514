#include "engine/embedded/llama/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <string_view>

#include "engine/embedded/llama/library.h"
#include "engine/embedded/llama/state_check.h"

namespace tenuto {
namespace {

// Read by libllama or ggml; each changes the numbers that are computed or what stored ones mean.
constexpr const char* kEnvironment[] = {
    "LLAMA_ATTN_ROT_DISABLE",
    "GGML_CPU_DISABLE_FUSION",
    "GGML_CPU_TILED_MM",
    "GGML_CPU_TILED_MM_FORCE",
};

// All metadata of the model that says ".rope.", sorted by key.
std::map<std::string, std::string> RopeEntries(const llama_model* model) {
  std::map<std::string, std::string> entries;
  for (int32_t i = 0; i < llama_model_meta_count(model); ++i) {
    char key[256];
    char value[256];
    if (llama_model_meta_key_by_index(model, i, key, sizeof key) < 0) continue;
    if (std::string_view(key).find(".rope.") == std::string_view::npos) continue;
    if (llama_model_meta_val_str_by_index(model, i, value, sizeof value) < 0) continue;
    entries[key] = value;
  }
  return entries;
}

std::string Architecture(const llama_model* model) {
  char value[128];
  return llama_model_meta_val_str(model, "general.architecture", value, sizeof value) < 0 ? ""
                                                                                          : value;
}

}  // namespace

Digest256 VocabularyDigest(const llama_vocab* vocab) {
  Sha256 hash;
  const int32_t size = llama_vocab_n_tokens(vocab);
  hash.UpdateU64(static_cast<uint64_t>(size));
  hash.UpdateU64(static_cast<uint64_t>(llama_vocab_type(vocab)));
  for (llama_token token = 0; token < size; ++token) {
    const char* text = llama_vocab_get_text(vocab, token);
    hash.UpdateField(text == nullptr ? "" : text);
    const auto attributes = static_cast<uint64_t>(llama_vocab_get_attr(vocab, token));
    const uint64_t end = llama_vocab_is_eog(vocab, token) ? 1 : 0;
    hash.UpdateU64((attributes << 1) | end);
    hash.UpdateU64(std::bit_cast<uint32_t>(llama_vocab_get_score(vocab, token)));
  }
  return hash.Finish();
}

std::map<std::string, std::string> FingerprintEnvironment() {
  std::map<std::string, std::string> values;
  for (const char* name : kEnvironment) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
    const char* value = std::getenv(name);
    values[name] = value == nullptr ? "(unset)" : value;
  }
  return values;
}

FingerprintFacts ModelFacts(const llama_model* model) {
  FingerprintFacts facts;
  facts.library = LlamaLibraryVersion();
  facts.state_version = LLAMA_STATE_SEQ_VERSION;
  facts.architecture = Architecture(model);
  facts.rope_type = static_cast<int>(llama_model_rope_type(model));
  facts.rope = RopeEntries(model);
  facts.environment = FingerprintEnvironment();
  return facts;
}

std::string FingerprintText(const FingerprintFacts& facts) {
  std::string text;
  const auto add = [&text](const std::string& key, const std::string& value) {
    text += key + "=" + value + "\n";
  };
  add("codec", "llama-seq-state/" + std::to_string(kLlamaStateVersion));
  add("library", "libllama " + facts.library);
  add("state_version", std::to_string(facts.state_version));
  add("architecture", facts.architecture);
  add("weights", facts.weights.Hex());
  add("vocabulary", facts.vocabulary.Hex());
  add("type_k", facts.type_k);
  add("type_v", facts.type_v);
  add("flash_attention", facts.flash_attention ? "on" : "off");
  add("streams", "1");
  add("swa_full", facts.swa_full ? "1" : "0");
  add("layout", facts.layout);
  add("rope_type", std::to_string(facts.rope_type));
  for (const auto& [key, value] : facts.rope)
    add(key, value);
  // In the order of kEnvironment: stored fingerprints have it.
  for (const char* name : kEnvironment) {
    const auto found = facts.environment.find(name);
    add(std::string("env.") + name, found == facts.environment.end() ? "(unset)" : found->second);
  }
  return text;
}

}  // namespace tenuto
