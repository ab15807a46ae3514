// LlamaExecutor::Open: settings -> model -> context -> what this library and model can do ->
// EngineInfo.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "engine/embedded/llama/fingerprint.h"
#include "engine/embedded/llama/gguf_check.h"
#include "engine/embedded/llama/model_file.h"
#include "engine/embedded/llama/parts.h"

namespace tenuto {
namespace {

struct CacheType {
  std::string_view name;
  ggml_type type;
  bool quantised;
};
constexpr std::array<CacheType, 9> kCacheTypes = {{
    {"f32", GGML_TYPE_F32, false},
    {"f16", GGML_TYPE_F16, false},
    {"bf16", GGML_TYPE_BF16, false},
    {"q8_0", GGML_TYPE_Q8_0, true},
    {"q4_0", GGML_TYPE_Q4_0, true},
    {"q4_1", GGML_TYPE_Q4_1, true},
    {"iq4_nl", GGML_TYPE_IQ4_NL, true},
    {"q5_0", GGML_TYPE_Q5_0, true},
    {"q5_1", GGML_TYPE_Q5_1, true},
}};

constexpr int32_t kProbeTokens = 3;
constexpr int32_t kCellsGrain = 256;

Result<CacheType> ParseCacheType(const std::string& name, const char* flag) {
  for (const CacheType& type : kCacheTypes) {
    if (type.name == name) return type;
  }
  return Error(Code::kInvalid,
               "a KV cache type is one of " + LlamaCacheTypeNames() + ", not '" + name + "'")
      .At(flag);
}

int32_t AllowedProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(count, 1);
}

// What can be taken without swapping, page cache included (a mapped model fills it): MemAvailable
// of the kernel.
double AvailableMemoryBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  double kib = 0;
  std::string unit;
  while (meminfo >> name >> kib) {
    std::getline(meminfo, unit);
    if (name == "MemAvailable:") return kib * static_cast<double>(kKiB);
  }
  return static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string MetaValue(const llama_model* model, const std::string& key) {
  std::string value(256, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int32_t size = llama_model_meta_val_str(model, key.c_str(), value.data(), value.size());
    if (size < 0) return "";
    const auto needed = static_cast<size_t>(size);
    if (needed < value.size()) {
      value.resize(needed);
      return value;
    }
    value.assign(needed + 1, '\0');
  }
  return "";
}

Result<LlamaModelHandle> Load(const std::string& path, const llama_model_params& params) {
  const LlamaErrorCapture capture;
  LlamaModelHandle model(llama_model_load_from_file(path.c_str(), params));
  if (model) return model;
  return Error(Code::kInvalid,
               "can't load " + path + ": " + capture.Reason("libllama gave no reason"));
}

// Rotating 0 numbers of a head never ends. Architectures that rotate none may say so.
Status CheckRotated(const llama_model* model, const std::string& path) {
  if (llama_model_rope_type(model) == LLAMA_ROPE_TYPE_NONE) return Ok();
  const std::string prefix = MetaValue(model, "general.architecture") + ".rope.dimension_count";
  for (const std::string& key : {prefix, prefix + "_swa"}) {
    if (MetaValue(model, key) != "0") continue;
    return Error(Code::kInvalid, "can't use " + path + ": its setting " + key +
                                     " is 0, with which no token would ever be computed");
  }
  return Ok();
}

}  // namespace

Status CheckLlamaFiles(const std::string& model_path) {
  for (const std::string& file : ModelFiles(model_path))
    TENUTO_TRY(CheckGgufFile(file));
  return Ok();
}

Status CheckLlamaModel(const std::string& model_path) {
  TENUTO_TRY(StartLlamaLibrary());
  TENUTO_TRY(CheckLlamaFiles(model_path));
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.vocab_only = true;
  const LlamaAssertionsThrow guard;
  TENUTO_ASSIGN(const LlamaModelHandle model, Load(model_path, params));
  return CheckRotated(model.get(), model_path);
}

// Builds the parts one after the other; each step is one method.
class LlamaOpener {
 public:
  explicit LlamaOpener(const LlamaSettings& settings)
      : parts_(std::make_unique<LlamaExecutor::Parts>()) {
    parts_->settings = settings;
  }

  Result<std::unique_ptr<LlamaExecutor>> Open() {
    TENUTO_TRY(CheckSettings());
    TENUTO_TRY(CheckLlamaFiles(parts_->settings.model_path));
    try {
      const LlamaAssertionsThrow guard;
      TENUTO_TRY(LoadModel());
      TENUTO_TRY(MakeContext());
      TENUTO_TRY(ProbeState());
      FillInfo();
      TENUTO_TRY(FillFingerprint());
    } catch (const std::exception& thrown) {  // out of the C API
      return Error(Code::kInvalid,
                   "can't use " + parts_->settings.model_path + ": " + thrown.what());
    }
    return std::unique_ptr<LlamaExecutor>(new LlamaExecutor(std::move(parts_)));
  }

