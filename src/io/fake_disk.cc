#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "io/fake.h"
#include "io/name.h"

namespace tenuto {
namespace {

constexpr uint64_t kSectorBytes = 512;
constexpr uint64_t kFileBytesMax = uint64_t{1} << 30;  // all of it is in memory, twice

// One file's bytes as programs see them, and as they are on the medium.
struct Inode {
  std::vector<std::byte> live;
  std::vector<std::byte> durable;
  std::set<uint64_t> dirty;       // sectors of `live` written since the last Sync
  uint64_t last_write_begin = 0;  // sectors of the newest write, half-open
  uint64_t last_write_end = 0;
  std::weak_ptr<int> lock;  // alive while somebody holds the lock

  void Write(uint64_t offset, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (offset + bytes.size() > live.size()) live.resize(offset + bytes.size());
    std::memcpy(live.data() + offset, bytes.data(), bytes.size());
    last_write_begin = offset / kSectorBytes;
    last_write_end = (offset + bytes.size() - 1) / kSectorBytes + 1;
    for (uint64_t sector = last_write_begin; sector < last_write_end; ++sector)
      dirty.insert(dirty.end(), sector);
  }

  // Puts one sector of `live` on the medium, as far as it lies inside the file there.
  void Persist(uint64_t sector) {
    const uint64_t begin = sector * kSectorBytes;
    const uint64_t end =
        std::min({begin + kSectorBytes, uint64_t{durable.size()}, uint64_t{live.size()}});
    if (begin < end) std::memcpy(durable.data() + begin, live.data() + begin, end - begin);
  }

  void Sync() {
    durable.resize(live.size());
    for (const uint64_t sector : dirty)
      Persist(sector);
    dirty.clear();
  }

  // A Sync that failed: part of it is on the medium, and the system has forgotten that the rest is
  // not.
  void FailSync(SeededRandom& random) {
    if (random.Chance(0.5)) durable.resize(live.size());
    for (const uint64_t sector : dirty)
      if (random.Chance(0.5)) Persist(sector);
    dirty.clear();
  }

  void Crash(SeededRandom& random) {
    enum Kept : uint64_t { kAll, kNone, kSome, kTornLast, kCount };
    const uint64_t kept = random.Below(kCount);
    durable.resize(SizeAfterCrash(kept == kAll, kept == kNone, random));
    const uint64_t tear = last_write_begin + random.Below(last_write_end - last_write_begin + 1);
    for (const uint64_t sector : dirty) {
      const bool torn_off = sector >= tear && sector < last_write_end;
      const bool keep =
          kept == kAll || (kept == kSome && random.Chance(0.5)) || (kept == kTornLast && !torn_off);
      if (keep) Persist(sector);
    }
    dirty.clear();
    last_write_begin = last_write_end = 0;
    live = durable;
    lock.reset();
  }

  uint64_t SizeAfterCrash(bool all, bool none, SeededRandom& random) const {
    const uint64_t before = durable.size();
    const uint64_t after = live.size();
    if (all || before == after) return after;
    if (none) return before;
    switch (random.Below(3)) {
      case 0:
        return before;
      case 1:
        return after;
      default: {
        const uint64_t cut = (before / kSectorBytes + 1 +
                              random.Below(after / kSectorBytes - before / kSectorBytes + 1)) *
                             kSectorBytes;
        return std::clamp(cut, before, after);
      }
    }
  }
};

using InodePtr = std::shared_ptr<Inode>;
using Names = std::map<std::string, InodePtr, std::less<>>;

struct Folder {
  Names live;
  Names durable;
};

// How a step goes on: with an error, which at the moment of a halt may come after the deed.
struct Outcome {
  std::optional<Error> error;
  bool may_have_happened = false;
};

}  // namespace

struct FakeDisk::State {
  explicit State(uint64_t seed) : random(seed) {}

  mutable Mutex mutex;
  SeededRandom random TENUTO_GUARDED_BY(mutex);
  std::map<std::string, Folder> folders TENUTO_GUARDED_BY(mutex);  // by path, "" is the root
  uint64_t life TENUTO_GUARDED_BY(mutex) = 0;  // crashes so far; a File of another life is dead
  uint64_t steps TENUTO_GUARDED_BY(mutex) = 0;
  uint64_t fail_at TENUTO_GUARDED_BY(mutex) = 0;
  Code fail_code TENUTO_GUARDED_BY(mutex) = Code::kIo;
  uint64_t halt_at TENUTO_GUARDED_BY(mutex) = 0;
  uint64_t capacity TENUTO_GUARDED_BY(mutex) = 0;

  bool Halted() const TENUTO_REQUIRES(mutex) { return halt_at != 0 && steps >= halt_at; }

