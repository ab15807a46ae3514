// The fake itself. That it keeps what it has to is tested in damage_test.cc.
#include "tokenlog/sqlite/fake_volume.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "io/fake.h"

namespace tenuto {
namespace {

constexpr size_t kSector = 512;

// A write or, with truncate set, a truncation to `offset` that no sync has confirmed.
struct Change {
  uint64_t offset = 0;
  std::string bytes;
  bool truncate = false;
};

void Apply(std::string& image, const Change& change) {
  if (change.truncate) {
    image.resize(change.offset);
    return;
  }
  if (image.size() < change.offset + change.bytes.size())
    image.resize(change.offset + change.bytes.size());
  image.replace(change.offset, change.bytes.size(), change.bytes);
}

struct Handle;

// One file and all that its open handles share.
struct Node {
  std::string now;
  std::string synced;
  std::vector<Change> unsynced;
  bool name_synced = false;
  std::vector<Handle*> handles;
  std::vector<std::unique_ptr<std::array<char, 32768>>> regions;  // shared memory
};

struct Handle {
  sqlite3_file base;
  std::shared_ptr<FakeVolume::State> volume;
  std::shared_ptr<Node> node;
  int level = SQLITE_LOCK_NONE;
  unsigned shared_slots = 0;  // bit for each lock slot of the shared memory
  unsigned exclusive_slots = 0;
  bool syncs_names = false;
};

}  // namespace

struct FakeVolume::State {
  explicit State(uint64_t seed) : random(seed) {}

  // One more step; false: it has to fail.
  bool Step() {
    ++steps;
    return halt_at == 0 || steps < halt_at;
  }
  bool Due(Fault kind) {
    if (fault != kind || --fault_in > 0) return false;
    fault = Fault::kNone;
    return true;
  }
  uint64_t BytesUsed() const {
    uint64_t used = 0;
    for (const auto& [name, node] : nodes)
      used += node->now.size();
    return used;
  }

