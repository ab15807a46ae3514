// The baseline of the engine's figures: plain libllama, no code of ours in the loop. JSON, one
// object a line, on standard output. One thread beside libllama's own.
//
//   bare_llama MODE -m FILE [-c N] [--batch N] [--ubatch N] [--sequences N] [--outputs N] [-t N]
//              [--fa on|off] [--tokens N]
//
// facts     what the model is; no context is made.
// parallel  reads prompts from standard input, a line of token ids each; forwards them and then
//           decodes --tokens of each, one token of every sequence a step, greedily. Only the steps
//           in which all decode are timed.
// decode    reads lines "on|off DEPTH STEPS" and answers each: milliseconds a token at that depth,
//           one sequence. A context for each kind of flash attention is kept from line to line.
// memory    forwards eight sequences of --tokens and one step of all: libllama's buffers, as its
// own
//           log names them, and what is resident, after loading the model and at the end.
#include <llama.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct FreeModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
using ModelPtr = std::unique_ptr<llama_model, FreeModel>;
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;
using Tokens = std::vector<llama_token>;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "bare_llama: %s\n", what.c_str());
  std::exit(1);
}

double NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Arguments as "--name value"; the first is the mode.
class Options {
 public:
  Options(int argc, char** argv) {
    if (argc < 2) Die("a mode is needed: facts, parallel, decode or memory");
    mode = argv[1];
    for (int i = 2; i + 1 < argc; i += 2)
      values_[argv[i]] = argv[i + 1];
    if (argc % 2 != 0) Die(std::string(argv[argc - 1]) + " has no value");
  }
  std::string Text(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  int Number(const std::string& name, int otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : std::atoi(found->second.c_str());
  }

  std::string mode;

 private:
  std::map<std::string, std::string> values_;
};

// What libllama logged: the sizes of its buffers are told nowhere else.
std::string& LogText() {
  static std::string text;
  return text;
}

void KeepLog(ggml_log_level /*level*/, const char* text, void* /*data*/) {
  LogText() += text;
}

ModelPtr LoadModel(const Options& options) {
  llama_log_set(KeepLog, nullptr);
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  if (llama_supports_mmap()) params.load_mode = LLAMA_LOAD_MODE_MMAP;
  ModelPtr model(llama_model_load_from_file(options.Text("-m", "").c_str(), params));
  if (!model) Die("can't load the model:\n" + LogText());
  return model;
}

// Names and defaults are those of tenuto serve -c 8192 -np 8; bench/run passes what it started the
// server with.
ContextPtr MakeContext(llama_model* model, const Options& options, bool flash_attention) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.Number("-c", 8192));
  params.n_batch = static_cast<uint32_t>(options.Number("--batch", 512));
  params.n_ubatch = static_cast<uint32_t>(options.Number("--ubatch", 512));
  params.n_seq_max = static_cast<uint32_t>(options.Number("--sequences", 33));
  params.n_outputs_max = static_cast<uint32_t>(options.Number("--outputs", 33));
  params.n_threads = options.Number("-t", 2);
  params.n_threads_batch = params.n_threads;
  params.flash_attn_type =
      flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.kv_unified = true;
  params.swa_full = true;
  params.no_perf = true;
  ContextPtr context(llama_init_from_model(model, params));
  if (!context) Die("can't make the context:\n" + LogText());
  return context;
}