  // For calls that are no steps.
  Status Alive(const std::string& path) const TENUTO_REQUIRES(mutex) {
    if (Halted()) return Error(Code::kIo, "use " + path + ": the fake disk is halted");
    return Ok();
  }

  Outcome Step(const char* verb, const std::string& path) TENUTO_REQUIRES(mutex) {
    const bool was_halted = Halted();
    ++steps;
    if (Halted())
      return {Error(Code::kIo, std::string(verb) + " " + path + ": the fake disk is halted"),
              !was_halted};
    if (steps == fail_at)
      return {
          Error(fail_code, std::string(verb) + " " + path + ": a fault that the test asked for"),
          false};
    return {};
  }

  uint64_t UsedBytes() const TENUTO_REQUIRES(mutex) {
    uint64_t used = 0;
    for (const auto& [path, folder] : folders)
      for (const auto& [name, inode] : folder.live)
        used += inode->live.size();
    return used;
  }

  const Inode* Find(const std::string& path) const TENUTO_REQUIRES(mutex) {
    const auto [folder, name] = Split(path);
    const auto at = folders.find(folder);
    if (at == folders.end()) return nullptr;
    const auto found = at->second.live.find(name);
    return found == at->second.live.end() ? nullptr : found->second.get();
  }

  static std::pair<std::string, std::string> Split(const std::string& path) {
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return {"", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
  }

  static std::string Join(const std::string& folder, std::string_view name) {
    return folder.empty() ? std::string(name) : folder + "/" + std::string(name);
  }

  class OpenFile;
  class OpenFolder;
};

class FakeDisk::State::OpenFile final : public File {
 public:
  OpenFile(std::shared_ptr<State> state, InodePtr inode, std::string path, bool writable)
      : state_(std::move(state)),
        inode_(std::move(inode)),
        path_(std::move(path)),
        writable_(writable),
        life_(LifeOf(*state_)) {}

  // The lock is free when the token is gone.
  void HoldLock(std::shared_ptr<int> token) { lock_token_ = std::move(token); }

  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) override {
    MutexLock lock(state_->mutex);
    TENUTO_TRY(NotDead());
    if (Outcome outcome = state_->Step("read", path_); outcome.error) return *outcome.error;
    if (offset >= inode_->live.size()) return size_t{0};
    const size_t bytes = std::min<uint64_t>(out.size(), inode_->live.size() - offset);
    if (bytes > 0) std::memcpy(out.data(), inode_->live.data() + offset, bytes);
    return bytes;
  }

  Status WriteAt(uint64_t offset, std::span<const std::span<const std::byte>> parts) override {
    MutexLock lock(state_->mutex);
    TENUTO_TRY(NotDead());
    std::vector<std::byte> bytes;
    for (const auto part : parts)
      bytes.insert(bytes.end(), part.begin(), part.end());
    if (offset > kFileBytesMax || bytes.size() > kFileBytesMax - offset)
      return Error(Code::kInvalid, "write " + path_ + ": larger than a fake disk takes");
    Outcome outcome = state_->Step("write", path_);
    if (!writable_) return Error(Code::kIo, "write " + path_ + ": opened for reading only");
    if (outcome.error) {
      if (outcome.may_have_happened || !state_->Halted())
        inode_->Write(offset, Prefix(bytes, state_->random.Below(bytes.size() + 1)));
      return *outcome.error;
    }
    const uint64_t room = RoomFor(offset, bytes.size());
    inode_->Write(offset, Prefix(bytes, room));
    if (room < bytes.size())
      return Error(Code::kExhausted, "write " + path_ + ": no space left on the fake disk");
    return Ok();
  }

  Status Sync() override {
    MutexLock lock(state_->mutex);
    TENUTO_TRY(NotDead());
    Outcome outcome = state_->Step("sync", path_);
    if (!outcome.error) {
      inode_->Sync();
      return Ok();
    }
    // Killed in the middle, the bytes stay dirty and Crash() draws; a Sync that fails in a live
    // process loses them.
    if (!state_->Halted()) inode_->FailSync(state_->random);
    return *outcome.error;
  }

  Result<uint64_t> Size() override {
    MutexLock lock(state_->mutex);
    TENUTO_TRY(NotDead());
    TENUTO_TRY(state_->Alive(path_));
    return uint64_t{inode_->live.size()};
  }

 private:
  static uint64_t LifeOf(const State& state) TENUTO_NO_THREAD_ANALYSIS { return state.life; }

  static std::span<const std::byte> Prefix(const std::vector<std::byte>& bytes, uint64_t length) {
    return std::span<const std::byte>(bytes).first(length);
  }