 private:
  Status CheckSettings() {
    LlamaSettings& s = parts_->settings;
    TENUTO_TRY(StartLlamaLibrary());
    if (s.model_path.empty()) return Error(Code::kInvalid, "no model file was given").At("model");
    if (s.sequences < 1 || s.sequences > kSequencesMax - 1) {
      return Error(Code::kInvalid,
                   "the number of sequences must be 1 to " + std::to_string(kSequencesMax - 1));
    }
    if (s.batch_tokens_max < 1 || s.ubatch_tokens < 1 || s.outputs_max < 1) {
      return Error(Code::kInvalid, "the batch, ubatch and outputs sizes must be at least 1");
    }
    if (s.cells < 0)
      return Error(Code::kInvalid, "the number of KV cells can't be negative").At("ctx-size");
    s.ubatch_tokens = std::min(s.ubatch_tokens, s.batch_tokens_max);
    if (s.threads <= 0) s.threads = AllowedProcessors();
    TENUTO_ASSIGN(type_k_, ParseCacheType(s.type_k, "ctk"));
    TENUTO_ASSIGN(type_v_, ParseCacheType(s.type_v, "ctv"));
    if (s.flash_attention == FlashAttention::kAuto) {
      const bool on_gpu = s.gpu_layers != 0 && llama_supports_gpu_offload();
      s.flash_attention = on_gpu || type_v_.quantised ? FlashAttention::kOn : FlashAttention::kOff;
    }
    if (type_v_.quantised && s.flash_attention == FlashAttention::kOff) {
      return Error(Code::kInvalid, "a quantised V cache (-ctv " + s.type_v +
                                       ") needs flash attention; use -fa on, or -ctv f16")
          .At("ctv");
    }
    return Ok();
  }

  Status LoadModel() {
    const LlamaSettings& s = parts_->settings;
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = s.gpu_layers;
    if (llama_supports_mmap()) params.load_mode = LLAMA_LOAD_MODE_MMAP;
    TENUTO_ASSIGN(parts_->model, Load(s.model_path, params));
    llama_model* model = parts_->model.get();
    parts_->vocab = llama_model_get_vocab(model);
    const bool generates = llama_model_has_decoder(model) && !llama_model_has_encoder(model) &&
                           !llama_model_is_diffusion(model) &&
                           llama_vocab_type(parts_->vocab) != LLAMA_VOCAB_TYPE_NONE;
    if (!generates) {
      return Error(Code::kInvalid, "can't use " + s.model_path +
                                       ": it is not a model that continues a text token by token");
    }
    TENUTO_TRY(CheckRotated(model, s.model_path));
    parts_->sliding_window = llama_model_n_swa(model);
    parts_->recurrent = llama_model_is_recurrent(model) || llama_model_is_hybrid(model);
    const char* own = llama_model_chat_template(model, nullptr);
    TENUTO_ASSIGN(parts_->chat_template,
                  LlamaChatTemplate::Choose(s.chat_template, own == nullptr ? "" : own));
    return Ok();
  }

  // Near enough for a default; the real figure is known once there is a context.
  double CellBytesEstimate() const {
    const llama_model* model = parts_->model.get();
    const auto heads = std::max<int64_t>(llama_model_n_head(model), 1);
    const int64_t row =
        int64_t{llama_model_n_embd(model)} / heads * std::max(llama_model_n_head_kv(model), 1);
    double element_bytes = 0;
    for (const ggml_type type : {type_k_.type, type_v_.type}) {
      element_bytes +=
          static_cast<double>(ggml_type_size(type)) / static_cast<double>(ggml_blck_size(type));
    }
    return std::max(static_cast<double>(row * llama_model_n_layer(model)) * element_bytes, 1.0);
  }

  // One and a half windows, or what a quarter of the memory that is available now holds.
  int32_t DefaultCells() const {
    const double fit = AvailableMemoryBytes() / 4 / CellBytesEstimate();
    const double wished = 1.5 * llama_model_n_ctx_train(parts_->model.get());
    const auto cells =
        static_cast<int32_t>(std::clamp(std::min(wished, fit), double{kCellsGrain}, 1e9));
    return cells / kCellsGrain * kCellsGrain;
  }