// A batch that keeps its memory.
class Step {
 public:
  explicit Step(int tokens_max) : batch_(llama_batch_init(tokens_max, 0, 1)), max_(tokens_max) {}
  ~Step() { llama_batch_free(batch_); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  void Clear() { batch_.n_tokens = 0; }
  void Add(llama_token token, int position, int sequence, bool output) {
    if (batch_.n_tokens >= max_) Die("a batch is too long");
    const int i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = sequence;
    batch_.logits[i] = output ? 1 : 0;
  }
  void Run(llama_context* context) {
    if (const int code = llama_decode(context, batch_); code != 0)
      Die("llama_decode says " + std::to_string(code));
    llama_synchronize(context);
  }

 private:
  llama_batch batch_;
  int max_;
};

llama_token Greedy(llama_context* context, int output, int vocabulary) {
  const float* logits = llama_get_logits_ith(context, output);
  if (logits == nullptr) Die("no logits");
  return static_cast<llama_token>(std::max_element(logits, logits + vocabulary) - logits);
}

int Vocabulary(const llama_model* model) {
  return llama_vocab_n_tokens(llama_model_get_vocab(model));
}

// Tokens that a text could have; speed does not depend on which.
llama_token AnyToken(int i, int vocabulary) {
  return 1000 + i * 7919 % std::max(1, vocabulary - 1000);
}

// Forwards tokens in batches; the last one's logits are computed.
void Prefill(llama_context* context, const Tokens& tokens, int position, int sequence) {
  const int batch = static_cast<int>(llama_n_batch(context));
  Step step(batch);
  for (size_t done = 0; done < tokens.size();) {
    step.Clear();
    for (int i = 0; i < batch && done < tokens.size(); ++i, ++done)
      step.Add(tokens[done], position++, sequence, done + 1 == tokens.size());
    step.Run(context);
  }
}

int RunFacts(const Options& options) {
  const ModelPtr model = LoadModel(options);
  const int layers = llama_model_n_layer(model.get());
  const int row = llama_model_n_embd(model.get()) / std::max(1, llama_model_n_head(model.get())) *
                  llama_model_n_head_kv(model.get());
  std::printf(
      "{\"layers\":%d,\"kv_row\":%d,\"kv_bytes_per_token\":%d,\"weights_bytes\":%llu,"
      "\"vocabulary\":%d,\"window\":%d}\n",
      layers, row, layers * row * 2 * 2,
      static_cast<unsigned long long>(llama_model_size(model.get())), Vocabulary(model.get()),
      llama_model_n_ctx_train(model.get()));
  return 0;
}

std::vector<Tokens> ReadPrompts() {
  std::vector<Tokens> prompts;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    Tokens tokens;
    for (llama_token token = 0; words >> token;)
      tokens.push_back(token);
    if (!tokens.empty()) prompts.push_back(std::move(tokens));
  }
  return prompts;
}

void PrintAnswers(const std::vector<Tokens>& answers) {
  std::printf("\"answers\":[");
  for (size_t s = 0; s < answers.size(); ++s) {
    std::printf("%s[", s == 0 ? "" : ",");
    for (size_t i = 0; i < answers[s].size(); ++i)
      std::printf("%s%d", i == 0 ? "" : ",", answers[s][i]);
    std::printf("]");
  }
  std::printf("]");
}

int RunParallel(const Options& options) {
  const ModelPtr model = LoadModel(options);
  const ContextPtr context = MakeContext(model.get(), options, options.Text("--fa", "off") == "on");
  const std::vector<Tokens> prompts = ReadPrompts();
  if (prompts.empty()) Die("no prompts on standard input");
  const int vocabulary = Vocabulary(model.get());
  const int count = static_cast<int>(prompts.size());
  const int tokens = options.Number("--tokens", 64);
  std::vector<Tokens> answers(prompts.size());
  std::vector<int> positions;
  for (int s = 0; s < count; ++s) {
    const Tokens& prompt = prompts[static_cast<size_t>(s)];
    Prefill(context.get(), prompt, 0, s);
    answers[static_cast<size_t>(s)].push_back(Greedy(context.get(), -1, vocabulary));
    positions.push_back(static_cast<int>(prompt.size()));
  }
  Step step(count);
  std::vector<double> times;
  const double begun = NowMs();
  for (int i = 1; i < tokens; ++i) {
    const double step_begun = NowMs();
    step.Clear();
    for (int s = 0; s < count; ++s)
      step.Add(answers[static_cast<size_t>(s)].back(), positions[static_cast<size_t>(s)]++, s,
               true);
    step.Run(context.get());
    for (int s = 0; s < count; ++s)
      answers[static_cast<size_t>(s)].push_back(Greedy(context.get(), s, vocabulary));
    times.push_back(NowMs() - step_begun);
  }
  const double total_ms = NowMs() - begun;
  std::printf("{\"sequences\":%d,\"tokens_per_s\":%.3f,\"step_ms_p50\":%.4f,", count,
              count * (tokens - 1) / total_ms * 1e3, Median(times));
  PrintAnswers(answers);
  std::printf("}\n");
  return 0;
}

// One context of the decode mode and how deep its only sequence is.
struct DepthContext {
  ContextPtr context;
  int depth = 0;
};

void GoTo(DepthContext& at, int depth, int vocabulary) {
  llama_memory_t memory = llama_get_memory(at.context.get());
  if (at.depth > depth) llama_memory_seq_rm(memory, 0, depth, -1);
  at.depth = std::min(at.depth, depth);
  Tokens missing;
  for (int i = at.depth; i < depth; ++i)
    missing.push_back(AnyToken(i, vocabulary));
  if (!missing.empty()) Prefill(at.context.get(), missing, at.depth, 0);
  at.depth = depth;
}

