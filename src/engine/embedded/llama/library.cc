#include "engine/embedded/llama/library.h"

#include <ggml.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace tenuto {
namespace {

constexpr size_t kCapturedLinesMax = 64;

struct LogState {
  Mutex capturing;  // held as long as a LlamaErrorCapture lives
  Mutex mutex;
  bool capture TENUTO_GUARDED_BY(mutex) = false;
  bool error_line TENUTO_GUARDED_BY(mutex) = false;  // what a continued line belongs to
  std::string line TENUTO_GUARDED_BY(mutex);
  std::vector<std::string> captured TENUTO_GUARDED_BY(mutex);
};

// Never destroyed: libllama may log from its own threads while the process ends.
LogState& State() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): guarded by its mutex.
  static auto* state = new LogState;
  return *state;
}

void OnLog(ggml_log_level level, const char* text, void* /*user*/) {
  LogState& state = State();
  std::string line;
  {
    const MutexLock lock(state.mutex);
    if (level != GGML_LOG_LEVEL_CONT) {
      state.error_line = level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN;
    }
    state.line += text;
    if (state.line.empty() || state.line.back() != '\n') return;  // goes on with the next call
    while (state.line.ends_with('\n'))
      state.line.pop_back();                                        // some messages have two
    std::replace(state.line.begin(), state.line.end(), '\n', ' ');  // of a name in the model
    line.swap(state.line);
    if (state.capture && state.error_line && state.captured.size() < kCapturedLinesMax) {
      state.captured.push_back(line);
    }
  }
  if (!line.empty()) Log(LogLevel::kDebug, "llama.log", {{"text", line}});
}

// How many LlamaAssertionsThrow live on this thread.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): of one thread.
thread_local int assertions_throw = 0;

// ".../src/llama-model.cpp:1328: GGML_ASSERT(x) failed"
void OnAssertion(const char* text) {
  if (assertions_throw == 0) {
    std::fprintf(stderr, "%s\n", text);
    return;  // and ggml aborts
  }
  std::string_view what = text;
  const size_t name_end = what.find(": ");
  if (const size_t slash = what.substr(0, name_end).rfind('/'); slash != std::string_view::npos)
    what.remove_prefix(slash + 1);
  throw std::runtime_error("libllama's check failed: " + std::string(what));
}

// "llama_model_load: error loading model: unknown model architecture: 'x'" -> "unknown model
// architecture: 'x'".
std::string WithoutPrefixes(std::string_view line) {
  constexpr std::string_view kLoading = "error loading model: ";
  const size_t loading = line.find(kLoading);
  if (loading != std::string_view::npos) return std::string(line.substr(loading + kLoading.size()));
  const size_t colon = line.find(": ");
  const bool is_function =
      colon != std::string_view::npos && line.substr(0, colon).find(' ') == std::string_view::npos;
  return std::string(is_function ? line.substr(colon + 2) : line);
}

}  // namespace

Status CheckLlamaVersion(std::string_view library, std::string_view headers) {
  if (library == headers) return Ok();
  return Error(Code::kUnavailable, "this program was built for libllama " + std::string(headers) +
                                       " but found libllama " + std::string(library) +
                                       " at run time; install the same version or build again");
}

Status StartLlamaLibrary() {
  static const Status status = [] {
    llama_log_set(OnLog, nullptr);
    Status checked = CheckLlamaVersion(llama_version(), TENUTO_LLAMA_VERSION);
    if (checked) llama_backend_init();
    return checked;
  }();
  return status;
}

bool LlamaHasGpu() {
  return llama_supports_gpu_offload();
}

std::string LlamaLibraryVersion() {
  return TENUTO_LLAMA_VERSION " (" TENUTO_LLAMA_COMMIT ", build " TENUTO_LLAMA_BUILD ")";
}

// The callback stays: others may be inside.
LlamaAssertionsThrow::LlamaAssertionsThrow() {
  static const ggml_abort_callback_t before = ggml_set_abort_callback(OnAssertion);
  static_cast<void>(before);
  ++assertions_throw;
}

LlamaAssertionsThrow::~LlamaAssertionsThrow() {
  --assertions_throw;
}

LlamaErrorCapture::LlamaErrorCapture() TENUTO_NO_THREAD_ANALYSIS {
  State().capturing.Lock();
  const MutexLock lock(State().mutex);
  State().capture = true;
  State().captured.clear();
}

LlamaErrorCapture::~LlamaErrorCapture() TENUTO_NO_THREAD_ANALYSIS {
  {
    const MutexLock lock(State().mutex);
    State().capture = false;
    State().captured.clear();
  }
  State().capturing.Unlock();
}

std::string LlamaErrorCapture::Reason(const std::string& otherwise) const {
  const MutexLock lock(State().mutex);
  // The first line is the cause; later ones only say that something failed.
  for (const std::string& line : State().captured) {
    if (line.find("error loading model: ") != std::string::npos) return WithoutPrefixes(line);
  }
  if (State().captured.empty()) return otherwise;
  return WithoutPrefixes(State().captured.front());
}

}  // namespace tenuto
