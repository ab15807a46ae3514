#include "payload/fake.h"

#include <algorithm>
#include <utility>

namespace tenuto {
namespace {

// So that no record lies at offset 0, as in a real file, and a mixed-up (offset, bytes) is found
// out.
constexpr size_t kFileHeaderBytes = 64;

}  // namespace

Result<std::vector<PayloadLocation>> MemoryPayloadStore::Append(
    PayloadFileId file, std::span<const PayloadRecord> records) {
  if (records.empty()) return Error(Code::kInvalid, "nothing to append");
  for (const PayloadRecord& record : records) {
    if (record.header.empty() && record.payload.empty()) {
      return Error(Code::kInvalid, "an empty record can't be stored");
    }
  }
  MutexLock lock(mutex_);
  if (!refusal_.empty()) return Error(Code::kIo, refusal_);
  auto found = files_.find(file);
  if (fail_append_.has_value()) {
    const Code code = *std::exchange(fail_append_, std::nullopt);
    if (code == Code::kIo) refusal_ = "a sync failed on purpose";
    if (found != files_.end()) found->second.closed = true;
    return Error(code, "append failed on purpose");
  }
  if (found == files_.end() || found->second.closed) {
    found = files_.emplace(PayloadFileId{++last_id_}, MemoryFile{}).first;
    found->second.bytes.resize(kFileHeaderBytes);
  }
  std::vector<std::byte>& bytes = found->second.bytes;
  std::vector<PayloadLocation> locations;
  for (const PayloadRecord& record : records) {
    locations.push_back({found->first, bytes.size(), record.header.size() + record.payload.size()});
    bytes.insert(bytes.end(), record.header.begin(), record.header.end());
    bytes.insert(bytes.end(), record.payload.begin(), record.payload.end());
  }
  return locations;
}

Status MemoryPayloadStore::Read(const PayloadLocation& location, std::span<std::byte> out) {
  if (out.size() != location.bytes) {
    return Error(Code::kInvalid, "the buffer is not of the record's size");
  }
  MutexLock lock(mutex_);
  ++reads_total_;
  if (fail_reads_left_ > 0) {
    --fail_reads_left_;
    return Error(fail_read_, "read failed on purpose");
  }
  const auto found = files_.find(location.file);
  if (found == files_.end()) return Error(Code::kNotFound, "no such payload file");
  const std::vector<std::byte>& bytes = found->second.bytes;
  if (location.offset < kFileHeaderBytes || location.bytes == 0 || location.offset > bytes.size() ||
      location.bytes > bytes.size() - location.offset) {
    return Error(Code::kCorrupt, "no record can lie there");
  }
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(location.offset), out.size(),
              out.begin());
  return Ok();
}

Status MemoryPayloadStore::Remove(PayloadFileId file) {
  MutexLock lock(mutex_);
  files_.erase(file);
  return Ok();
}

Result<std::vector<PayloadFileId>> MemoryPayloadStore::List() {
  MutexLock lock(mutex_);
  std::vector<PayloadFileId> ids;
  for (const auto& [id, file] : files_)
    ids.push_back(id);
  return ids;
}

Status MemoryPayloadStore::Health() {
  MutexLock lock(mutex_);
  if (refusal_.empty()) return Ok();
  return Error(Code::kIo, refusal_);
}

void MemoryPayloadStore::FailNextAppend(Code code) {
  MutexLock lock(mutex_);
  fail_append_ = code;
}

int MemoryPayloadStore::reads_total() {
  MutexLock lock(mutex_);
  return reads_total_;
}

void MemoryPayloadStore::FailReads(Code code, int count) {
  MutexLock lock(mutex_);
  fail_read_ = code;
  fail_reads_left_ = count;
}

bool MemoryPayloadStore::Flip(PayloadFileId file, uint64_t offset, uint8_t mask) {
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end() || offset >= found->second.bytes.size()) return false;
  found->second.bytes[offset] ^= static_cast<std::byte>(mask);
  return true;
}

bool MemoryPayloadStore::Truncate(PayloadFileId file, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end() || bytes > found->second.bytes.size()) return false;
  found->second.bytes.resize(bytes);
  return true;
}

bool MemoryPayloadStore::Swap(PayloadFileId a, PayloadFileId b) {
  MutexLock lock(mutex_);
  const auto first = files_.find(a);
  const auto second = files_.find(b);
  if (first == files_.end() || second == files_.end()) return false;
  std::swap(first->second.bytes, second->second.bytes);
  return true;
}

uint64_t MemoryPayloadStore::bytes_total() {
  MutexLock lock(mutex_);
  uint64_t total = 0;
  for (const auto& [id, file] : files_)
    total += file.bytes.size();
  return total;
}

}  // namespace tenuto
