#include "session/index_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "format/checksum.h"
#include "recall/gate.h"
#include "session/index_file.h"

namespace tenuto {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kToolsIdleMax = 8;
constexpr uint64_t kTurnsPerLag = 64;

// What a term takes in memory that was read, one that was added to (with its node in a hash table),
// and a token in the entries.
constexpr size_t kReadTermBytes = 40;
constexpr size_t kAddedTermBytes = 112;
constexpr size_t kTokenBytes = 2;

Error Damaged(std::string_view what) {
  return {Code::kCorrupt, "index file: " + std::string(what)};
}

}  // namespace

void IndexedSession::Clear() {
  index = RecallIndex();
  last_turn = {};
  lines = 0;
  ids = {};
  written_.reset();
  turns_tried_ = 0;
  bytes_read_ = 0;
  terms_read_ = 0;
  turns_measured_ = 0;
  tokens_added_ = 0;
}

IndexedSession::Mark IndexedSession::Now() const {
  return {last_turn, lines, index.turns().size(), index.turns_live()};
}

size_t IndexedSession::MeasureBytes() {
  const auto& turns = index.turns();
  for (; turns_measured_ < turns.size(); ++turns_measured_)
    tokens_added_ += turns[turns_measured_].tokens;
  const size_t tokens = static_cast<size_t>(tokens_added_);
  // A term that was read is copied when it is added to. Each token may be of another one, and the
  // first ones are of those that have most of the bytes.
  const size_t terms_new = index.terms() - std::min(terms_read_, index.terms());
  const size_t terms_added = std::min(index.terms(), terms_new + tokens);
  const size_t bytes_copied = tokens > 0 ? bytes_read_ : 0;
  return sizeof(IndexedSession) + ids.MemoryBytes() + index.DenseBytes() +
         turns.capacity() * sizeof(TurnInfo) + index.passages().capacity() * sizeof(PassageInfo) +
         bytes_read_ + bytes_copied + terms_read_ * kReadTermBytes + terms_added * kAddedTermBytes +
         tokens * kTokenBytes;
}

IndexCache::IndexCache(std::unique_ptr<Dir> dir, Clock& clock, Metrics& metrics,
                       IndexCacheOptions options)
    : options_(std::move(options)),
      clock_(clock),
      indexes_(metrics.GetGauge("tenuto_recall_indexes", "Recall indexes in memory")),
      loads_(metrics.GetCounter("tenuto_recall_index_loads_total",
                                "Recall indexes read from their files")),
      write_errors_(metrics.GetCounter("tenuto_recall_index_write_errors_total",
                                       "Recall indexes that could not be written")),
      dir_(std::move(dir)) {
  constexpr std::array<std::string_view, kRebuildReasons> kNames = {"corrupt", "version", "owner",
                                                                    "io", "asked"};
  for (size_t i = 0; i < kRebuildReasons; ++i) {
    rebuilds_[i] =
        &metrics.GetCounter("tenuto_recall_index_rebuilds_total", "Recall indexes given up, by why",
                            MetricLabel("reason", kNames[i]));
  }
}

IndexCache::~IndexCache() {
  indexes_.Set(0);
}

// ------------------------------------------------------------------------------- entries in memory

std::shared_ptr<IndexedSession> IndexCache::FindOrAdd(int64_t session_id) {
  TENUTO_CHECK(session_id > 0);
  const int64_t now_ns = clock_.MonotonicNs();
  MutexLock lock(mutex_);
  const auto found = by_id_.find(session_id);
  if (found != by_id_.end()) {
    slots_.splice(slots_.begin(), slots_, found->second);
  } else {
    slots_.push_front({std::make_shared<IndexedSession>(session_id), 0, 0, 0, false});
    by_id_[session_id] = slots_.begin();
    indexes_.Set(static_cast<int64_t>(slots_.size()));
  }
  slots_.front().used_ns = now_ns;
  slots_.front().uses = ++uses_;
  return slots_.front().entry;
}

