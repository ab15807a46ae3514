#include "engine/embedded/llama/gguf_check.h"

#include <fcntl.h>
#include <ggml.h>
#include <gguf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "io/fd.h"
#include "io/os_error.h"

namespace tenuto {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr size_t kKeyBytesMax = 65535;
constexpr size_t kEntryBytesMin = 8 + 1 + 4 + 1;  // key length, key, type, value
constexpr size_t kTensorBytesMin =
    8 + 1 + 4 + 8 + 4 + 8;  // name length, name, dims, one dim, type, offset

Error Cut() {
  return {Code::kCorrupt, "the file is cut off inside its header (an incomplete download?)"};
}

Error Malformed(const std::string& what) {
  return {Code::kCorrupt, "the file is damaged: " + what};
}

// A name of the file, as a message may hold it.
std::string Quoted(std::string_view name) {
  constexpr size_t kShownMax = 64;
  std::string text(name.substr(0, kShownMax));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "'" + text + (name.size() > kShownMax ? "...'" : "'");
}

// A cursor that never leaves the file.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  size_t left() const { return file_.size() - at_; }
  size_t at() const { return at_; }

  template <typename T>
  std::optional<T> Number() {
    static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");
    if (left() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, file_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::optional<std::string_view> String() {
    const auto size = Number<uint64_t>();
    if (!size || *size > left()) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(file_.data() + at_),
                                static_cast<size_t>(*size));
    at_ += text.size();
    return text;
  }

  bool Skip(uint64_t count, uint64_t size) {
    if (count > left() / size) return false;
    at_ += static_cast<size_t>(count * size);
    return true;
  }

 private:
  std::span<const std::byte> file_;
  size_t at_ = 0;
};

// Bytes of a scalar of this metadata type, 0 for strings, arrays and unknown types.
size_t ScalarBytes(uint32_t type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
      return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

// libllama aborts where two tokens have the same text. It reads a text up to its first NUL, and
// gives a name of its own to each empty one.
Status CheckTokens(Reader& reader, uint64_t count) {
  std::unordered_map<std::string_view, uint64_t> seen;
  seen.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    const auto text = reader.String();
    if (!text) return Cut();
    const std::string_view word = text->substr(0, text->find('\0'));
    if (word.empty()) continue;
    const auto [other, is_new] = seen.emplace(word, i);
    if (!is_new) {
      return Malformed("tokens " + std::to_string(other->second) + " and " + std::to_string(i) +
                       " of its vocabulary are the same");
    }
  }
  return Ok();
}

Status SkipArray(Reader& reader, std::string_view key) {
  const auto type = reader.Number<uint32_t>();
  const auto count = reader.Number<uint64_t>();
  if (!type || !count) return Cut();
  if (*type == GGUF_TYPE_STRING) {
    if (*count > reader.left() / sizeof(uint64_t)) return Cut();
    if (key == "tokenizer.ggml.tokens") return CheckTokens(reader, *count);
    for (uint64_t i = 0; i < *count; ++i) {
      if (!reader.String()) return Cut();
    }
    return Ok();
  }
  const size_t size = ScalarBytes(*type);
  if (size == 0) return Malformed("metadata entry " + Quoted(key) + " has an unknown type");
  return reader.Skip(*count, size) ? Ok() : Status(Cut());
}

struct Metadata {
  std::string architecture;
  uint64_t alignment = GGUF_DEFAULT_ALIGNMENT;
};

Status ReadEntry(Reader& reader, Metadata& metadata) {
  const auto key = reader.String();
  if (!key) return Cut();
  if (key->empty() || key->size() > kKeyBytesMax)
    return Malformed("a metadata key has no sane length");
  const auto type = reader.Number<uint32_t>();
  if (!type) return Cut();
  if (*type == GGUF_TYPE_ARRAY) return SkipArray(reader, *key);
  if (*type == GGUF_TYPE_STRING) {
    const auto text = reader.String();
    if (!text) return Cut();
    if (*key == "general.architecture") metadata.architecture = std::string(*text);
    return Ok();
  }
  const size_t size = ScalarBytes(*type);
  if (size == 0) return Malformed("metadata entry " + Quoted(*key) + " has an unknown type");
  if (*key == GGUF_KEY_GENERAL_ALIGNMENT && *type == GGUF_TYPE_UINT32) {
    const auto alignment = reader.Number<uint32_t>();
    if (!alignment) return Cut();
    if (!std::has_single_bit(*alignment)) return Malformed("its alignment is not a power of two");
    metadata.alignment = *alignment;
    return Ok();
  }
  if (key->ends_with("_epsilon") && *type == GGUF_TYPE_FLOAT32) {
    // libllama's worker threads abort on it, long after the model was loaded.
    const auto epsilon = reader.Number<float>();
    if (!epsilon) return Cut();
    if (!(*epsilon >= 0.0F))
      return Malformed("metadata entry " + Quoted(*key) + " is not a number from 0 up");
    return Ok();
  }
  return reader.Skip(1, size) ? Ok() : Status(Cut());
}

struct Tensor {
  std::string_view name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

Result<Tensor> ReadTensor(Reader& reader) {
  const auto name = reader.String();
  const auto dims = reader.Number<uint32_t>();
  if (!name || !dims) return Cut();
  if (name->empty() || name->size() >= GGML_MAX_NAME)
    return Malformed("a tensor's name has no sane length");
  const std::string quoted = "tensor " + Quoted(*name);
  if (*dims == 0 || *dims > GGML_MAX_DIMS) {
    return Malformed(quoted + " has " + std::to_string(*dims) + " dimensions");
  }
  uint64_t row = 0;
  uint64_t elements = 1;
  for (uint32_t d = 0; d < *dims; ++d) {
    const auto size = reader.Number<uint64_t>();
    if (!size) return Cut();
    if (d == 0) row = *size;
    if (*size > INT64_MAX || __builtin_mul_overflow(elements, *size, &elements) ||
        elements > INT64_MAX / 16) {
      return Malformed(quoted + " has impossible dimensions");
    }
  }
  const auto type = reader.Number<uint32_t>();
  const auto offset = reader.Number<uint64_t>();
  if (!type || !offset) return Cut();
  if (*type >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(*type)) == 0) {
    return Malformed(quoted + " has the unknown type " + std::to_string(*type));
  }
  const auto block = static_cast<uint64_t>(ggml_blck_size(static_cast<ggml_type>(*type)));
  if (row % block != 0) return Malformed(quoted + " has rows that are no whole blocks");
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(elements / block,
                             uint64_t{ggml_type_size(static_cast<ggml_type>(*type))}, &bytes)) {
    return Malformed(quoted + " has impossible dimensions");
  }
  return Tensor{*name, *offset, bytes};
}

