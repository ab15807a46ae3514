// The segment files that a store has open: found by id, checked when opened, closed when not used
// lately. Not the place where bytes are written: that is store.h. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "format/location.h"
#include "io/file.h"

namespace tenuto {

// Stays open while anybody holds it, in the cache or not, removed or not.
struct OpenSegment {
  std::unique_ptr<File> file;
  bool writable = false;
};

class OpenSegments {
 public:
  // `root` holds the subfolders. Keeps at most `files_max` files open beside those in use.
  OpenSegments(std::unique_ptr<Dir> root, size_t files_max);

  // Makes the subfolders that are missing, durably. kIo, kDenied, kExhausted.
  Status Prepare();

  // Opens the file, or finds it open, and has checked its header.
  // kNotFound; kCorrupt, kInvalid (another version); kIo, kDenied.
  Result<std::shared_ptr<OpenSegment>> Get(PayloadFileId id, bool for_writing);

  // Makes a new, empty file. Not in the cache yet: Put it when it has its header. kConflict when it
  // exists.
  Result<std::shared_ptr<OpenSegment>> Create(PayloadFileId id);
  void Put(PayloadFileId id, std::shared_ptr<OpenSegment> segment);
  // Makes the name of a created file durable.
  Status SyncName(PayloadFileId id);

  // Unlinks and forgets. kNotFound.
  Status Remove(PayloadFileId id);
  // All files that bear a segment's name, sorted.
  Result<std::vector<PayloadFileId>> List();

  size_t cached_count();
  Result<uint64_t> FreeBytes();  // of the volume

 private:
  struct Entry {
    PayloadFileId id;
    std::shared_ptr<OpenSegment> segment;
  };
  using Entries = std::list<Entry>;

  Result<std::unique_ptr<Dir>> Folder(const std::string& name);
  Result<std::shared_ptr<OpenSegment>> Open(PayloadFileId id, bool for_writing);
  void Insert(PayloadFileId id, std::shared_ptr<OpenSegment> segment) TENUTO_REQUIRES(mutex_);

  const size_t files_max_;
  Mutex root_mutex_;  // a Dir is not known to be thread-safe
  const std::unique_ptr<Dir> root_;

  Mutex mutex_;
  Entries entries_ TENUTO_GUARDED_BY(mutex_);  // last used first
  std::unordered_map<uint64_t, Entries::iterator> by_id_ TENUTO_GUARDED_BY(mutex_);
  uint64_t removals_ TENUTO_GUARDED_BY(mutex_) = 0;
};

}  // namespace tenuto