  std::mutex mutex;
  SeededRandom random;
  std::string prefix;
  std::map<std::string, std::shared_ptr<Node>> nodes;
  std::map<std::string, std::shared_ptr<Node>>
      removed;  // names whose removal no sync has confirmed
  uint64_t steps = 0;
  uint64_t syncs = 0;
  uint64_t halt_at = 0;
  uint64_t capacity = 0;
  Fault fault = Fault::kNone;
  uint64_t fault_in = 0;
};

namespace {

std::mutex registry_mutex;
std::map<std::string, std::shared_ptr<FakeVolume::State>>& Registry() {
  static auto& volumes = *new std::map<std::string, std::shared_ptr<FakeVolume::State>>;
  return volumes;
}

Handle& Of(sqlite3_file* file) {
  return *reinterpret_cast<Handle*>(file);
}

std::shared_ptr<FakeVolume::State> VolumeOf(const std::string& path) {
  const std::lock_guard lock(registry_mutex);
  for (const auto& [prefix, volume] : Registry())
    if (path.starts_with(prefix)) return volume;
  return nullptr;
}

int Close(sqlite3_file* file) {
  Handle& handle = Of(file);
  {
    const std::lock_guard lock(handle.volume->mutex);
    std::erase(handle.node->handles, &handle);
  }
  handle.~Handle();
  return SQLITE_OK;
}

int Read(sqlite3_file* file, void* out, int amount, sqlite3_int64 offset) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  const std::string& bytes = handle.node->now;
  const size_t at = std::min(static_cast<size_t>(offset), bytes.size());
  const size_t there = std::min(static_cast<size_t>(amount), bytes.size() - at);
  std::memcpy(out, bytes.data() + at, there);
  if (there == static_cast<size_t>(amount)) return SQLITE_OK;
  std::memset(static_cast<char*>(out) + there, 0, static_cast<size_t>(amount) - there);
  return SQLITE_IOERR_SHORT_READ;
}

int Write(sqlite3_file* file, const void* in, int amount, sqlite3_int64 offset) {
  Handle& handle = Of(file);
  FakeVolume::State& volume = *handle.volume;
  const std::lock_guard lock(volume.mutex);
  if (!volume.Step() || volume.Due(FakeVolume::Fault::kWrite)) return SQLITE_IOERR_WRITE;
  if (volume.Due(FakeVolume::Fault::kFull)) return SQLITE_FULL;
  const uint64_t end = static_cast<uint64_t>(offset) + static_cast<uint64_t>(amount);
  const uint64_t grows = end > handle.node->now.size() ? end - handle.node->now.size() : 0;
  if (volume.capacity != 0 && grows != 0 && volume.BytesUsed() + grows > volume.capacity)
    return SQLITE_FULL;
  Change change{.offset = static_cast<uint64_t>(offset),
                .bytes = std::string(static_cast<const char*>(in), static_cast<size_t>(amount))};
  Apply(handle.node->now, change);
  handle.node->unsynced.push_back(std::move(change));
  return SQLITE_OK;
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  if (!handle.volume->Step()) return SQLITE_IOERR_TRUNCATE;
  Change change{.offset = static_cast<uint64_t>(size), .bytes = "", .truncate = true};
  Apply(handle.node->now, change);
  handle.node->unsynced.push_back(std::move(change));
  return SQLITE_OK;
}

int Sync(sqlite3_file* file, int) {
  Handle& handle = Of(file);
  FakeVolume::State& volume = *handle.volume;
  const std::lock_guard lock(volume.mutex);
  ++volume.syncs;
  if (!volume.Step() || volume.Due(FakeVolume::Fault::kSync)) return SQLITE_IOERR_FSYNC;
  handle.node->synced = handle.node->now;
  handle.node->unsynced.clear();
  // As SQLite's own VFS for Unix: the first sync of a new journal or write-ahead log syncs its
  // folder, too.
  if (std::exchange(handle.syncs_names, false)) {
    for (auto& [name, node] : volume.nodes)
      node->name_synced = true;
    volume.removed.clear();
  }
  return SQLITE_OK;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  *size = static_cast<sqlite3_int64>(handle.node->now.size());
  return SQLITE_OK;
}

bool OtherHolds(const Handle& handle, int level) {
  return std::any_of(
      handle.node->handles.begin(), handle.node->handles.end(),
      [&](const Handle* other) { return other != &handle && other->level >= level; });
}

int Lock(sqlite3_file* file, int level) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  if (handle.level >= level) return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) {
    if (OtherHolds(handle, SQLITE_LOCK_PENDING)) return SQLITE_BUSY;
  } else if (OtherHolds(handle, SQLITE_LOCK_RESERVED)) {
    return SQLITE_BUSY;
  } else if (level == SQLITE_LOCK_EXCLUSIVE && OtherHolds(handle, SQLITE_LOCK_SHARED)) {
    handle.level = SQLITE_LOCK_PENDING;
    return SQLITE_BUSY;
  }
  handle.level = level;
  return SQLITE_OK;
}

int Unlock(sqlite3_file* file, int level) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  handle.level = std::min(handle.level, level);
  return SQLITE_OK;
}

int CheckReservedLock(sqlite3_file* file, int* held) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  *held = handle.level >= SQLITE_LOCK_RESERVED || OtherHolds(handle, SQLITE_LOCK_RESERVED) ? 1 : 0;
  return SQLITE_OK;
}

int FileControl(sqlite3_file*, int, void*) {
  return SQLITE_NOTFOUND;
}
int SectorSize(sqlite3_file*) {
  return 4096;
}
int DeviceCharacteristics(sqlite3_file*) {
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

int ShmMap(sqlite3_file* file, int region, int bytes, int extend, void volatile** out) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  auto& regions = handle.node->regions;
  const auto index = static_cast<size_t>(region);
  *out = nullptr;
  if (static_cast<size_t>(bytes) > sizeof(std::array<char, 32768>)) return SQLITE_IOERR_SHMMAP;
  if (index >= regions.size() && extend == 0) return SQLITE_OK;
  while (regions.size() <= index)
    regions.push_back(std::make_unique<std::array<char, 32768>>());
  *out = regions[index]->data();
  return SQLITE_OK;
}

