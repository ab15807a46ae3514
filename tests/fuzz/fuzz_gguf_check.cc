// Any bytes as a model file: refused with one printable sentence of sane length, or a frame that
// lies inside of the file. The same bytes, cut inside of that frame, are never a whole model.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "engine/embedded/llama/gguf_check.h"

namespace tenuto {
namespace {

constexpr size_t kSentenceBytesMax = 300;

void CheckRefusal(const Error& error) {
  TENUTO_CHECK(error.code() == Code::kCorrupt || error.code() == Code::kInvalid);
  TENUTO_CHECK(!error.message().empty() && error.message().size() <= kSentenceBytesMax);
  for (const char c : error.message())
    TENUTO_CHECK(c >= ' ' && c <= '~');
}

void Try(std::span<const std::byte> file) {
  const auto summary = CheckGguf(file);
  if (!summary.ok()) return CheckRefusal(summary.error());
  TENUTO_CHECK(summary->version == 2 || summary->version == 3);
  if (summary->tensors == 0) return;
  TENUTO_CHECK(summary->data_begin <= file.size());
  TENUTO_CHECK(summary->data_bytes <= file.size() - summary->data_begin);
  const auto end = static_cast<size_t>(summary->data_begin + summary->data_bytes);
  TENUTO_CHECK(CheckGguf(file.first(end)).ok());
  const auto cut = CheckGguf(file.first(end - 1));
  TENUTO_CHECK(!cut.ok());
  CheckRefusal(cut.error());
}

}  // namespace
}  // namespace tenuto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenuto::Try(std::as_bytes(std::span(data, size)));
  return 0;
}
