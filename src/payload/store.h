// Where KV pieces lie. A store keeps opaque records in files that it names itself; which record
// belongs to what is in the token log's piece rows. Written bytes never change (INV-10). All calls
// block; the caller picks the thread. Thread-safe: calls on different files run in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/location.h"

namespace tenuto {

// One record to append: its parts are written one after the other, so that a header needs no copy
// of its payload.
struct PayloadRecord {
  std::span<const std::byte> header;
  std::span<const std::byte> payload;
};

class PayloadStore {
 public:
  virtual ~PayloadStore() = default;

  // Appends the records to `file` (0: a new one) and returns after they are durable, the folder
  // entry included. All locations name the same file. On error nothing of this call may be used:
  // kExhausted (disk full; the store stays usable), kIo (after a failed sync the store refuses all
  // further appends, INV-11).
  virtual Result<std::vector<PayloadLocation>> Append(PayloadFileId file,
                                                      std::span<const PayloadRecord> records) = 0;
  // Fills `out` (out.size() == location.bytes, else kInvalid). Fast only into aligned, reused
  // memory: see read_buffer.h. A location comes from a row: check its size before sizing a buffer
  // by it. kNotFound: no such file; kCorrupt: the file is damaged, shorter, or can hold no record
  // there; kInvalid: the file is of another version; kIo.
  virtual Status Read(const PayloadLocation& location, std::span<std::byte> out) = 0;
  // Unlinks. A reader that has the file open keeps it. kNotFound is not an error here.
  virtual Status Remove(PayloadFileId file) = 0;
  virtual Result<std::vector<PayloadFileId>> List() = 0;
};

}  // namespace tenuto