  Status NotDead() const TENUTO_REQUIRES(state_->mutex) {
    if (life_ != state_->life)
      return Error(Code::kIo, "use " + path_ + ": opened before the fake disk crashed");
    return Ok();
  }

  // How many of `bytes` at `offset` the capacity lets through.
  uint64_t RoomFor(uint64_t offset, uint64_t bytes) const TENUTO_REQUIRES(state_->mutex) {
    const uint64_t size = inode_->live.size();
    if (state_->capacity == 0 || offset + bytes <= size) return bytes;
    const uint64_t used = state_->UsedBytes();
    const uint64_t free = state_->capacity > used ? state_->capacity - used : 0;
    const uint64_t end = std::min(offset + bytes, size + free);
    return end > offset ? end - offset : 0;
  }

  const std::shared_ptr<State> state_;
  const InodePtr inode_;
  const std::string path_;
  const bool writable_;
  const uint64_t life_;
  std::shared_ptr<int> lock_token_;
};

class FakeDisk::State::OpenFolder final : public Dir {
 public:
  OpenFolder(std::shared_ptr<State> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)) {}

  Result<std::unique_ptr<File>> OpenRead(std::string_view name) override {
    return Open(name, false);
  }
  Result<std::unique_ptr<File>> OpenWrite(std::string_view name) override {
    return Open(name, true);
  }

  Result<std::unique_ptr<File>> Create(std::string_view name) override {
    TENUTO_TRY(CheckFileName(name));
    MutexLock lock(state_->mutex);
    const std::string path = Join(path_, name);
    Outcome outcome = state_->Step("create", path);
    const bool exists = folder().live.contains(name) || state_->folders.contains(path);
    if (outcome.error) {
      if (outcome.may_have_happened && !exists && state_->random.Chance(0.5))
        folder().live.emplace(name, std::make_shared<Inode>());
      return *outcome.error;
    }
    if (exists) return Error(Code::kConflict, "create " + path + ": it exists");
    return Handle(folder().live.emplace(name, std::make_shared<Inode>()).first->second, path, true);
  }

  Status Remove(std::string_view name) override {
    TENUTO_TRY(CheckFileName(name));
    MutexLock lock(state_->mutex);
    const std::string path = Join(path_, name);
    Outcome outcome = state_->Step("remove", path);
    const auto found = folder().live.find(name);
    if (outcome.error) {
      if (outcome.may_have_happened && found != folder().live.end() && state_->random.Chance(0.5))
        folder().live.erase(found);
      return *outcome.error;
    }
    if (found == folder().live.end())
      return Error(Code::kNotFound, "remove " + path + ": there is none");
    folder().live.erase(found);
    return Ok();
  }

  Result<uint64_t> FreeBytes() override {
    MutexLock lock(state_->mutex);
    TENUTO_TRY(state_->Alive(path_));
    if (state_->capacity == 0) return UINT64_MAX;
    const uint64_t used = state_->UsedBytes();
    return state_->capacity > used ? state_->capacity - used : 0;
  }

  Status Sync() override {
    MutexLock lock(state_->mutex);
    Outcome outcome = state_->Step("sync folder", path_);
    if (!outcome.error || (outcome.may_have_happened && state_->random.Chance(0.5)))
      folder().durable = folder().live;
    if (outcome.error) return *outcome.error;
    return Ok();
  }

  Result<std::vector<std::string>> List() override {
    MutexLock lock(state_->mutex);
    TENUTO_TRY(state_->Alive(path_));
    std::vector<std::string> names;
    for (const auto& [name, inode] : folder().live)
      names.push_back(name);
    return names;
  }

  Result<std::unique_ptr<Dir>> Sub(std::string_view name) override {
    TENUTO_TRY(CheckFileName(name));
    MutexLock lock(state_->mutex);
    const std::string path = Join(path_, name);
    TENUTO_TRY(state_->Alive(path));
    if (folder().live.contains(name))
      return Error(Code::kIo, "open folder " + path + ": it is a file");
    state_->folders.try_emplace(path);
    return std::unique_ptr<Dir>(std::make_unique<OpenFolder>(state_, path));
  }

  Result<std::unique_ptr<File>> Lock(std::string_view name) override {
    TENUTO_TRY(CheckFileName(name));
    MutexLock lock(state_->mutex);
    const std::string path = Join(path_, name);
    TENUTO_TRY(state_->Alive(path));
    InodePtr& inode = folder().live[std::string(name)];
    if (!inode) inode = std::make_shared<Inode>();
    if (!inode->lock.expired())
      return Error(Code::kConflict,
                   path + " is locked by process 1; stop it or use another folder");
    static constexpr std::array<std::byte, 2> kPidText = {std::byte{'1'}, std::byte{'\n'}};
    inode->Write(0, kPidText);
    auto token = std::make_shared<int>(1);
    inode->lock = token;
    auto file = std::make_unique<OpenFile>(state_, inode, path, true);
    file->HoldLock(std::move(token));
    return std::unique_ptr<File>(std::move(file));
  }

