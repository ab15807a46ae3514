// libllama as the rest of this folder uses it: owning handles, its log turned into ours, its
// version checked. Internal to this folder. Handles are thread-compatible; the functions are
// thread-safe.
#pragma once

#include <llama.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tenuto {

struct FreeLlamaModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct FreeLlamaContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
using LlamaModelHandle = std::unique_ptr<llama_model, FreeLlamaModel>;
using LlamaContextHandle = std::unique_ptr<llama_context, FreeLlamaContext>;

// Initialises the library once per process, sends its log to ours at debug level and compares its
// version with that of the headers this program was built with. kUnavailable when they differ: its
// structs are passed by value and change between versions, so nothing else of it may be called
// then.
Status StartLlamaLibrary();

// StartLlamaLibrary's comparison: exact, since any difference may be one of layout.
Status CheckLlamaVersion(std::string_view library, std::string_view headers);

// "0.5.0-dev (0c1e570, build 1)": of the headers, equal to the library's after StartLlamaLibrary.
std::string LlamaLibraryVersion();

// Whether libllama finds a GPU that layers can go to. After StartLlamaLibrary.
bool LlamaHasGpu();

// Collects what libllama says at warning level and above while it lives. One at a time per process:
// construction waits for the last one to go.
class LlamaErrorCapture {
 public:
  LlamaErrorCapture();
  ~LlamaErrorCapture();
  LlamaErrorCapture(const LlamaErrorCapture&) = delete;
  LlamaErrorCapture& operator=(const LlamaErrorCapture&) = delete;

  // The reason in libllama's own words, one line without its prefixes; `otherwise` when it gave
  // none.
  std::string Reason(const std::string& otherwise) const;
};

// While it lives, an assertion of libllama or ggml that fails on this thread throws its text as a
// std::runtime_error instead of ending the process: a damaged model may fail any of a hundred of
// them while it is opened. libllama's own handlers take it, or the caller's. Best effort: through
// a frame that can't be unwound, and on ggml's worker threads, the process ends as before. Only for
// what is thrown away afterwards.
class LlamaAssertionsThrow {
 public:
  LlamaAssertionsThrow();
  ~LlamaAssertionsThrow();
  LlamaAssertionsThrow(const LlamaAssertionsThrow&) = delete;
  LlamaAssertionsThrow& operator=(const LlamaAssertionsThrow&) = delete;
};

}  // namespace tenuto
