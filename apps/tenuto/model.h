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

// Loads the model. `running_max`: turns that run at once, what batches and outputs are sized for.
Result<std::unique_ptr<Executor>> OpenExecutor(const ServeConfig& config, int32_t running_max,
                                               const std::string& cache_dir);

// The most tokens of one session: --window, else the model's window, at most two thirds of the
// cells.
int32_t WindowTokens(const ServeConfig& config, const EngineInfo& info);

// Version of libllama, or "none" in a build without it.
std::string ExecutorVersion();

}  // namespace tenuto