std::shared_ptr<IndexedSession> IndexCache::Get(int64_t session_id, const Digest256& owner) {
  std::shared_ptr<IndexedSession> entry = FindOrAdd(session_id);
  Load(*entry, owner);
  Used(*entry);
  if (bytes() > options_.bytes_max) DropUnusedSince(INT64_MIN);
  return entry;
}

void IndexCache::Used(IndexedSession& entry) {
  size_t entry_bytes = 0;
  bool due = false;
  {
    MutexLock lock(entry.mutex);
    entry_bytes = entry.MeasureBytes();
    due = entry.index.turns().size() >= entry.turns_tried_ + options_.write_turns;
  }
  const int64_t now_ns = clock_.MonotonicNs();
  MutexLock lock(mutex_);
  const auto found = by_id_.find(entry.session_id);
  if (found == by_id_.end() || found->second->entry.get() != &entry) return;
  Slot& slot = *found->second;
  bytes_ += entry_bytes - slot.bytes;
  slot.bytes = entry_bytes;
  slot.due = due;
  slot.used_ns = now_ns;
  slot.uses = ++uses_;
  slots_.splice(slots_.begin(), slots_, found->second);
}

std::optional<IndexCache::Victim> IndexCache::NextVictim(int64_t before_ns) {
  MutexLock lock(mutex_);
  for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot) {
    if (slot->used_ns > before_ns && bytes_ <= options_.bytes_max) break;
    // Nobody else can take a hold of it while the map is locked.
    if (slot->entry.use_count() == 1) return Victim{slot->entry, slot->uses};
  }
  return std::nullopt;
}

// The entry can be found until its file is written, so that no other can come to be beside it.
void IndexCache::Drop(const Victim& victim) {
  Write(*victim.entry, WriteWhen::kLeaving);
  MutexLock lock(mutex_);
  const auto found = by_id_.find(victim.entry->session_id);
  if (found == by_id_.end()) return;
  const Slot& slot = *found->second;
  const bool unused = slot.uses == victim.uses && victim.entry.use_count() == 2;
  if (slot.entry == victim.entry && unused) EraseSlot(found->second);
}

void IndexCache::EraseSlot(Slots::iterator slot) {
  bytes_ -= slot->bytes;
  bytes_left_behind_ += slot->bytes;
  by_id_.erase(slot->entry->session_id);
  slots_.erase(slot);
  indexes_.Set(static_cast<int64_t>(slots_.size()));
}

void IndexCache::DropUnusedSince(int64_t before_ns) {
  // One that is taken up again while it is written stays: don't wait for it.
  for (size_t tries = sessions(); tries > 0; --tries) {
    const std::optional<Victim> victim = NextVictim(before_ns);
    if (!victim) return;
    Drop(*victim);
  }
}

void IndexCache::DropIdle() {
  DropUnusedSince(clock_.MonotonicNs() - options_.idle_ms * kNsPerMs);
  GiveBack();
}

void IndexCache::GiveBack() {
  const int64_t now_ns = clock_.MonotonicNs();
  {
    MutexLock lock(mutex_);
    const bool soon = gave_back_ns_ != INT64_MIN &&
                      now_ns - gave_back_ns_ < options_.give_back_pause_ms * kNsPerMs;
    if (bytes_left_behind_ < options_.give_back_bytes || soon) return;
    bytes_left_behind_ = 0;
    gave_back_ns_ = now_ns;
  }
  {
    MutexLock lock(tools_mutex_);
    tools_.clear();  // the scratch memory of each is as large as the largest index it was used for
  }
  options_.give_back();
}

size_t IndexCache::sessions() const {
  MutexLock lock(mutex_);
  return slots_.size();
}

size_t IndexCache::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

