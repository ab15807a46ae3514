// GGUF models of a few kilobytes with random weights, of each class of memory that libllama has:
// full attention, sliding window, recurrent, hybrid. They answer nonsense but the same each time,
// in microseconds a token, so that what depends on the class alone is tested in no time. Tests
// only.
#pragma once

#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/temp_dir.h"

namespace tenuto {

enum class TinyKind : uint8_t { kFullAttention, kSlidingWindow, kRecurrent, kHybrid };

struct TinyModelOptions {
  TinyKind kind = TinyKind::kFullAttention;
  uint64_t seed = 1;
  std::string architecture = {};  // "": the one that fits `kind`
  std::string chat_template = {};
  uint32_t head_size = 32;    // of the attention kinds
  uint32_t rope_base = 0;     // 0: no such key
  bool says_no_rope = false;  // the hybrid kind: rope.dimension_count 0, which is so
};

inline constexpr uint32_t kTinyEmbedding = 64, kTinyWindow = 32;  // of the sliding-window kind

class TinyModelWriter {
 public:
  explicit TinyModelWriter(const TinyModelOptions& options)
      : options_(options), gguf_(gguf_init_empty(), gguf_free), state_(options.seed) {
    ggml_init_params params = {size_t{16} << 20, nullptr, false};
    ggml_.reset(ggml_init(params));
  }

  void Write(const std::string& path) {
    const char* names[] = {"llama", "gemma3", "mamba", "jamba"};
    fitting_ = names[static_cast<size_t>(options_.kind)];
    SetText("general.architecture",
            options_.architecture.empty() ? fitting_ : options_.architecture);
    SetText("general.name", "tiny " + fitting_);
    AddVocabulary();
    Set("context_length", 512);
    Set("embedding_length", kTinyEmbedding);
    Set("vocab_size", static_cast<uint32_t>(vocabulary_));
    SetFloat("attention.layer_norm_rms_epsilon", 1e-5F);
    Tensor("token_embd.weight", kTinyEmbedding, vocabulary_, 1.0F);
    Norm("output_norm.weight", kTinyEmbedding);
    if (options_.kind == TinyKind::kRecurrent) {
      AddRecurrentLayers();
    } else if (options_.kind == TinyKind::kHybrid) {
      AddHybridLayers();
    } else {
      AddAttentionLayers();
    }
    ASSERT_TRUE(gguf_write_to_file(gguf_.get(), path.c_str(), false));
  }

 private:
  void SetText(const std::string& key, const std::string& value) {
    gguf_set_val_str(gguf_.get(), key.c_str(), value.c_str());
  }
  void Set(const std::string& key, uint32_t value) {
    gguf_set_val_u32(gguf_.get(), (fitting_ + "." + key).c_str(), value);
  }
  void SetFloat(const std::string& key, float value) {
    gguf_set_val_f32(gguf_.get(), (fitting_ + "." + key).c_str(), value);
  }

  // Byte-level BPE without merges: 256 bytes and three control tokens.
  void AddVocabulary() {
    std::vector<std::string> texts;
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      texts.push_back(Utf8(visible ? byte : next++));
    }
    for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"})
      texts.emplace_back(text);
    std::vector<const char*> pointers(texts.size());
    std::vector<int32_t> types(texts.size(), 1);
    for (size_t i = 0; i < texts.size(); ++i)
      pointers[i] = texts[i].c_str();
    for (size_t i = 256; i < types.size(); ++i)
      types[i] = 3;
    const char* merges[] = {"a b"};
    gguf_set_val_str(gguf_.get(), "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(gguf_.get(), "tokenizer.ggml.pre", "gpt-2");
    gguf_set_arr_str(gguf_.get(), "tokenizer.ggml.tokens", pointers.data(), pointers.size());
    gguf_set_arr_data(gguf_.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(),
                      types.size());
    gguf_set_arr_str(gguf_.get(), "tokenizer.ggml.merges", merges, 1);
    gguf_set_val_u32(gguf_.get(), "tokenizer.ggml.eos_token_id", 258);
    if (!options_.chat_template.empty()) SetText("tokenizer.chat_template", options_.chat_template);
    vocabulary_ = static_cast<int64_t>(texts.size());
  }

  void AddAttentionLayers() {
    const uint32_t head = options_.head_size;
    const bool sliding = options_.kind == TinyKind::kSlidingWindow;
    const uint32_t layers = sliding ? 6 : 2;  // every sixth layer of this family sees everything
    Set("block_count", layers);
    Set("feed_forward_length", 128);
    Set("attention.head_count", 2);
    Set("attention.head_count_kv", 1);
    Set("attention.key_length", head);
    Set("attention.value_length", head);
    Set("rope.dimension_count", head);
    if (options_.rope_base > 0) SetFloat("rope.freq_base", static_cast<float>(options_.rope_base));
    if (sliding) Set("attention.sliding_window", kTinyWindow);
    for (uint32_t i = 0; i < layers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      Norm(layer + "attn_norm.weight", kTinyEmbedding);
      Attention(layer, head);
      FeedForward(layer);
      if (!sliding) continue;
      Norm(layer + "attn_q_norm.weight", head);
      Norm(layer + "attn_k_norm.weight", head);
      Norm(layer + "post_attention_norm.weight", kTinyEmbedding);
      Norm(layer + "post_ffw_norm.weight", kTinyEmbedding);
    }
  }