  // Linux promises memory that it does not have, and a process that then uses it is killed without
  // a word.
  Status CheckCellsFit() const {
    const double needed = parts_->settings.cells * CellBytesEstimate();
    const double available = AvailableMemoryBytes();
    if (parts_->settings.gpu_layers != 0 || needed <= available) return Ok();
    char numbers[80];
    std::snprintf(numbers, sizeof numbers, "%.0f MiB, %.0f MiB are available",
                  needed / static_cast<double>(kMiB), available / static_cast<double>(kMiB));
    return Error(Code::kExhausted,
                 "KV cells for -c " + std::to_string(parts_->settings.cells) + " need " + numbers)
        .At("ctx-size");
  }

  // A head's row of a quantised cache is made of whole blocks. libllama says so with flash
  // attention only, as a lack of room, and fails an assertion without.
  Status CheckBlocks() const {
    const llama_model* model = parts_->model.get();
    const int32_t heads = std::max(llama_model_n_head(model), 1);
    const std::string architecture = MetaValue(model, "general.architecture");
    const auto check = [&](const CacheType& type, const char* key, const char* flag) -> Status {
      const std::string given = MetaValue(model, architecture + ".attention." + key);
      const int64_t size = given.empty() ? int64_t{llama_model_n_embd(model)} / heads
                                         : std::strtoll(given.c_str(), nullptr, 10);
      const int64_t block = ggml_blck_size(type.type);
      if (size % block == 0) return Ok();
      return Error(Code::kInvalid, "can't use " + parts_->settings.model_path + " with -" + flag +
                                       " " + std::string(type.name) + ": its heads of " +
                                       std::to_string(size) + " numbers are no whole blocks of " +
                                       std::to_string(block) + "; use -" + flag + " f16")
          .At(flag);
    };
    TENUTO_TRY(check(type_k_, "key_length", "ctk"));
    return check(type_v_, "value_length", "ctv");
  }

  Status MakeContext() {
    LlamaSettings& s = parts_->settings;
    // Fewer than libllama rounds up to make its batches smaller than the probe: it aborts then.
    s.cells = s.cells == 0 ? DefaultCells() : std::max(s.cells, kCellsGrain);
    TENUTO_TRY(CheckCellsFit());
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(s.cells);
    params.n_batch = static_cast<uint32_t>(std::max(s.batch_tokens_max, kProbeTokens));
    params.n_ubatch = static_cast<uint32_t>(s.ubatch_tokens);
    params.n_seq_max = static_cast<uint32_t>(s.sequences) + 1;
    // libllama aborts when it may not put out one row for each sequence.
    params.n_outputs_max = static_cast<uint32_t>(std::max(s.outputs_max, s.sequences + 1));
    params.n_threads = s.threads;
    params.n_threads_batch = s.threads_batch > 0 ? s.threads_batch : s.threads;
    params.flash_attn_type = s.flash_attention == FlashAttention::kOn
                                 ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                 : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = type_k_.type;
    params.type_v = type_v_.type;
    params.kv_unified = true;
    params.swa_full = s.swa_full;
    params.no_perf = true;
    TENUTO_TRY(CheckBlocks());
    const LlamaErrorCapture capture;
    parts_->context.reset(llama_init_from_model(parts_->model.get(), params));
    if (!parts_->context) {
      return Error(Code::kExhausted, "can't make room for " + std::to_string(s.cells) +
                                         " KV cells of " + s.model_path + ": " +
                                         capture.Reason("libllama gave no reason"));
    }
    llama_context* context = parts_->context.get();
    parts_->memory = llama_get_memory(context);
    if (parts_->memory == nullptr) {
      return Error(Code::kInvalid,
                   "can't use " + s.model_path + ": it keeps no state between tokens");
    }
    s.batch_tokens_max = static_cast<int32_t>(llama_n_batch(context));
    parts_->scratch = s.sequences;
    parts_->info.cells = static_cast<int32_t>(llama_n_ctx(context));
    parts_->ledger = CellLedger(parts_->info.cells, s.sequences);
    return Ok();
  }

