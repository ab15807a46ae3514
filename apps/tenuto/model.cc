#include "model.h"

#include <algorithm>

#include "engine/fake/executor.h"
#ifdef TENUTO_HAVE_LLAMA
#include "engine/embedded/llama/executor.h"
#include "engine/embedded/llama/library.h"
#endif

namespace tenuto {
namespace {

// Live sequences: running turns, idle residents and requests without a session. More idle ones than
// this are swapped out; ids cost nothing by themselves.
constexpr int32_t kIdleSequences = 24;

int32_t Sequences(int32_t running_max) {
  return std::min(running_max + kIdleSequences, kSequencesMax - 1);
}

std::unique_ptr<Executor> OpenFake(const ServeConfig& config, int32_t running_max) {
  FakeExecutorSettings settings;
  settings.window = config.window > 0 ? config.window : settings.window;
  settings.cells = config.ctx_size > 0 ? config.ctx_size : settings.window * 3 / 2;
  settings.sequences = Sequences(running_max);
  settings.config = config.cache_type_k + "/" + config.cache_type_v;
  settings.kv_bytes_per_token = 256;
  return std::make_unique<FakeExecutor>(settings);
}

}  // namespace

#ifdef TENUTO_HAVE_LLAMA

namespace {

FlashAttention FlashAttentionOf(FlashAttentionChoice choice) {
  switch (choice) {
    case FlashAttentionChoice::kOn:
      return FlashAttention::kOn;
    case FlashAttentionChoice::kOff:
      return FlashAttention::kOff;
    case FlashAttentionChoice::kAuto:
      return FlashAttention::kAuto;
  }
  return FlashAttention::kAuto;
}

}  // namespace

Status CheckModelFiles(const ServeConfig& config) {
  return config.fake_executor ? Ok() : CheckLlamaFiles(config.model);
}

Status CheckModel(const ServeConfig& config) {
  return config.fake_executor ? Ok() : CheckLlamaModel(config.model);
}

Result<std::unique_ptr<Executor>> OpenExecutor(const ServeConfig& config, int32_t running_max,
                                               const std::string& cache_dir) {
  if (config.fake_executor) return OpenFake(config, running_max);
  LlamaSettings settings;
  settings.model_path = config.model;
  settings.cells = config.ctx_size;
  settings.sequences = Sequences(running_max);
  settings.threads = config.threads;
  settings.threads_batch = config.threads_batch;
  settings.ubatch_tokens = config.ubatch_size;
  settings.batch_tokens_max = std::max(config.ubatch_size, running_max);
  // One sampled token for each running turn; verify probes a few positions of one batch.
  settings.outputs_max = std::max(running_max, 8);
  settings.flash_attention = FlashAttentionOf(config.flash_attn);
  settings.type_k = config.cache_type_k;
  settings.type_v = config.cache_type_v;
  settings.gpu_layers = config.n_gpu_layers;
  settings.chat_template = config.chat_template;
  settings.cache_dir = cache_dir;
  TENUTO_ASSIGN(auto executor, LlamaExecutor::Open(settings));
  return std::unique_ptr<Executor>(std::move(executor));
}

bool HasGpu() {
  return LlamaHasGpu();
}

std::string ExecutorVersion() {
  return LlamaLibraryVersion();
}

#else

Status CheckModelFiles(const ServeConfig& config) {
  return CheckModel(config);
}

Status CheckModel(const ServeConfig& config) {
  if (config.fake_executor) return Ok();
  return Error(
      Code::kInvalid,
      "this build has no libllama in it (TENUTO_LLAMA=OFF): it can't load " + config.model);
}

Result<std::unique_ptr<Executor>> OpenExecutor(const ServeConfig& config, int32_t running_max,
                                               const std::string& /*cache_dir*/) {
  TENUTO_TRY(CheckModel(config));
  return OpenFake(config, running_max);
}

bool HasGpu() {
  return false;
}

std::string ExecutorVersion() {
  return "none";
}

#endif

int32_t WindowTokens(const ServeConfig& config, const EngineInfo& info) {
  // A third of the cells is left for the next window to be prepared beside the present one.
  const int32_t fits = config.window > 0 ? info.cells : info.cells * 2 / 3;
  const int32_t wanted =
      config.window > 0 ? std::min(config.window, info.model_window) : info.model_window;
  return std::max(2, std::min(wanted, fits));
}

}  // namespace tenuto
