// Variable-length integers (7 bits a byte, low ones first) in the index: written to a string, read
// from one with every bound checked. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenuto {

inline void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// Small for small numbers of either sign.
inline uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// Reads on; a read past the end or of more than 10 bytes gives 0 and makes the reader bad for good.
class VarintReader {
 public:
  explicit VarintReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Next() {
    if (at_ < bytes_.size() && static_cast<unsigned char>(bytes_[at_]) < 0x80) {
      return static_cast<unsigned char>(bytes_[at_++]);  // most are small
    }
    return NextLong();
  }
  // At most `max`, else bad.
  uint64_t NextUpTo(uint64_t max) {
    const uint64_t value = Next();
    if (value <= max) return value;
    bad_ = true;
    return 0;
  }
  std::string_view Bytes(size_t count) {
    if (bad_ || count > bytes_.size() - at_) {
      bad_ = true;
      return {};
    }
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  std::string_view Since(size_t begin) const { return bytes_.substr(begin, at_ - begin); }
  bool bad() const { return bad_; }
  bool done() const { return at_ == bytes_.size(); }

 private:
  uint64_t NextLong() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ >= bytes_.size()) break;
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    bad_ = true;
    return 0;
  }

  std::string_view bytes_;
  size_t at_ = 0;
  bool bad_ = false;
};

}  // namespace tenuto