void IndexCache::ReturnTools::operator()(RecallTools* tools) const {
  std::unique_ptr<RecallTools> owned(tools);
  MutexLock lock(cache->tools_mutex_);
  if (cache->tools_.size() < kToolsIdleMax) cache->tools_.push_back(std::move(owned));
}

IndexCache::ToolsPtr IndexCache::Tools() {
  std::unique_ptr<RecallTools> tools;
  {
    MutexLock lock(tools_mutex_);
    if (!tools_.empty()) {
      tools = std::move(tools_.back());
      tools_.pop_back();
    }
  }
  if (!tools) tools = std::make_unique<RecallTools>(options_.scorer);
  return ToolsPtr(tools.release(), ReturnTools{this});
}

size_t IndexCache::tools_idle() const {
  const MutexLock lock(tools_mutex_);
  return tools_.size();
}

void IndexCache::WarmTools() {
  const ToolsPtr tools = Tools();
  RecallIndex index;
  index.Add(tools->analyser, {.turn = 1,
                              .time = {},
                              .user = "No, we met on 3 May 2024.",
                              .answer = "Noted.",
                              .tool = "",
                              .name = "",
                              .recalled = {}});
  const Query query = BuildQuery(tools->analyser, index,
                                 {.text = "When did we meet, and what did you say?",
                                  .time = {},
                                  .last_user = "",
                                  .last_answer = ""});
  (void)ApplyGate(tools->scorer.Rank(index, query, {{{1, 2}}, {}}, 1), {});
}

// ------------------------------------------------------------------------------------------
// reading

void IndexCache::Load(IndexedSession& entry, const Digest256& owner) {
  {
    MutexLock lock(entry.mutex);
    if (entry.loaded_ && entry.owner_ == owner) return;
  }
  MutexLock file_lock(entry.file_mutex_);
  MutexLock lock(entry.mutex);
  if (entry.loaded_ && entry.owner_ == owner) return;
  const bool other_owner = entry.loaded_ && entry.owner_.has_value();
  const bool read = !entry.loaded_ && dir_ != nullptr;
  entry.loaded_ = true;
  entry.owner_ = owner;
  if (other_owner) {
    CountRebuild(entry, RebuildReason::kOwner, "used under another owner");
    entry.Clear();
  }
  if (!read) return;
  const Status status = ReadInto(entry, owner);
  if (status) {
    loads_.Add();
    entry.written_ = entry.Now();
    entry.turns_tried_ = entry.written_->turns;
    return;
  }
  const Error& error = status.error();
  switch (error.code()) {
    case Code::kNotFound:
      return;
    case Code::kCorrupt:
      return CountRebuild(entry, RebuildReason::kCorrupt, error.message());
    case Code::kInvalid:
      return CountRebuild(entry, RebuildReason::kVersion, error.message());
    case Code::kConflict:
      return CountRebuild(entry, RebuildReason::kOwner, error.message());
    default:
      return CountRebuild(entry, RebuildReason::kIo, error.message());
  }
}

void IndexCache::CountRebuild(const IndexedSession& entry, RebuildReason reason,
                              std::string_view why) {
  rebuilds_[static_cast<size_t>(reason)]->Add();
  Log(LogLevel::kInfo, "recall.index_rebuilt", {{"session_id", entry.session_id}, {"why", why}});
}

