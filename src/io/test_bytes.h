// Short words for bytes in the tests of this folder. Tests only.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace tenuto {

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline Status WriteText(File& file, uint64_t offset, std::string_view text) {
  const std::array parts = {BytesOf(text)};
  return file.WriteAt(offset, parts);
}

// Everything in the file, or "<error>".
inline std::string ReadText(File& file) {
  const Result<uint64_t> size = file.Size();
  if (!size.ok()) return "<error>";
  std::string text(*size, '?');
  const Result<size_t> got = file.ReadAt(0, std::as_writable_bytes(std::span(text)));
  if (!got.ok()) return "<error>";
  text.resize(*got);
  return text;
}

inline std::string TextOf(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += static_cast<char>(byte);
  return text;
}

}  // namespace tenuto
