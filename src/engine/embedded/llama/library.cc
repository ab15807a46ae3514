#include "engine/embedded/llama/library.h"

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
    state.line.pop_back();
    line.swap(state.line);
    if (state.capture && state.error_line && state.captured.size() < kCapturedLinesMax) {
      state.captured.push_back(line);
    }
  }
  if (!line.empty()) Log(LogLevel::kDebug, "llama.log", {{"text", line}});
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

Status CheckVersion() {
  const std::string_view library = llama_version();
  const std::string_view headers = TENUTO_LLAMA_VERSION;
  if (library == headers) return Ok();
  return Error(Code::kUnavailable, "this program was built for libllama " + std::string(headers) +
                                       " but found libllama " + std::string(library) +
                                       " at run time; install the same version or build again");
}

}  // namespace

Status StartLlamaLibrary() {
  static const Status status = [] {
    llama_log_set(OnLog, nullptr);
    Status checked = CheckVersion();
    if (checked) llama_backend_init();
    return checked;
  }();
  return status;
}

std::string LlamaLibraryVersion() {
  return TENUTO_LLAMA_VERSION " (" TENUTO_LLAMA_COMMIT ", build " TENUTO_LLAMA_BUILD ")";
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
