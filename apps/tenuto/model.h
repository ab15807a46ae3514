// The choice of executor, and the sizes that follow from model and machine. Part of the composition
// root.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "config.h"
#include "engine/embedded/engine.h"
#include "engine/executor.h"

namespace tenuto {

// What the model's files tell in no time: they are there and whole GGUFs.
Status CheckModelFiles(const ServeConfig& config);
// Also that their architecture is known. Reads the vocabulary, which takes a moment.
Status CheckModel(const ServeConfig& config);

// Loads the model. `running_max`: turns that run at once, what batches and outputs are sized for.
Result<std::unique_ptr<Executor>> OpenExecutor(const ServeConfig& config, int32_t running_max,
                                               const std::string& cache_dir);

// The most tokens of one session: --window, else the model's window, at most two thirds of the
// cells.
int32_t WindowTokens(const ServeConfig& config, const EngineInfo& info);

// Whether --n-gpu-layers can mean anything here. After OpenExecutor.
bool HasGpu();

// Version of libllama, or "none" in a build without it.
std::string ExecutorVersion();

}  // namespace tenuto
