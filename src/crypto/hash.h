// SHA-256 over OpenSSL. Values are compared with ==: they are identities here, not secrets. The
// functions are pure; a Sha256 is thread-compatible: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tenuto {

struct Digest256 {
  std::array<std::byte, 32> bytes{};
  bool operator==(const Digest256&) const = default;
  std::string Hex() const;
};

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  // Length-prefixed (u64 LE), so that ("ab","c") and ("a","bc") differ.
  void UpdateField(std::string_view text);
  void UpdateU64(uint64_t value);  // little endian
  Digest256 Finish();              // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest256 Sha256Of(std::span<const std::byte> bytes);
Digest256 Sha256Of(std::string_view text);

}  // namespace tenuto
