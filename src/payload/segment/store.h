// The default payload store: records in append-only segment files. docs/formats/segment.md has the
// bytes and the order of writes. Not an index: rows of the token log know what lies where.
// Thread-safe. Appends to one file wait for each other; everything else runs in parallel.
//
// 1. Bytes once written are never written again, nor is the disk block they lie in (INV-10).
//
// 2. A file whose write failed gets no more appends from this process; the store goes on with a new
//    one.
//
// 3. After a failed sync the store refuses to append until it is opened anew (INV-11). It still
//    reads and removes.
//
// 4. A given file that can't take the append (too big, gone, damaged, of another version) is left
//    alone: the records go to a new file, whose id the locations name.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "io/clock.h"
#include "io/file.h"
#include "payload/segment/open_files.h"
#include "payload/store.h"

namespace tenuto {

struct SegmentStoreOptions {
  uint64_t segment_bytes_max = uint64_t{1}
                               << 30;  // a file of this size or more takes no more appends
  size_t open_files_max = 64;
  // An append that would leave less free on the volume is refused with kExhausted: KV is a cache
  // and may not take the room that the token log needs for the next turns.
  uint64_t free_bytes_min = 0;
};

class SegmentStore : public PayloadStore {
 public:
  // `root` is the store's own folder; that its name is durable is up to the caller. `random`
  // outlives the store and draws file ids. One store a folder: the caller holds a lock (Dir::Lock).
  // kIo, kDenied, kExhausted.
  static Result<std::unique_ptr<SegmentStore>> Open(std::unique_ptr<Dir> root, Random& random,
                                                    SegmentStoreOptions options = {});
  // A store that reads and lists only, beside the one that writes; the caller needs no lock. Append
  // and Remove are kDenied. REQUIRES: `root` is of OpenDirForReading, so that no folder is made.
  static std::unique_ptr<SegmentStore> OpenForReading(std::unique_ptr<Dir> root, Random& random);

  // See PayloadStore. kInvalid: no record, or an empty one.
  Result<std::vector<PayloadLocation>> Append(PayloadFileId file,
                                              std::span<const PayloadRecord> records) override;
  // Also kInvalid: the file is of another version. Messages name the file without its folders:
  // they reach clients.
  Status Read(const PayloadLocation& location, std::span<std::byte> out) override;
  Status Remove(PayloadFileId file) override;
  Result<std::vector<PayloadFileId>> List() override;
  // Why appends are refused, or Ok.
  Status Health();

  size_t open_files_count() { return files_.cached_count(); }

 private:
  class Turn;

  SegmentStore(std::unique_ptr<Dir> root, Random& random, SegmentStoreOptions options);

  Status CheckWritable() const;
  Status LeaveRoom(std::span<const PayloadRecord> records);
  Status ReadRecord(const PayloadLocation& location, std::span<std::byte> out);
  // The file to append to, or null where a new one is to be made.
  Result<std::shared_ptr<OpenSegment>> FindWritable(PayloadFileId id, uint64_t& end);
  Result<std::vector<PayloadLocation>> AppendNew(std::span<const PayloadRecord> records);
  PayloadFileId DrawId();
  bool IsRetired(PayloadFileId id);
  void Retire(PayloadFileId id, const Error& error);
  // Remembers why nothing is appended any more, and returns it as the error of this append.
  Error Refuse(PayloadFileId id, const Error& error);

  const SegmentStoreOptions options_;
  bool read_only_ = false;  // set before anybody else has the store
  OpenSegments files_;

  Mutex mutex_;
  Random& random_ TENUTO_GUARDED_BY(mutex_);
  std::set<PayloadFileId> appending_ TENUTO_GUARDED_BY(mutex_);  // an append to it is under way
  std::set<PayloadFileId> retired_ TENUTO_GUARDED_BY(mutex_);
  std::string refusal_ TENUTO_GUARDED_BY(mutex_);  // empty: healthy
  std::condition_variable_any turn_over_;
};

}  // namespace tenuto
