#include "payload/segment/store.h"

#include <array>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "format/segment.h"

namespace tenuto {
namespace {

// Two random ids never meet; more tries than this mean that the source of randomness is broken.
constexpr int kIdTriesMax = 8;

constexpr std::array<std::byte, kSegmentAlignBytes> kZeros{};

// One gathered write that begins at an aligned offset, and where its records will lie.
class WritePlan {
 public:
  WritePlan(PayloadFileId file, uint64_t begin) : file_(file), begin_(begin), end_(begin) {}

  // The header of a new file, which fills its first block. REQUIRES: the file is new and nothing
  // was added.
  void AddFileHeader() {
    EncodeSegmentHeader(file_, file_header_);
    Add(file_header_);
    Pad();
  }

  void AddRecord(const PayloadRecord& record) {
    locations_.push_back({file_, end_, record.header.size() + record.payload.size()});
    Add(record.header);
    Add(record.payload);
    Pad();
  }

  Status Write(File& file) const { return file.WriteAt(begin_, parts_); }
  std::vector<PayloadLocation> TakeLocations() && { return std::move(locations_); }

 private:
  void Add(std::span<const std::byte> part) {
    if (!part.empty()) parts_.push_back(part);
    end_ += part.size();
  }
  void Pad() {
    const uint64_t over = end_ % kSegmentAlignBytes;
    if (over != 0) Add(std::span(kZeros).first(kSegmentAlignBytes - over));
  }