// kConflict: another owner's. The entry is changed only when all is well.
Status IndexCache::ReadInto(IndexedSession& entry, const Digest256& owner) {
  std::unique_ptr<File> file;
  {
    MutexLock lock(dir_mutex_);
    TENUTO_ASSIGN(file, dir_->OpenRead(IndexFileName(entry.session_id)));
  }
  TENUTO_ASSIGN(const uint64_t file_bytes, file->Size());
  std::array<std::byte, kIndexFileHeaderBytes> head;
  TENUTO_ASSIGN(const size_t head_bytes, file->ReadAt(0, head));
  TENUTO_ASSIGN(const IndexFileHeader header,
                DecodeIndexFileHeader(std::span(head).first(head_bytes), file_bytes));
  const size_t size = header.FileBytes() - kIndexFileHeaderBytes;
  const auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
  TENUTO_ASSIGN(const size_t rest_bytes,
                file->ReadAt(kIndexFileHeaderBytes, std::span(bytes.get(), size)));
  if (rest_bytes != size) return Damaged("cut short");

  const std::span<const std::byte> rest(bytes.get(), size);
  const auto last_turn = rest.first(header.last_turn_bytes);
  const auto index_bytes = rest.subspan(header.last_turn_bytes, header.index_bytes);
  const auto seal = rest.last(kIndexFileSealBytes);
  const Digest256 expected = IndexFileSeal(head, last_turn, index_bytes);
  if (!std::equal(seal.begin(), seal.end(), expected.bytes.begin())) return Damaged("seal");
  if (header.session_id != entry.session_id || header.owner != owner) {
    return Error(Code::kConflict, "index file: of another session or owner");
  }
  TENUTO_ASSIGN(RecallIndex index, RecallIndex::Decode(bytes, index_bytes));
  entry.index = std::move(index);
  entry.last_turn.value.assign(last_turn.size(), '\0');
  std::transform(last_turn.begin(), last_turn.end(), entry.last_turn.value.begin(),
                 [](std::byte b) { return static_cast<char>(b); });
  entry.lines = header.lines;
  entry.bytes_read_ = index_bytes.size();
  entry.terms_read_ = entry.index.terms();
  entry.turns_measured_ = entry.index.turns().size();
  return Ok();
}

// ------------------------------------------------------------------------------------------
// writing

void IndexCache::Write(IndexedSession& entry, WriteWhen when) {
  if (!dir_) return;
  IndexFileHeader header;
  header.session_id = entry.session_id;
  MutexLock file_lock(entry.file_mutex_);
  IndexedSession::Mark mark;
  std::vector<std::byte> index;
  {
    MutexLock lock(entry.mutex);
    if (!entry.loaded_ || entry.removed_ || !entry.owner_) return;
    mark = entry.Now();
    const auto before = entry.written_.value_or(IndexedSession::Mark());
    if (mark == before) return;
    const size_t added = mark.turns - before.turns;
    const bool only_grew =
        mark.turns >= before.turns && mark.turns_live == before.turns_live + added;
    const uint64_t lag = std::min<uint64_t>(options_.lag_turns_max, mark.turns / kTurnsPerLag);
    if (when == WriteWhen::kLeaving && only_grew && added <= lag) return;
    header.owner = *entry.owner_;
    header.lines = mark.lines;
    index = entry.index.Encode();
    entry.turns_tried_ = mark.turns;
  }
  const auto last_turn = std::as_bytes(std::span(mark.last_turn.value));
  TENUTO_CHECK(last_turn.size() <= kIndexFileTurnBytesMax && index.size() >= kChecksumBytes);
  header.last_turn_bytes = last_turn.size();
  header.index_bytes = index.size();
  std::array<std::byte, kIndexFileHeaderBytes> head;
  EncodeIndexFileHeader(header, head);
  const Digest256 seal = IndexFileSeal(head, last_turn, index);
  const std::span<const std::byte> parts[] = {head, last_turn, index, seal.bytes};
  const Status status = header.FileBytes() <= kIndexFileBytesMax
                            ? WriteFile(IndexFileName(entry.session_id), parts)
                            : Error(Code::kExhausted, "index file: larger than it may be");
  NoteWritten(status, entry.session_id);
  MutexLock lock(entry.mutex);
  entry.written_ = status ? std::optional(std::move(mark)) : std::nullopt;
}

