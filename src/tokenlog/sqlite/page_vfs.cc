#include "tokenlog/sqlite/page_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <span>

#include "base/mutex.h"
#include "crypto/hash.h"

namespace tenuto {
namespace {

constexpr size_t kPage = kLogPageBytes;
constexpr size_t kContent = kPage - kLogPageReserveBytes;
constexpr size_t kFileHeader = 100;

// What SQLite allocates for a file of ours: this, then the file of the VFS below.
struct PageFile {
  sqlite3_file base;
};
static_assert(sizeof(PageFile) % alignof(void*) == 0);

sqlite3_file* Below(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<PageFile*>(file) + 1);
}

sqlite3_vfs* BelowVfs(sqlite3_vfs* vfs) {
  return static_cast<sqlite3_vfs*>(vfs->pAppData);
}

using Checksum = std::array<std::byte, kLogPageReserveBytes>;

Checksum ChecksumOf(std::span<const std::byte> page, uint64_t index) {
  Sha256 hash;
  hash.UpdateU64(index);
  hash.Update(page.first(kContent));
  const Digest256 digest = hash.Finish();
  Checksum sum;
  std::memcpy(sum.data(), digest.bytes.data(), sum.size());
  return sum;
}

size_t U16(std::span<const std::byte> bytes, size_t at) {
  return std::to_integer<size_t>(bytes[at]) << 8 | std::to_integer<size_t>(bytes[at + 1]);
}

// Zeroes the bytes between a b-tree page's cell pointers and its first cell, which mean nothing to
// SQLite.
void ClearGap(std::span<std::byte> page, uint64_t index) {
  const size_t header = index == 0 ? kFileHeader : 0;
  const auto type = std::to_integer<unsigned>(page[header]);
  const bool leaf = type == 10 || type == 13;
  if (!leaf && type != 2 && type != 5) return;
  const size_t pointers_end = header + (leaf ? 8U : 12U) + 2 * U16(page, header + 3);
  const size_t cells_begin = U16(page, header + 5);
  if (cells_begin <= pointers_end || cells_begin > kContent) return;
  std::memset(page.data() + pointers_end, 0, cells_begin - pointers_end);
}

bool IsPage(int amount, sqlite3_int64 offset) {
  return amount == kLogPageBytes && offset % kLogPageBytes == 0;
}

bool IsZero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Compares a page's checksum and sets it to zero, so that it is zero in all that SQLite writes into
// its write-ahead log. A page that has zero in the file came from there without us: a tool of
// SQLite that opens the log of a killed server moves pages into the file when it closes.
int TakeChecksum(std::span<std::byte> page, uint64_t index) {
  const std::span<std::byte> kept = page.subspan(kContent);
  if (IsZero(kept)) return IsZero(page) ? SQLITE_IOERR_DATA : SQLITE_OK;
  const Checksum sum = ChecksumOf(page, index);
  if (!std::ranges::equal(kept, sum)) return SQLITE_IOERR_DATA;
  std::ranges::fill(kept, std::byte{0});
  return SQLITE_OK;
}

int ReadPage(sqlite3_file* file, void* out, int amount, sqlite3_int64 offset) {
  const int rc = Below(file)->pMethods->xRead(Below(file), out, amount, offset);
  if (rc != SQLITE_OK) return rc;
  const std::span<std::byte> bytes(static_cast<std::byte*>(out), static_cast<size_t>(amount));
  if (IsPage(amount, offset)) return TakeChecksum(bytes, static_cast<uint64_t>(offset) / kPage);
  // The file's header, from which SQLite takes the size of the pages it will ask for.
  if (offset == 0 && bytes.size() >= kFileHeader) {
    const bool ours =
        U16(bytes, 16) == kPage && std::to_integer<int>(bytes[20]) == kLogPageReserveBytes;
    return ours ? SQLITE_OK : SQLITE_NOTADB;
  }
  return amount < kLogPageBytes ? SQLITE_OK : SQLITE_IOERR_DATA;
}

int WritePage(sqlite3_file* file, const void* in, int amount, sqlite3_int64 offset) {
  // SQLite writes whole pages; anything else would leave one without its checksum.
  if (!IsPage(amount, offset)) return SQLITE_IOERR_WRITE;
  std::array<std::byte, kPage> page;
  std::memcpy(page.data(), in, page.size());
  const uint64_t index = static_cast<uint64_t>(offset) / kPage;
  ClearGap(page, index);
  const Checksum sum = ChecksumOf(page, index);
  std::memcpy(page.data() + kContent, sum.data(), sum.size());
  return Below(file)->pMethods->xWrite(Below(file), page.data(), amount, offset);
}

int Close(sqlite3_file* file) {
  return Below(file)->pMethods->xClose(Below(file));
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return Below(file)->pMethods->xTruncate(Below(file), size);
}
int Sync(sqlite3_file* file, int flags) {
  return Below(file)->pMethods->xSync(Below(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Below(file)->pMethods->xFileSize(Below(file), size);
}
int Lock(sqlite3_file* file, int level) {
  return Below(file)->pMethods->xLock(Below(file), level);
}
int Unlock(sqlite3_file* file, int level) {
  return Below(file)->pMethods->xUnlock(Below(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* held) {
  return Below(file)->pMethods->xCheckReservedLock(Below(file), held);
}
int FileControl(sqlite3_file* file, int op, void* arg) {
  return Below(file)->pMethods->xFileControl(Below(file), op, arg);
}
int SectorSize(sqlite3_file* file) {
  return Below(file)->pMethods->xSectorSize(Below(file));
}
int DeviceCharacteristics(sqlite3_file* file) {
  return Below(file)->pMethods->xDeviceCharacteristics(Below(file));
}
int ShmMap(sqlite3_file* file, int region, int bytes, int extend, void volatile** out) {
  return Below(file)->pMethods->xShmMap(Below(file), region, bytes, extend, out);
}
int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
  return Below(file)->pMethods->xShmLock(Below(file), offset, n, flags);
}
void ShmBarrier(sqlite3_file* file) {
  Below(file)->pMethods->xShmBarrier(Below(file));
}
int ShmUnmap(sqlite3_file* file, int remove) {
  return Below(file)->pMethods->xShmUnmap(Below(file), remove);
}

// Version 2: shared memory, but no memory-mapped reads, which would go past the checksum.
constexpr sqlite3_io_methods kPageMethods = {
    .iVersion = 2,
    .xClose = Close,
    .xRead = ReadPage,
    .xWrite = WritePage,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = FileSize,
    .xLock = Lock,
    .xUnlock = Unlock,
    .xCheckReservedLock = CheckReservedLock,
    .xFileControl = FileControl,
    .xSectorSize = SectorSize,
    .xDeviceCharacteristics = DeviceCharacteristics,
    .xShmMap = ShmMap,
    .xShmLock = ShmLock,
    .xShmBarrier = ShmBarrier,
    .xShmUnmap = ShmUnmap,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int OpenFile(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags,
             int* flags_out) {
  sqlite3_vfs* below = BelowVfs(vfs);
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return below->xOpen(below, name, file, flags, flags_out);
  const int rc = below->xOpen(below, name, Below(file), flags, flags_out);
  // SQLite closes a file exactly when it has methods, whether or not opening it worked.
  file->pMethods = Below(file)->pMethods == nullptr ? nullptr : &kPageMethods;
  return rc;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync) {
  return BelowVfs(vfs)->xDelete(BelowVfs(vfs), name, sync);
}
int Access(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
  return BelowVfs(vfs)->xAccess(BelowVfs(vfs), name, flags, out);
}
int FullPathname(sqlite3_vfs* vfs, const char* name, int bytes, char* out) {
  return BelowVfs(vfs)->xFullPathname(BelowVfs(vfs), name, bytes, out);
}
int Randomness(sqlite3_vfs* vfs, int bytes, char* out) {
  return BelowVfs(vfs)->xRandomness(BelowVfs(vfs), bytes, out);
}
int Sleep(sqlite3_vfs* vfs, int us) {
  return BelowVfs(vfs)->xSleep(BelowVfs(vfs), us);
}
int CurrentTime(sqlite3_vfs* vfs, double* out) {
  return BelowVfs(vfs)->xCurrentTime(BelowVfs(vfs), out);
}
int GetLastError(sqlite3_vfs* vfs, int bytes, char* out) {
  return BelowVfs(vfs)->xGetLastError(BelowVfs(vfs), bytes, out);
}
int CurrentTimeInt64(sqlite3_vfs* vfs, sqlite3_int64* out) {
  return BelowVfs(vfs)->xCurrentTimeInt64(BelowVfs(vfs), out);
}

struct Registered {
  std::string name;
  sqlite3_vfs vfs{};
};

}  // namespace

Result<std::string> RegisterPageVfs(const std::string& base) {
  static Mutex mutex;
  // Never freed: SQLite keeps pointers to registered VFSes until the process ends.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): guarded by the mutex above.
  static auto& registered = *new std::deque<Registered>;

  sqlite3_vfs* below = sqlite3_vfs_find(base.empty() ? nullptr : base.c_str());
  if (below == nullptr) return Error(Code::kInvalid, "SQLite has no VFS named " + base);
  const std::string name = std::string("tenuto-pages-") + below->zName;
  const MutexLock lock(mutex);
  for (const Registered& entry : registered)
    if (entry.name == name && entry.vfs.pAppData == below) return name;

  Registered& entry = registered.emplace_back();
  entry.name = name;
  sqlite3_vfs& vfs = entry.vfs;
  vfs.iVersion = 2;
  vfs.szOsFile = static_cast<int>(sizeof(PageFile)) + below->szOsFile;
  vfs.mxPathname = below->mxPathname;
  vfs.zName = entry.name.c_str();
  vfs.pAppData = below;
  vfs.xOpen = OpenFile;
  vfs.xDelete = Delete;
  vfs.xAccess = Access;
  vfs.xFullPathname = FullPathname;
  vfs.xRandomness = Randomness;
  vfs.xSleep = Sleep;
  vfs.xCurrentTime = CurrentTime;
  vfs.xGetLastError = GetLastError;
  vfs.xCurrentTimeInt64 = CurrentTimeInt64;
  if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK)
    return Error(Code::kExhausted, "SQLite could not register a VFS");
  return name;
}

}  // namespace tenuto
