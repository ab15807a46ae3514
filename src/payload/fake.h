// A payload store in memory, for tests and the simulator: the contract of store.h, with faults on
// demand. File ids are 1, 2, 3, ...: the same on every run. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "payload/store.h"

namespace tenuto {

class MemoryPayloadStore : public PayloadStore {
 public:
  Result<std::vector<PayloadLocation>> Append(PayloadFileId file,
                                              std::span<const PayloadRecord> records) override;
  Status Read(const PayloadLocation& location, std::span<std::byte> out) override;
  Status Remove(PayloadFileId file) override;
  Result<std::vector<PayloadFileId>> List() override;
  // Why appends are refused, or Ok.
  Status Health();

  // The next append fails: kExhausted closes its file, kIo is a failed sync, after which all
  // appends fail.
  void FailNextAppend(Code code);
  // The next `count` reads fail with `code`.
  void FailReads(Code code, int count);
  // Turns the bits of `mask` in the byte at `offset`. False when there is no such byte.
  bool Flip(PayloadFileId file, uint64_t offset, uint8_t mask = 1);
  // Cuts the file to `bytes`. False when there is no such file or it is shorter.
  bool Truncate(PayloadFileId file, uint64_t bytes);
  // Lets two files change their contents. False when one is missing.
  bool Swap(PayloadFileId a, PayloadFileId b);
  uint64_t bytes_total();
  int reads_total();  // calls of Read, failed ones too

 private:
  struct MemoryFile {
    std::vector<std::byte> bytes;
    bool closed = false;  // takes no more appends
  };

  Mutex mutex_;
  std::map<PayloadFileId, MemoryFile> files_ TENUTO_GUARDED_BY(mutex_);
  uint64_t last_id_ TENUTO_GUARDED_BY(mutex_) = 0;
  std::optional<Code> fail_append_ TENUTO_GUARDED_BY(mutex_);
  Code fail_read_ TENUTO_GUARDED_BY(mutex_) = Code::kIo;
  int fail_reads_left_ TENUTO_GUARDED_BY(mutex_) = 0;
  int reads_total_ TENUTO_GUARDED_BY(mutex_) = 0;
  std::string refusal_ TENUTO_GUARDED_BY(mutex_);
};

}  // namespace tenuto