// No Sync: what a crash leaves is found out by the seal or is an older state, and is rebuilt or
// caught up with; commits of the log need the disk more.
Status IndexCache::WriteFile(const std::string& name,
                             std::span<const std::span<const std::byte>> parts) {
  std::unique_ptr<File> file;
  {
    MutexLock lock(dir_mutex_);
    if (Status status = dir_->Remove(name); !status && status.error().code() != Code::kNotFound) {
      return status;
    }
    TENUTO_ASSIGN(file, dir_->Create(name));
  }
  Status status = file->WriteAt(0, parts);
  if (!status) {
    MutexLock lock(dir_mutex_);
    // A part of an index is of no use and takes the room of what is. If it stays, its seal is
    // wrong.
    (void)dir_->Remove(name);
  }
  return status;
}

void IndexCache::NoteWritten(const Status& status, int64_t session_id) {
  if (status) {
    write_failed_ = false;
    return;
  }
  write_errors_.Add();
  if (write_failed_.exchange(true)) return;
  Log(LogLevel::kInfo, "recall.index_not_written",
      {{"session_id", session_id}, {"why", status.error().message()}});
}

void IndexCache::WriteDue() {
  std::vector<std::shared_ptr<IndexedSession>> due;
  {
    MutexLock lock(mutex_);
    for (Slot& slot : slots_) {
      if (slot.due) due.push_back(slot.entry);
      slot.due = false;
    }
  }
  for (const auto& entry : due)
    Write(*entry, WriteWhen::kChanged);
}

void IndexCache::FlushAll() {
  std::vector<std::shared_ptr<IndexedSession>> all;
  {
    MutexLock lock(mutex_);
    for (const Slot& slot : slots_)
      all.push_back(slot.entry);
  }
  for (const auto& entry : all)
    Write(*entry, WriteWhen::kChanged);
}

// -----------------------------------------------------------------------------------------
// removing

// Synced, even where there is no file now: one that a write replaced could come back with what was
// deleted.
Result<bool> IndexCache::RemoveFile(const std::string& name) {
  if (!dir_) return false;
  MutexLock lock(dir_mutex_);
  const Status removed = dir_->Remove(name);
  if (!removed && removed.error().code() != Code::kNotFound) return removed.error();
  TENUTO_TRY(dir_->Sync());
  return removed.ok();
}

Status IndexCache::Discard(IndexedSession& entry, DiscardFor what) {
  MutexLock file_lock(entry.file_mutex_);
  bool had_turns = false;
  {
    MutexLock lock(entry.mutex);
    had_turns = !entry.index.turns().empty();
    entry.Clear();
    entry.loaded_ = true;
    entry.removed_ = what == DiscardFor::kEver;
  }
  const Result<bool> had_file = RemoveFile(IndexFileName(entry.session_id));
  if (what == DiscardFor::kRebuild && (had_turns || (had_file && *had_file))) {
    CountRebuild(entry, RebuildReason::kAsked, "a turn was deleted");
  }
  if (!had_file) return had_file.error();
  return Ok();
}

Status IndexCache::Rebuild(int64_t session_id) {
  const std::shared_ptr<IndexedSession> entry = FindOrAdd(session_id);
  Status status = Discard(*entry, DiscardFor::kRebuild);
  Used(*entry);
  return status;
}

Status IndexCache::Remove(int64_t session_id) {
  const std::shared_ptr<IndexedSession> entry = FindOrAdd(session_id);
  Status status = Discard(*entry, DiscardFor::kEver);
  MutexLock lock(mutex_);
  const auto found = by_id_.find(session_id);
  if (found != by_id_.end() && found->second->entry == entry) EraseSlot(found->second);
  return status;
}

Result<std::vector<int64_t>> IndexCache::StoredSessions() {
  std::vector<int64_t> ids;
  if (!dir_) return ids;
  MutexLock lock(dir_mutex_);
  TENUTO_ASSIGN(const std::vector<std::string> names, dir_->List());
  for (const std::string& name : names) {
    if (const auto id = SessionOfIndexFile(name)) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace tenuto