  // Runs a few tokens and looks at the state that libllama makes of them.
  Status ProbeState() {
    LlamaExecutor::Parts& p = *parts_;
    p.batch.Resize(kProbeTokens);
    for (int32_t i = 0; i < kProbeTokens; ++i) {
      const auto at = static_cast<size_t>(i);
      p.batch.tokens[at] = std::min(i, llama_vocab_n_tokens(p.vocab) - 1);
      p.batch.positions[at] = i;
      p.batch.sequences[at] = p.scratch;
      p.batch.outputs[at] = i + 1 == kProbeTokens ? 1 : 0;
    }
    const LlamaErrorCapture capture;
    if (const int32_t code = llama_decode(p.context.get(), p.batch.View()); code != 0) {
      return Error(Code::kIo, "a first forward pass of " + p.settings.model_path + " failed: " +
                                  capture.Reason("libllama's code " + std::to_string(code)));
    }
    std::vector<std::byte> state(llama_state_seq_get_size(p.context.get(), p.scratch));
    const size_t written = llama_state_seq_get_data(
        p.context.get(), reinterpret_cast<uint8_t*>(state.data()), state.size(), p.scratch);
    llama_memory_clear(p.memory, true);
    state.resize(std::min(written, state.size()));
    p.info.range_export = false;
    p.info.kv_bytes_per_token = static_cast<size_t>(CellBytesEstimate());
    if (p.recurrent || p.sliding_window > 0) return Ok();
    auto layout = LearnStateLayout(state, kProbeTokens);
    if (!layout) {
      Log(LogLevel::kWarn, "llama.no_range_export",
          {{"model", p.settings.model_path}, {"why", layout.error().message()}});
      return Ok();
    }
    p.layout = std::move(layout).value();
    p.info.range_export = true;
    p.info.kv_bytes_per_token = p.layout.BytesPerCell();
    return Ok();
  }

  void FillInfo() {
    const llama_model* model = parts_->model.get();
    EngineInfo& info = parts_->info;
    info.model_path = parts_->settings.model_path;
    info.model_name = MetaValue(model, "general.name");
    if (info.model_name.empty()) {
      const size_t slash = info.model_path.rfind('/');
      info.model_name = info.model_path.substr(slash == std::string::npos ? 0 : slash + 1);
      if (info.model_name.ends_with(".gguf")) info.model_name.resize(info.model_name.size() - 5);
    }
    info.model_parameters = static_cast<int64_t>(llama_model_n_params(model));
    info.model_bytes = static_cast<int64_t>(llama_model_size(model));
    info.vocabulary_size = llama_vocab_n_tokens(parts_->vocab);
    info.model_window = llama_model_n_ctx_train(model);
    info.sequences = parts_->settings.sequences;
    info.codec = PieceCodec::kLlamaSeqState;
    info.default_system = parts_->chat_template.default_system();
    for (TokenId token = 0; token < info.vocabulary_size; ++token) {
      const int32_t bytes = llama_token_to_piece(parts_->vocab, token, nullptr, 0, 0, true);
      info.token_bytes_max = std::max(info.token_bytes_max, bytes < 0 ? -bytes : bytes);
    }
    if (!parts_->chat_template.usable()) {
      Log(LogLevel::kWarn, "llama.no_chat_template",
          {{"model", info.model_path},
           {"hint", "--chat-template takes one of " + BuiltInTemplateNames()}});
    }
  }

  Status FillFingerprint() {
    const LlamaSettings& s = parts_->settings;
    FingerprintFacts facts = ModelFacts(parts_->model.get());
    TENUTO_ASSIGN(facts.weights, WeightsDigest(s.model_path, s.cache_dir));
    facts.type_k = s.type_k;
    facts.type_v = s.type_v;
    facts.flash_attention = s.flash_attention == FlashAttention::kOn;
    facts.swa_full = s.swa_full;
    facts.layout = parts_->info.range_export ? parts_->layout.Describe() : "unknown";
    EngineInfo& info = parts_->info;
    info.vocabulary = VocabularyDigest(parts_->vocab);
    facts.vocabulary = info.vocabulary;
    info.fingerprint_text = FingerprintText(facts);
    info.fingerprint = Sha256Of(info.fingerprint_text);
    return Ok();
  }

  std::unique_ptr<LlamaExecutor::Parts> parts_;
  CacheType type_k_ = kCacheTypes[1];
  CacheType type_v_ = kCacheTypes[1];
};

Result<FlashAttention> ParseFlashAttention(std::string_view text) {
  if (text == "off" || text == "0") return FlashAttention::kOff;
  if (text == "on" || text == "1") return FlashAttention::kOn;
  if (text == "auto") return FlashAttention::kAuto;
  return Error(Code::kInvalid,
               "flash attention is on, off or auto, not '" + std::string(text) + "'")
      .At("fa");
}

std::string LlamaCacheTypeNames() {
  std::string names;
  for (const CacheType& type : kCacheTypes)
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

Result<std::unique_ptr<LlamaExecutor>> LlamaExecutor::Open(const LlamaSettings& settings) {
  return LlamaOpener(settings).Open();
}

}  // namespace tenuto