  const PayloadFileId file_;
  const uint64_t begin_;
  uint64_t end_;
  std::array<std::byte, kSegmentHeaderBytes> file_header_;
  std::vector<std::span<const std::byte>> parts_;
  std::vector<PayloadLocation> locations_;
};

Status CheckRecords(std::span<const PayloadRecord> records) {
  if (records.empty()) return Error(Code::kInvalid, "nothing to append");
  for (const PayloadRecord& record : records) {
    if (record.header.empty() && record.payload.empty()) {
      return Error(Code::kInvalid, "an empty record can't be stored");
    }
  }
  return Ok();
}

// What is handed on to clients: the file's name and the reason, without this machine's folders.
Error WithoutFolders(const Error& error, PayloadFileId file) {
  const std::string name = SegmentFileName(file);
  const std::string& text = error.message();
  if (text.find('/') == std::string::npos) return error;
  const size_t at = text.find("/" + name);
  const size_t colon = text.rfind(": ");
  std::string reason;
  if (at != std::string::npos) {
    reason = text.substr(at + 1 + name.size());
  } else if (colon != std::string::npos) {
    reason = text.substr(colon);
  }
  return Error(error.code(), "read " + name + reason);
}

}  // namespace

// The right to append to one file, for as long as the object lives.
class SegmentStore::Turn {
 public:
  Turn(SegmentStore& store, PayloadFileId id) : store_(store), id_(id) {
    MutexLock lock(store_.mutex_);
    while (store_.appending_.contains(id_))
      store_.turn_over_.wait(store_.mutex_);
    store_.appending_.insert(id_);
  }
  ~Turn() {
    {
      MutexLock lock(store_.mutex_);
      store_.appending_.erase(id_);
    }
    store_.turn_over_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  SegmentStore& store_;
  const PayloadFileId id_;
};

SegmentStore::SegmentStore(std::unique_ptr<Dir> root, Random& random, SegmentStoreOptions options)
    : options_(options), files_(std::move(root), options.open_files_max), random_(random) {}

Result<std::unique_ptr<SegmentStore>> SegmentStore::Open(std::unique_ptr<Dir> root, Random& random,
                                                         SegmentStoreOptions options) {
  std::unique_ptr<SegmentStore> store(new SegmentStore(std::move(root), random, options));
  if (Status status = store->files_.Prepare(); !status) {
    return std::move(status).error().With("open the payload store");
  }
  return store;
}

std::unique_ptr<SegmentStore> SegmentStore::OpenForReading(std::unique_ptr<Dir> root,
                                                           Random& random) {
  std::unique_ptr<SegmentStore> store(new SegmentStore(std::move(root), random, {}));
  store->read_only_ = true;
  return store;
}

Status SegmentStore::CheckWritable() const {
  if (!read_only_) return Ok();
  return Error(Code::kDenied, "the payload store was opened for reading only");
}

Result<std::vector<PayloadLocation>> SegmentStore::Append(PayloadFileId file,
                                                          std::span<const PayloadRecord> records) {
  TENUTO_TRY(CheckWritable());
  TENUTO_TRY(CheckRecords(records));
  TENUTO_TRY(Health());
  TENUTO_TRY(LeaveRoom(records));
  if (file == PayloadFileId{}) return AppendNew(records);

  const Turn turn(*this, file);
  TENUTO_TRY(Health());  // it may have been lost while this call waited
  uint64_t end = 0;
  TENUTO_ASSIGN(const std::shared_ptr<OpenSegment> segment, FindWritable(file, end));
  if (segment == nullptr) return AppendNew(records);

  WritePlan plan(file, end);
  for (const PayloadRecord& record : records)
    plan.AddRecord(record);
  if (Status status = plan.Write(*segment->file); !status) {
    Retire(file, status.error());
    return std::move(status).error().With("append to " + SegmentFileName(file));
  }
  if (Status status = segment->file->Sync(); !status) return Refuse(file, status.error());
  return std::move(plan).TakeLocations();
}

Status SegmentStore::LeaveRoom(std::span<const PayloadRecord> records) {
  if (options_.free_bytes_min == 0) return Ok();
  uint64_t bytes = 0;
  for (const PayloadRecord& record : records)
    bytes += record.header.size() + record.payload.size() + kSegmentAlignBytes;
  TENUTO_ASSIGN(const uint64_t free, files_.FreeBytes());
  if (free >= options_.free_bytes_min && free - options_.free_bytes_min >= bytes) return Ok();
  return Error(Code::kExhausted, "the volume of the store has " + std::to_string(free / kMiB) +
                                     " MiB free, and " +
                                     std::to_string(options_.free_bytes_min / kMiB) +
                                     " MiB are kept for the token log: free some space there");
}

Result<std::shared_ptr<OpenSegment>> SegmentStore::FindWritable(PayloadFileId id, uint64_t& end) {
  const std::shared_ptr<OpenSegment> none;
  if (IsRetired(id)) return none;
  auto segment = files_.Get(id, /*for_writing=*/true);
  if (!segment) {
    const Code code = segment.error().code();
    if (code == Code::kNotFound || code == Code::kCorrupt || code == Code::kInvalid) {
      Log(LogLevel::kWarn, "payload.file_not_appendable",
          {{"file", SegmentFileName(id)}, {"reason", segment.error().message()}});
      return none;
    }
    return std::move(segment).error();
  }
  // Asked of the file each time: whatever a crash or a failed write left is stepped over.
  TENUTO_ASSIGN(const uint64_t size, (*segment)->file->Size());
  const std::optional<uint64_t> aligned = AlignSegmentOffset(size);
  if (!aligned || *aligned >= options_.segment_bytes_max) return none;
  end = *aligned;
  return std::move(segment).value();
}

Result<std::vector<PayloadLocation>> SegmentStore::AppendNew(
    std::span<const PayloadRecord> records) {
  PayloadFileId id = DrawId();
  auto segment = files_.Create(id);
  for (int i = 1; i < kIdTriesMax && !segment && segment.error().code() == Code::kConflict; ++i) {
    id = DrawId();
    segment = files_.Create(id);
  }
  if (!segment) return std::move(segment).error().With("make a segment file");

  WritePlan plan(id, 0);
  plan.AddFileHeader();
  for (const PayloadRecord& record : records)
    plan.AddRecord(record);
  if (Status status = plan.Write(*(*segment)->file); !status) {
    // Nobody knows the file yet. Where unlinking fails as well, the next sweep gets it.
    if (Status removed = files_.Remove(id); !removed) {
      Log(LogLevel::kWarn, "payload.garbage_left",
          {{"file", SegmentFileName(id)}, {"reason", removed.error().message()}});
    }
    return std::move(status).error().With("write a new segment file");
  }
  if (Status status = (*segment)->file->Sync(); !status) return Refuse(id, status.error());
  if (Status status = files_.SyncName(id); !status) return Refuse(id, status.error());
  files_.Put(id, std::move(segment).value());
  return std::move(plan).TakeLocations();
}

Status SegmentStore::Read(const PayloadLocation& location, std::span<std::byte> out) {
  if (out.size() != location.bytes) {
    return Error(Code::kInvalid, "the buffer is not of the record's size");
  }
  if (location.file == PayloadFileId{}) return Error(Code::kNotFound, "no segment file is named");
  if (Status status = ReadRecord(location, out); !status) {
    return WithoutFolders(status.error(), location.file);
  }
  return Ok();
}

Status SegmentStore::ReadRecord(const PayloadLocation& location, std::span<std::byte> out) {
  TENUTO_ASSIGN(const std::shared_ptr<OpenSegment> segment,
                files_.Get(location.file, /*for_writing=*/false));
  TENUTO_ASSIGN(const uint64_t size, segment->file->Size());
  TENUTO_TRY(CheckSegmentLocation(location, size));
  TENUTO_ASSIGN(const size_t bytes, segment->file->ReadAt(location.offset, out));
  if (bytes != out.size()) {
    return Error(Code::kCorrupt, SegmentFileName(location.file) + " was cut short");
  }
  return Ok();
}

Status SegmentStore::Remove(PayloadFileId file) {
  TENUTO_TRY(CheckWritable());
  if (file == PayloadFileId{}) return Ok();
  // An append under way finishes first: else its records could land in a file of the same name made
  // anew.
  const Turn turn(*this, file);
  Status status = files_.Remove(file);
  if (!status && status.error().code() != Code::kNotFound) {
    return std::move(status).error().With("remove " + SegmentFileName(file));
  }
  return Ok();
}

Result<std::vector<PayloadFileId>> SegmentStore::List() {
  return files_.List();
}

Status SegmentStore::Health() {
  MutexLock lock(mutex_);
  if (refusal_.empty()) return Ok();
  return Error(Code::kIo, refusal_);
}

PayloadFileId SegmentStore::DrawId() {
  MutexLock lock(mutex_);
  PayloadFileId id;
  while (id.value == 0)
    random_.Fill(std::as_writable_bytes(std::span(&id.value, 1)));
  return id;
}

bool SegmentStore::IsRetired(PayloadFileId id) {
  MutexLock lock(mutex_);
  return retired_.contains(id);
}

void SegmentStore::Retire(PayloadFileId id, const Error& error) {
  Log(LogLevel::kWarn, "payload.file_retired",
      {{"file", SegmentFileName(id)}, {"reason", error.message()}});
  MutexLock lock(mutex_);
  retired_.insert(id);
}

Error SegmentStore::Refuse(PayloadFileId id, const Error& error) {
  Log(LogLevel::kError, "payload.refusing",
      {{"file", SegmentFileName(id)}, {"reason", error.message()}});
  MutexLock lock(mutex_);
  if (refusal_.empty()) {
    refusal_ = "the payload store takes no more writes since " + SegmentFileName(id) +
               " could not be made durable (" + error.message() +
               "); restart to try the disk again";
  }
  return Error(Code::kIo, refusal_);
}

}  // namespace tenuto