int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  const unsigned mask = ((1U << n) - 1U) << offset;
  if ((flags & SQLITE_SHM_UNLOCK) != 0) {
    handle.shared_slots &= ~mask;
    handle.exclusive_slots &= ~mask;
    return SQLITE_OK;
  }
  const bool exclusive = (flags & SQLITE_SHM_EXCLUSIVE) != 0;
  for (const Handle* other : handle.node->handles) {
    if (other == &handle) continue;
    if ((other->exclusive_slots & mask) != 0) return SQLITE_BUSY;
    if (exclusive && (other->shared_slots & mask) != 0) return SQLITE_BUSY;
  }
  (exclusive ? handle.exclusive_slots : handle.shared_slots) |= mask;
  return SQLITE_OK;
}

// The index of the write-ahead log is read without locks, between barriers; passing a mutex is one.
void ShmBarrier(sqlite3_file* file) {
  const std::lock_guard lock(Of(file).volume->mutex);
}

int ShmUnmap(sqlite3_file* file, int remove) {
  Handle& handle = Of(file);
  const std::lock_guard lock(handle.volume->mutex);
  handle.shared_slots = handle.exclusive_slots = 0;
  if (remove != 0 && handle.node->handles.size() == 1) handle.node->regions.clear();
  return SQLITE_OK;
}

constexpr sqlite3_io_methods kMethods = {
    .iVersion = 2,
    .xClose = Close,
    .xRead = Read,
    .xWrite = Write,
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

int Open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* flags_out) {
  file->pMethods = nullptr;
  if (name == nullptr) return SQLITE_CANTOPEN;
  const auto volume = VolumeOf(name);
  if (volume == nullptr) return SQLITE_CANTOPEN;
  const std::lock_guard lock(volume->mutex);
  auto node = volume->nodes.find(name);
  if (node == volume->nodes.end()) {
    if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
    if (!volume->Step()) return SQLITE_CANTOPEN;
    node = volume->nodes.emplace(name, std::make_shared<Node>()).first;
  }
  auto* handle =
      new (file) Handle{.base = {.pMethods = &kMethods}, .volume = volume, .node = node->second};
  handle->syncs_names =
      (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0 && !node->second->name_synced;
  node->second->handles.push_back(handle);
  if (flags_out != nullptr) *flags_out = flags;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs*, const char* name, int) {
  const auto volume = VolumeOf(name);
  if (volume == nullptr) return SQLITE_IOERR_DELETE;
  const std::lock_guard lock(volume->mutex);
  if (!volume->Step()) return SQLITE_IOERR_DELETE;
  const auto node = volume->nodes.find(name);
  if (node == volume->nodes.end()) return SQLITE_IOERR_DELETE_NOENT;
  if (node->second->name_synced) volume->removed.insert_or_assign(name, node->second);
  volume->nodes.erase(node);
  return SQLITE_OK;
}

int Access(sqlite3_vfs*, const char* name, int flags, int* out) {
  const auto volume = VolumeOf(name);
  if (volume == nullptr) return SQLITE_IOERR_ACCESS;
  const std::lock_guard lock(volume->mutex);
  const auto node = volume->nodes.find(name);
  // As Unix: an empty file does not count as a journal that needs playing back.
  const bool there =
      node != volume->nodes.end() && (flags != SQLITE_ACCESS_EXISTS || !node->second->now.empty());
  *out = there ? 1 : 0;
  return SQLITE_OK;
}

int FullPathname(sqlite3_vfs*, const char* name, int bytes, char* out) {
  sqlite3_snprintf(bytes, out, "%s", name);
  return SQLITE_OK;
}

int GetLastError(sqlite3_vfs*, int, char*) {
  return 0;
}

}  // namespace

FakeVolume::FakeVolume(uint64_t seed) : state_(std::make_shared<State>(seed)) {
  static std::atomic<uint64_t> number{0};
  state_->prefix = "/fake-volume-" + std::to_string(++number) + "/";
  const std::lock_guard lock(registry_mutex);
  Registry().emplace(state_->prefix, state_);
}

FakeVolume::~FakeVolume() {
  const std::lock_guard lock(registry_mutex);
  Registry().erase(state_->prefix);
}

