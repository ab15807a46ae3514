// Records with contents that tell them apart, for the tests of payload stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "payload/store.h"

namespace tenuto {

struct TestRecord {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;

  PayloadRecord View() const { return {.header = header, .payload = payload}; }
  std::vector<std::byte> Whole() const {
    std::vector<std::byte> whole = header;
    whole.insert(whole.end(), payload.begin(), payload.end());
    return whole;
  }
};

inline TestRecord MakeRecord(uint64_t seed, size_t header_bytes, size_t payload_bytes) {
  uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  const auto fill = [&state](std::vector<std::byte>& bytes, size_t count) {
    bytes.resize(count);
    for (std::byte& byte : bytes) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      byte = static_cast<std::byte>(state >> 56);
    }
  };
  TestRecord record;
  fill(record.header, header_bytes);
  fill(record.payload, payload_bytes);
  return record;
}

inline Result<std::vector<std::byte>> ReadWhole(PayloadStore& store,
                                                const PayloadLocation& location) {
  std::vector<std::byte> bytes(location.bytes);
  TENUTO_TRY(store.Read(location, bytes));
  return bytes;
}

// Appends one record; the location of it.
inline Result<PayloadLocation> AppendOne(PayloadStore& store, PayloadFileId file,
                                         const TestRecord& record) {
  const PayloadRecord views[] = {record.View()};
  TENUTO_ASSIGN(const std::vector<PayloadLocation> locations, store.Append(file, views));
  return locations.at(0);
}

}  // namespace tenuto