 private:
  Folder& folder() TENUTO_REQUIRES(state_->mutex) { return state_->folders[path_]; }

  Result<std::unique_ptr<File>> Open(std::string_view name, bool writable) {
    TENUTO_TRY(CheckFileName(name));
    MutexLock lock(state_->mutex);
    const std::string path = Join(path_, name);
    TENUTO_TRY(state_->Alive(path));
    const auto found = folder().live.find(name);
    if (found != folder().live.end()) return Handle(found->second, path, writable);
    if (state_->folders.contains(path))
      return Error(Code::kIo, "open " + path + ": not a regular file");
    return Error(Code::kNotFound, "open " + path + ": there is none");
  }

  Result<std::unique_ptr<File>> Handle(InodePtr inode, const std::string& path, bool writable) {
    return std::unique_ptr<File>(
        std::make_unique<OpenFile>(state_, std::move(inode), path, writable));
  }

  const std::shared_ptr<State> state_;
  const std::string path_;
};

FakeDisk::FakeDisk(uint64_t seed) : state_(std::make_shared<State>(seed)) {
  MutexLock lock(state_->mutex);
  state_->folders.try_emplace("");
}

FakeDisk::~FakeDisk() = default;

std::unique_ptr<Dir> FakeDisk::Root() {
  return std::make_unique<State::OpenFolder>(state_, "");
}

void FakeDisk::Crash() {
  State& state = *state_;
  MutexLock lock(state.mutex);
  ++state.life;
  state.fail_at = state.halt_at = 0;
  std::set<Inode*> done;  // asked, never walked: the order of pointers is not the seed's
  for (auto& [path, folder] : state.folders) {
    Names all = folder.durable;
    all.insert(folder.live.begin(), folder.live.end());
    Names after;
    for (const auto& [name, unused] : all) {
      const auto was = folder.durable.find(name);
      const auto is = folder.live.find(name);
      const InodePtr old_inode = was == folder.durable.end() ? nullptr : was->second;
      const InodePtr new_inode = is == folder.live.end() ? nullptr : is->second;
      const bool take_new = old_inode == new_inode || state.random.Chance(0.5);
      const InodePtr& inode = take_new ? new_inode : old_inode;
      if (!inode) continue;
      if (done.insert(inode.get()).second) inode->Crash(state.random);
      after.emplace(name, inode);
    }
    folder.live = folder.durable = std::move(after);
  }
}

void FakeDisk::FailAtStep(uint64_t n, Code code) {
  MutexLock lock(state_->mutex);
  state_->fail_at = n == 0 ? 0 : state_->steps + n;
  state_->fail_code = code;
}

void FakeDisk::HaltAtStep(uint64_t n) {
  MutexLock lock(state_->mutex);
  state_->halt_at = n == 0 ? 0 : state_->steps + n;
}

void FakeDisk::SetCapacity(uint64_t bytes) {
  MutexLock lock(state_->mutex);
  state_->capacity = bytes;
}

uint64_t FakeDisk::steps() const {
  MutexLock lock(state_->mutex);
  return state_->steps;
}

Result<std::vector<std::byte>> FakeDisk::Contents(const std::string& path) const {
  MutexLock lock(state_->mutex);
  const Inode* inode = state_->Find(path);
  if (inode == nullptr) return Error(Code::kNotFound, "no file " + path + " on the fake disk");
  return inode->live;
}

void FakeDisk::Overwrite(const std::string& path, std::vector<std::byte> bytes) {
  MutexLock lock(state_->mutex);
  const auto [folder_path, name] = State::Split(path);
  TENUTO_CHECK(CheckFileName(name).ok());
  Folder& folder = state_->folders[folder_path];
  InodePtr& inode = folder.live[name];
  if (!inode) inode = std::make_shared<Inode>();
  inode->live = std::move(bytes);
  inode->durable = inode->live;
  inode->dirty.clear();
  folder.durable[name] = inode;
}

std::vector<std::string> FakeDisk::Paths() const {
  MutexLock lock(state_->mutex);
  std::vector<std::string> paths;
  for (const auto& [folder_path, folder] : state_->folders)
    for (const auto& [name, inode] : folder.live)
      paths.push_back(State::Join(folder_path, name));
  return paths;
}

}  // namespace tenuto
