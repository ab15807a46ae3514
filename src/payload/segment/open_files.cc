#include "payload/segment/open_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "format/segment.h"

namespace tenuto {
namespace {

constexpr uint64_t kFolders = 16;

// The folder's name comes from the first hex digit of an id.
std::string FolderName(uint64_t folder) {
  return SegmentFolderName(PayloadFileId{folder << 60});
}

}  // namespace

OpenSegments::OpenSegments(std::unique_ptr<Dir> root, size_t files_max)
    : files_max_(files_max), root_(std::move(root)) {
  TENUTO_CHECK(root_ != nullptr && files_max_ > 0);
}

Result<uint64_t> OpenSegments::FreeBytes() {
  MutexLock lock(root_mutex_);
  return root_->FreeBytes();
}

Status OpenSegments::Prepare() {
  for (uint64_t folder = 0; folder < kFolders; ++folder)
    TENUTO_TRY(Folder(FolderName(folder)));
  return Ok();
}

// Opened for each use: a Dir of its own needs no lock while it syncs, and opening it costs a few
// microseconds, which only the opening of a file pays.
Result<std::unique_ptr<Dir>> OpenSegments::Folder(const std::string& name) {
  MutexLock lock(root_mutex_);
  return root_->Sub(name);
}

Result<std::shared_ptr<OpenSegment>> OpenSegments::Open(PayloadFileId id, bool for_writing) {
  TENUTO_ASSIGN(const std::unique_ptr<Dir> folder, Folder(SegmentFolderName(id)));
  const std::string name = SegmentFileName(id);
  auto segment = std::make_shared<OpenSegment>();
  TENUTO_ASSIGN(segment->file, for_writing ? folder->OpenWrite(name) : folder->OpenRead(name));
  segment->writable = for_writing;

  std::array<std::byte, kSegmentHeaderBytes> header;
  TENUTO_ASSIGN(const size_t bytes, segment->file->ReadAt(0, header));
  if (Status status = CheckSegmentHeader(std::span(header).first(bytes), id); !status) {
    return std::move(status).error().With("open " + name);
  }
  return segment;
}

Result<std::shared_ptr<OpenSegment>> OpenSegments::Get(PayloadFileId id, bool for_writing) {
  uint64_t removals_before = 0;
  {
    MutexLock lock(mutex_);
    const auto found = by_id_.find(id.value);
    if (found != by_id_.end() && (found->second->segment->writable || !for_writing)) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->segment;
    }
    removals_before = removals_;
  }
  TENUTO_ASSIGN(std::shared_ptr<OpenSegment> segment, Open(id, for_writing));
  MutexLock lock(mutex_);
  // A file removed since must not come back as an entry: it would keep its disk space.
  if (removals_ == removals_before) Insert(id, segment);
  return segment;
}

void OpenSegments::Insert(PayloadFileId id, std::shared_ptr<OpenSegment> segment) {
  const auto found = by_id_.find(id.value);
  if (found != by_id_.end()) {
    // Two opened it at once: a writable one serves both ends.
    if (segment->writable) found->second->segment = std::move(segment);
    return;
  }
  entries_.push_front({id, std::move(segment)});
  by_id_[id.value] = entries_.begin();
  if (entries_.size() > files_max_) {
    by_id_.erase(entries_.back().id.value);
    entries_.pop_back();
  }
}

Result<std::shared_ptr<OpenSegment>> OpenSegments::Create(PayloadFileId id) {
  TENUTO_ASSIGN(const std::unique_ptr<Dir> folder, Folder(SegmentFolderName(id)));
  auto segment = std::make_shared<OpenSegment>();
  TENUTO_ASSIGN(segment->file, folder->Create(SegmentFileName(id)));
  segment->writable = true;
  return segment;
}

void OpenSegments::Put(PayloadFileId id, std::shared_ptr<OpenSegment> segment) {
  MutexLock lock(mutex_);
  Insert(id, std::move(segment));
}

Status OpenSegments::SyncName(PayloadFileId id) {
  TENUTO_ASSIGN(const std::unique_ptr<Dir> folder, Folder(SegmentFolderName(id)));
  return folder->Sync();
}

Status OpenSegments::Remove(PayloadFileId id) {
  TENUTO_ASSIGN(const std::unique_ptr<Dir> folder, Folder(SegmentFolderName(id)));
  Status status = folder->Remove(SegmentFileName(id));
  MutexLock lock(mutex_);
  ++removals_;
  const auto found = by_id_.find(id.value);
  if (found != by_id_.end()) {
    entries_.erase(found->second);
    by_id_.erase(found);
  }
  return status;
}

Result<std::vector<PayloadFileId>> OpenSegments::List() {
  std::vector<PayloadFileId> ids;
  for (uint64_t number = 0; number < kFolders; ++number) {
    const std::string folder_name = FolderName(number);
    auto folder = Folder(folder_name);
    // Of a store opened for reading that nothing was stored in yet.
    if (!folder && folder.error().code() == Code::kNotFound) continue;
    if (!folder) return std::move(folder).error();
    TENUTO_ASSIGN(const std::vector<std::string> names, (*folder)->List());
    for (const std::string& name : names) {
      const auto id = ParseSegmentFileName(name);
      // A file that somebody moved to another folder can't be opened or removed by its id: it is
      // not ours.
      if (id && SegmentFolderName(*id) == folder_name) ids.push_back(*id);
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

size_t OpenSegments::cached_count() {
  MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace tenuto
