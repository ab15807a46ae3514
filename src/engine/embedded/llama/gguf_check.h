// Reads the frame of a GGUF file before libllama is given it: every length, count and offset must
// lie inside the file. libllama reports a cut file late and sometimes not at all; this reader
// trusts nothing and says it in one sentence. Of the metadata's meaning it judges only what ends
// the process otherwise: tokens that are the same, negative epsilons. Whether an architecture is
// known is libllama's business. Pure, thread-safe. GGUF versions 2 and 3, little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace tenuto {

struct GgufSummary {
  uint32_t version = 0;
  uint64_t tensors = 0;
  uint64_t entries = 0;      // metadata key-value pairs
  std::string architecture;  // general.architecture, "" where it is missing
  uint64_t data_begin = 0;   // offset of the tensors' bytes in the file
  uint64_t data_bytes = 0;   // up to the end of the last tensor
};

// `file` is the whole file (mapped). kCorrupt: not a GGUF, cut or malformed; kInvalid: a GGUF
// version or byte order that is not read.
Result<GgufSummary> CheckGguf(std::span<const std::byte> file);

// The same for a path: maps the file for as long as the check takes. kNotFound, kDenied, kIo, and
// the above; messages name the path.
Result<GgufSummary> CheckGgufFile(const std::string& path);

}  // namespace tenuto
