// What the decide_* programs share: bare libllama (no code of ours), a clock, JSON lines. With one
// thread CPU time, which other programs disturb least; with more the time on the wall.
#pragma once

#include <llama.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace tenuto::bench {

inline double NowMs(int threads = 1) {
  timespec now = {};
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

[[noreturn]] inline void Die(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

struct Setup {
  bool flash_attention = false;
  bool unified = true;
  int cells = 0;
  int sequences = 1;
  int threads = 1;
};

// A model and a context; tokens are drawn, for speed does not depend on them.
class Subject {
 public:
  explicit Subject(const char* path) {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    llama_backend_init();
    model_.reset(llama_model_load_from_file(path, llama_model_default_params()));
    if (!model_) Die("the model can't be loaded");
    vocabulary_ = llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
  }

  void Open(const Setup& setup) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(setup.cells);
    params.n_batch = 512;
    params.n_ubatch = 512;
    params.n_seq_max = static_cast<uint32_t>(setup.sequences);
    params.n_outputs_max = static_cast<uint32_t>(std::max(setup.sequences, 8));
    params.n_threads = setup.threads;
    params.n_threads_batch = setup.threads;
    threads_ = setup.threads;
    params.flash_attn_type =
        setup.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.kv_unified = setup.unified;
    context_.reset();
    context_.reset(llama_init_from_model(model_.get(), params));
    if (!context_) Die("the context can't be made");
    lengths_.assign(static_cast<size_t>(setup.sequences), 0);
  }

  // Adds `count` tokens to a sequence in batches of 512; milliseconds.
  double Prefill(int sequence, int count) {
    const double start = NowMs(threads_);
    for (int left = count; left > 0;) {
      const int part = std::min(left, 512);
      Step(std::vector<int>(static_cast<size_t>(part), sequence));
      left -= part;
    }
    return NowMs(threads_) - start;
  }

  // A batch of `count` tokens behind what the sequence holds, taken away again; median
  // milliseconds of `rounds`.
  double Turn(int sequence, int count, int rounds) {
    std::vector<double> times;
    const int before = lengths_[static_cast<size_t>(sequence)];
    for (int i = 0; i < rounds; ++i) {
      times.push_back(Prefill(sequence, count));
      llama_memory_seq_rm(llama_get_memory(context_.get()), sequence, before, -1);
      lengths_[static_cast<size_t>(sequence)] = before;
    }
    return Median(times);
  }

  // One token for each of these sequences in one batch; median milliseconds of `rounds`.
  double Decode(const std::vector<int>& sequences, int rounds) {
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
      const double start = NowMs(threads_);
      Step(sequences);
      times.push_back(NowMs(threads_) - start);
    }
    return Median(times);
  }

 private:
  struct FreeModel {
    void operator()(llama_model* model) const { llama_model_free(model); }
  };
  struct FreeContext {
    void operator()(llama_context* context) const { llama_free(context); }
  };

  // The last token of each sequence in the batch gives logits.
  void Step(const std::vector<int>& sequences) {
    llama_batch batch = llama_batch_init(static_cast<int32_t>(sequences.size()), 0, 1);
    batch.n_tokens = static_cast<int32_t>(sequences.size());
    for (size_t i = 0; i < sequences.size(); ++i) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      batch.token[i] =
          static_cast<llama_token>((state_ >> 33) % static_cast<uint64_t>(vocabulary_));
      batch.pos[i] = lengths_[static_cast<size_t>(sequences[i])]++;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = sequences[i];
      batch.logits[i] = i + 1 == sequences.size() || sequences[i + 1] != sequences[i] ? 1 : 0;
    }
    const int32_t code = llama_decode(context_.get(), batch);
    llama_synchronize(context_.get());
    llama_batch_free(batch);
    if (code != 0) Die("a forward pass failed");
  }

  std::unique_ptr<llama_model, FreeModel> model_;
  std::unique_ptr<llama_context, FreeContext> context_;
  std::vector<int> lengths_;
  int32_t vocabulary_ = 0;
  int threads_ = 1;
  uint64_t state_ = 1;
};

}  // namespace tenuto::bench