int RunDecode(const Options& options) {
  const ModelPtr model = LoadModel(options);
  const int vocabulary = Vocabulary(model.get());
  std::map<std::string, DepthContext> contexts;
  Step step(1);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind;
    int depth = 0;
    int steps = 0;
    if (!(words >> kind >> depth >> steps) || depth < 1 || steps < 1)
      Die("a line must be: on|off DEPTH STEPS");
    DepthContext& at = contexts[kind];
    if (!at.context) at.context = MakeContext(model.get(), options, kind == "on");
    GoTo(at, depth, vocabulary);
    llama_token token = AnyToken(depth, vocabulary);
    std::vector<double> times;
    const double begun = NowMs();
    for (int i = 0; i < steps; ++i) {
      const double step_begun = NowMs();
      step.Clear();
      step.Add(token, at.depth++, 0, true);
      step.Run(at.context.get());
      token = Greedy(at.context.get(), 0, vocabulary);
      times.push_back(NowMs() - step_begun);
    }
    std::printf("{\"fa\":\"%s\",\"depth\":%d,\"ms_per_token\":%.4f,\"step_ms_p50\":%.4f}\n",
                kind.c_str(), depth, (NowMs() - begun) / steps, Median(times));
    std::fflush(stdout);
  }
  return 0;
}

// "...  CPU KV buffer size =   180.00 MiB" -> its kind and size. Lines without a size: false.
bool ReadBufferLine(const std::string& line, std::string& kind, double& mib) {
  const size_t at = line.find(" buffer size = ");
  if (at == std::string::npos) return false;
  const size_t begin = line.rfind(' ', at - 1);
  kind = line.substr(begin == std::string::npos ? 0 : begin + 1, at - begin - 1);
  mib = std::atof(line.c_str() + at + std::strlen(" buffer size = "));
  return true;
}

double ResidentKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6);
  return 0;
}

// Resident part of the mapped file, in KiB.
double MappedKib(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  double kib = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    // A mapping's first line begins with its addresses; the lines below name a field.
    if (line.find('-') < line.find(' ')) inside = line.ends_with(path);
    if (inside && line.starts_with("Rss:")) kib += std::atof(line.c_str() + 4);
  }
  return kib;
}

// `count` sequences of `tokens` each in full batches, then one step of all: what a server with as
// many turns of that length has touched.
void TouchMemory(llama_context* context, int count, int tokens, int vocabulary) {
  const int batch = static_cast<int>(llama_n_batch(context));
  Step step(batch);
  int filled = 0;
  step.Clear();
  for (int i = 0; i < count * tokens; ++i) {
    step.Add(AnyToken(i, vocabulary), i % tokens, i / tokens, i % tokens + 1 == tokens);
    if (++filled < batch && i + 1 < count * tokens) continue;
    step.Run(context);
    step.Clear();
    filled = 0;
  }
  for (int s = 0; s < count; ++s)
    step.Add(AnyToken(s, vocabulary), tokens, s, true);
  step.Run(context);
}

int RunMemory(const Options& options) {
  const ModelPtr model = LoadModel(options);
  const double loaded_kib = ResidentKib();
  const double loaded_mapped_kib = MappedKib(options.Text("-m", ""));
  const ContextPtr context = MakeContext(model.get(), options, options.Text("--fa", "off") == "on");
  TouchMemory(context.get(), 8, options.Number("--tokens", 64), Vocabulary(model.get()));
  std::map<std::string, double> sums;
  std::istringstream lines(LogText());
  for (std::string line; std::getline(lines, line);) {
    std::string kind;
    double mib = 0;
    if (ReadBufferLine(line, kind, mib)) sums[kind] += mib;
  }
  std::printf(
      "{\"resident_kib\":%.0f,\"mapped_kib\":%.0f,\"loaded_kib\":%.0f,\"loaded_mapped_kib\":%.0f,"
      "\"buffers_mib\":{",
      ResidentKib(), MappedKib(options.Text("-m", "")), loaded_kib, loaded_mapped_kib);
  bool first = true;
  for (const auto& [kind, mib] : sums) {
    std::printf("%s\"%s\":%.2f", first ? "" : ",", kind.c_str(), mib);
    first = false;
  }
  std::printf("}}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  if (options.mode == "facts") return RunFacts(options);
  if (options.mode == "parallel") return RunParallel(options);
  if (options.mode == "decode") return RunDecode(options);
  if (options.mode == "memory") return RunMemory(options);
  Die("no such mode: " + options.mode);
}