std::string FakeVolume::VfsName() {
  static const bool registered = [] {
    static sqlite3_vfs vfs = *sqlite3_vfs_find(nullptr);
    vfs.iVersion = 2;
    vfs.zName = "fake-volume";
    vfs.szOsFile = sizeof(Handle);
    vfs.mxPathname = 512;
    vfs.pNext = nullptr;
    vfs.pAppData = nullptr;
    vfs.xOpen = Open;
    vfs.xDelete = Delete;
    vfs.xAccess = Access;
    vfs.xFullPathname = FullPathname;
    vfs.xGetLastError = GetLastError;
    return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
  }();
  return registered ? "fake-volume" : "";
}

std::string FakeVolume::Path(const std::string& name) const {
  return state_->prefix + name;
}

uint64_t FakeVolume::steps() const {
  const std::lock_guard lock(state_->mutex);
  return state_->steps;
}

uint64_t FakeVolume::syncs() const {
  const std::lock_guard lock(state_->mutex);
  return state_->syncs;
}

void FakeVolume::FailNext(Fault fault, uint64_t n) {
  const std::lock_guard lock(state_->mutex);
  state_->fault = fault;
  state_->fault_in = n;
}

void FakeVolume::HaltAtStep(uint64_t n) {
  const std::lock_guard lock(state_->mutex);
  state_->halt_at = state_->steps + n;
}

void FakeVolume::SetCapacity(uint64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->capacity = bytes;
}

void FakeVolume::Crash() {
  const std::lock_guard lock(state_->mutex);
  SeededRandom& random = state_->random;
  for (auto& [name, node] : state_->removed)
    if (random.Chance(0.5)) state_->nodes.emplace(name, node);
  state_->removed.clear();
  std::erase_if(state_->nodes, [&](const auto& entry) {
    return !entry.second->name_synced && random.Chance(0.5);
  });
  for (auto& [name, node] : state_->nodes) {
    // A disk may also have been quick or idle: all or nothing of a file's changes are there.
    const uint64_t luck = random.Below(4);
    for (Change& change : node->unsynced) {
      if (luck == 0 || (luck > 1 && random.Chance(0.4))) continue;
      if (luck > 1 && !change.truncate && random.Chance(0.3))
        change.bytes.resize(random.Below(change.bytes.size() / kSector + 1) * kSector);
      Apply(node->synced, change);
    }
    node->unsynced.clear();
    node->regions.clear();
    node->now = node->synced;
    node->name_synced = true;
  }
  state_->halt_at = 0;
  state_->fault = Fault::kNone;
}

std::vector<std::string> FakeVolume::Names() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  for (const auto& [path, node] : state_->nodes)
    names.push_back(path.substr(state_->prefix.size()));
  return names;
}

std::string FakeVolume::Contents(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto node = state_->nodes.find(state_->prefix + name);
  return node == state_->nodes.end() ? "" : node->second->now;
}

void FakeVolume::Overwrite(const std::string& name, std::string bytes) {
  const std::lock_guard lock(state_->mutex);
  auto& node = state_->nodes[state_->prefix + name];
  if (!node) node = std::make_shared<Node>();
  node->now = node->synced = std::move(bytes);
  node->unsynced.clear();
  node->regions.clear();
}

namespace {

// The fake has to be able to lose data, or the tests over it show nothing.
TEST(FakeVolume, LosesWhatWasNotSynced) {
  int kept = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    FakeVolume volume(seed);
    sqlite3* db = nullptr;
    ASSERT_EQ(
        sqlite3_open_v2(volume.Path("a.db").c_str(), &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, FakeVolume::VfsName().c_str()),
        SQLITE_OK);
    ASSERT_EQ(
        sqlite3_exec(db, "PRAGMA synchronous = OFF; CREATE TABLE t(x); INSERT INTO t VALUES(1)",
                     nullptr, nullptr, nullptr),
        SQLITE_OK);
    EXPECT_EQ(volume.syncs(), 0U);
    sqlite3_close(db);
    const std::string before = volume.Contents("a.db");
    volume.Crash();
    if (volume.Contents("a.db") == before) ++kept;
  }
  EXPECT_LT(kept, 40);
}

}  // namespace
}  // namespace tenuto