Result<GgufSummary> ReadHeader(Reader& reader) {
  const auto magic = reader.Number<uint32_t>();
  if (!magic || *magic != kMagic) return Error(Code::kCorrupt, "the file is not a GGUF model");
  const auto version = reader.Number<uint32_t>();
  const auto tensors = reader.Number<uint64_t>();
  const auto entries = reader.Number<uint64_t>();
  if (!version || !tensors || !entries) return Cut();
  if (*version != 0 && (*version & 0xffff) == 0) {
    return Error(Code::kInvalid, "the file is a big-endian GGUF, which this machine can't read");
  }
  if (*version < 2 || *version > GGUF_VERSION) {
    return Error(Code::kInvalid, "the file is a GGUF of version " + std::to_string(*version) +
                                     ", this build reads versions 2 to " +
                                     std::to_string(GGUF_VERSION));
  }
  if (*entries > reader.left() / kEntryBytesMin || *tensors > reader.left() / kTensorBytesMin)
    return Cut();
  GgufSummary summary;
  summary.version = *version;
  summary.tensors = *tensors;
  summary.entries = *entries;
  return summary;
}

}  // namespace

Result<GgufSummary> CheckGguf(std::span<const std::byte> file) {
  Reader reader(file);
  TENUTO_ASSIGN(GgufSummary summary, ReadHeader(reader));
  Metadata metadata;
  for (uint64_t i = 0; i < summary.entries; ++i)
    TENUTO_TRY(ReadEntry(reader, metadata));
  summary.architecture = metadata.architecture;

  std::string last_name;
  uint64_t end = 0;
  for (uint64_t i = 0; i < summary.tensors; ++i) {
    TENUTO_ASSIGN(const Tensor tensor, ReadTensor(reader));
    if (tensor.offset % metadata.alignment != 0) {
      return Malformed("tensor " + Quoted(tensor.name) + " is not aligned");
    }
    uint64_t tensor_end = 0;
    if (__builtin_add_overflow(tensor.offset, tensor.bytes, &tensor_end)) {
      return Malformed("tensor " + Quoted(tensor.name) + " lies outside of every file");
    }
    if (tensor_end >= end) {
      end = tensor_end;
      last_name = Quoted(tensor.name);
    }
  }
  summary.data_bytes = end;
  const uint64_t align = metadata.alignment;
  summary.data_begin = (reader.at() + align - 1) / align * align;
  if (summary.tensors > 0 &&
      (summary.data_begin > file.size() || end > file.size() - summary.data_begin)) {
    return Error(Code::kCorrupt, "the file is cut off (an incomplete download?): tensor " +
                                     last_name + " ends at byte " +
                                     std::to_string(summary.data_begin + end) + " of a file of " +
                                     std::to_string(file.size()) + " bytes");
  }
  return summary;
}

Result<GgufSummary> CheckGgufFile(const std::string& path) {
  // O_NONBLOCK: a named pipe must not hold the start for ever.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const int number = errno;
    if (number == ENOENT || number == ENOTDIR)
      return Error(Code::kNotFound, "there is no model file " + path);
    return Error(OsErrorCode(number),
                 "can't open the model file " + path + ": " + OsErrorText(number));
  }
  struct stat facts = {};
  const bool regular = ::fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode);
  if (!regular || facts.st_size < 4) {
    return Error(Code::kCorrupt,
                 "can't load " + path + ": " +
                     (regular ? "the file is not a GGUF model" : "it is not a regular file"));
  }
  const auto size = static_cast<size_t>(facts.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) {
    const int number = errno;
    return Error(Code::kIo, "can't map the model file " + path + ": " + OsErrorText(number));
  }
  auto result = CheckGguf({static_cast<const std::byte*>(mapped), size});
  ::munmap(mapped, size);
  if (!result) return std::move(result).error().With("can't load " + path);
  return result;
}

}  // namespace tenuto
