// The weights' content as an identity: SHA-256 of the model file (of all its parts when it is
// split), remembered in a small text file keyed by device, inode, size and time of change, so that
// a start does not read gigabytes again. Thread-safe: no state. A damaged or missing cache costs
// the reading, never an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "crypto/hash.h"

namespace tenuto {

// All files of a model: `path` itself, or its parts in order when it is named
// "...-00001-of-00003.gguf".
std::vector<std::string> ModelFiles(const std::string& path);

// `cache_dir` empty: no cache. Reading that takes long logs its progress every `note_ms`.
// kNotFound, kDenied, kIo name the path.
Result<Digest256> WeightsDigest(const std::string& path, const std::string& cache_dir,
                                int64_t note_ms = 2'000);

}  // namespace tenuto