  void Attention(const std::string& layer, uint32_t head) {  // 2 heads of queries, 1 of keys
    Tensor(layer + "attn_q.weight", kTinyEmbedding, int64_t{2} * head);
    Tensor(layer + "attn_k.weight", kTinyEmbedding, head);
    Tensor(layer + "attn_v.weight", kTinyEmbedding, head);
    Tensor(layer + "attn_output.weight", int64_t{2} * head, kTinyEmbedding);
  }

  void FeedForward(const std::string& layer) {
    Norm(layer + "ffn_norm.weight", kTinyEmbedding);
    Tensor(layer + "ffn_gate.weight", kTinyEmbedding, 128);
    Tensor(layer + "ffn_up.weight", kTinyEmbedding, 128);
    Tensor(layer + "ffn_down.weight", 128, kTinyEmbedding);
  }

  static constexpr uint32_t kInner = 2 * kTinyEmbedding, kState = 16, kRank = 4, kKernel = 4;

  void SetStateSpace() {
    Set("ssm.conv_kernel", kKernel);
    Set("ssm.inner_size", kInner);
    Set("ssm.state_size", kState);
    Set("ssm.time_step_rank", kRank);
  }

  void StateSpace(const std::string& layer) {
    Tensor(layer + "ssm_in.weight", kTinyEmbedding, int64_t{2} * kInner);
    Tensor(layer + "ssm_conv1d.weight", kKernel, kInner);
    Tensor(layer + "ssm_conv1d.bias", kInner, 0);
    Tensor(layer + "ssm_x.weight", kInner, kRank + 2 * kState);
    Tensor(layer + "ssm_dt.weight", kRank, kInner);
    Tensor(layer + "ssm_dt.bias", kInner, 0);
    Tensor(layer + "ssm_a", kState, kInner, -1.0F);
    Norm(layer + "ssm_d", kInner);
    Tensor(layer + "ssm_out.weight", kInner, kTinyEmbedding);
  }

  void AddRecurrentLayers() {
    constexpr uint32_t kLayers = 2;
    Set("block_count", kLayers);
    Set("feed_forward_length", 0);
    Set("attention.head_count", 0);
    SetStateSpace();
    for (uint32_t i = 0; i < kLayers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      Norm(layer + "attn_norm.weight", kTinyEmbedding);
      StateSpace(layer);
    }
  }

  // One layer with a recurrent state, one with attention.
  void AddHybridLayers() {
    const int32_t heads_kv[] = {0, 1};
    Set("block_count", 2);
    Set("feed_forward_length", 128);
    Set("attention.head_count", 2);
    if (options_.says_no_rope) Set("rope.dimension_count", 0);
    gguf_set_arr_data(gguf_.get(), (fitting_ + ".attention.head_count_kv").c_str(), GGUF_TYPE_INT32,
                      heads_kv, 2);
    SetStateSpace();
    for (uint32_t i = 0; i < 2; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      Norm(layer + "attn_norm.weight", kTinyEmbedding);
      if (i == 0) {
        StateSpace(layer);
        Norm(layer + "ssm_dt_norm.weight", kRank);
        Norm(layer + "ssm_b_norm.weight", kState);
        Norm(layer + "ssm_c_norm.weight", kState);
      } else {
        Attention(layer, 32);
      }
      FeedForward(layer);
    }
  }

  static std::string Utf8(uint32_t point) {
    if (point < 0x80) return std::string(1, static_cast<char>(point));
    return {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
  }

  void Norm(const std::string& name, int64_t size) {
    ggml_tensor* tensor = New(name, size, 0);
    for (int64_t i = 0; i < size; ++i)
      static_cast<float*>(tensor->data)[i] = 1.0F;
  }

  // Uniform in [-scale, scale]; a negative scale: -|x| - small, for decay rates.
  void Tensor(const std::string& name, int64_t columns, int64_t rows, float scale = 0.3F) {
    ggml_tensor* tensor = New(name, columns, rows);
    for (int64_t i = 0; i < columns * std::max<int64_t>(rows, 1); ++i) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      const float x = static_cast<float>(state_ >> 40) / static_cast<float>(1 << 23) - 1.0F;
      static_cast<float*>(tensor->data)[i] = scale < 0 ? -std::abs(x) - 0.1F : x * scale;
    }
  }

  ggml_tensor* New(const std::string& name, int64_t columns, int64_t rows) {
    ggml_tensor* tensor = rows > 0 ? ggml_new_tensor_2d(ggml_.get(), GGML_TYPE_F32, columns, rows)
                                   : ggml_new_tensor_1d(ggml_.get(), GGML_TYPE_F32, columns);
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(gguf_.get(), tensor);
    return tensor;
  }

  struct FreeGgml {
    void operator()(ggml_context* context) const { ggml_free(context); }
  };
  TinyModelOptions options_;
  std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf_;
  std::unique_ptr<ggml_context, FreeGgml> ggml_;
  std::string fitting_;
  int64_t vocabulary_ = 0;
  uint64_t state_;
};

inline std::string WriteTinyModel(const TempDir& folder, const TinyModelOptions& options,
                                  const std::string& name = "tiny.gguf") {
  TinyModelWriter(options).Write(folder.File(name));
  return folder.File(name);
}

}  // namespace tenuto
