// Keeps the recall indexes of sessions, in memory and in a file each, so that a query builds none
// again. What is in them comes from the token log; this only holds, drops, writes and reads them.
// An index is derived (INV-1): a file that is missing, damaged, foreign or of another version is an
// empty index, which the caller fills from the log.
//
// Thread-safe and blocking: for pool threads. The way of a query:
//
//     auto entry = cache.Get(session_id, owner);
//     const auto tools = cache.Tools();
//     {
//       MutexLock lock(entry->mutex);
//       // last_turn is not turn `lines` of the log: entry->Clear(). Then add what the log has
//       after
//       // `lines`, raise both, query.
//     }
//     cache.Used(*entry);
//
// Order of locks: an entry's file lock, its mutex, then those of the cache. docs/formats/
// recall_index.md has the file.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/result.h"
#include "crypto/hash.h"
#include "io/clock.h"
#include "io/file.h"
#include "recall/scorer.h"
#include "session/heap.h"
#include "session/turn_ids.h"

namespace tenuto {

struct IndexCacheOptions {
  int64_t idle_ms = 60'000;       // unused for so long, an index leaves memory
  size_t bytes_max = 256 * kMiB;  // of memory, estimated; what is in use may pass it
  // An index in use is written when it has so many turns more than its file.
  uint32_t write_turns = 1024;
  // An index that leaves memory is written, unless its file lacks at most one in 64 of its turns
  // and no more than this: adding those again costs less than writing a large file for each turn.
  uint32_t lag_turns_max = 16;
  // Once indexes of so much have left, and no more often than this, freed memory is given back. The
  // C library keeps what lies between other allocations, and an index is thousands of small ones:
  // 600 KiB stayed of each index of 20,000 turns.
  size_t give_back_bytes = 256 * kKiB;
  int64_t give_back_pause_ms = 5'000;
  std::function<void()> give_back = GiveFreedMemoryBack;
  ScorerSettings scorer;
};

// The index of one session. Who holds one keeps it in memory.
struct IndexedSession {
  explicit IndexedSession(int64_t session) : session_id(session) {}

  // Back to no turns, to be filled anew.
  void Clear() TENUTO_REQUIRES(mutex);

  const int64_t session_id;
  Mutex mutex;
  RecallIndex index TENUTO_GUARDED_BY(mutex);
  TurnId last_turn TENUTO_GUARDED_BY(mutex);    // the newest in the index; empty: none
  uint64_t lines TENUTO_GUARDED_BY(mutex) = 0;  // turns [1, lines] of the line are in it
  TurnIds ids TENUTO_GUARDED_BY(mutex);         // of turns added since it was read

 private:
  friend class IndexCache;

  // What an index was at a moment: tells whether it grew, or changed otherwise.
  struct Mark {
    TurnId last_turn;
    uint64_t lines = 0;
    size_t turns = 0;
    uint32_t turns_live = 0;
    bool operator==(const Mark&) const = default;
  };
  Mark Now() const TENUTO_REQUIRES(mutex);
  size_t MeasureBytes() TENUTO_REQUIRES(mutex);

  // Held while the file is read, written or removed; taken before `mutex`, which a slow disk must
  // not hold.
  Mutex file_mutex_;
  bool loaded_ TENUTO_GUARDED_BY(mutex) = false;
  bool removed_ TENUTO_GUARDED_BY(mutex) = false;  // the session is gone: nothing is written
  std::optional<Digest256> owner_ TENUTO_GUARDED_BY(mutex);
  std::optional<Mark> written_ TENUTO_GUARDED_BY(mutex);  // in the file
  size_t turns_tried_ TENUTO_GUARDED_BY(mutex) = 0;       // at the last write, good or bad
  // For the estimate of memory: what was read lies closer than what was added since.
  size_t bytes_read_ TENUTO_GUARDED_BY(mutex) = 0;
  size_t terms_read_ TENUTO_GUARDED_BY(mutex) = 0;
  size_t turns_measured_ TENUTO_GUARDED_BY(mutex) = 0;
  uint64_t tokens_added_ TENUTO_GUARDED_BY(mutex) = 0;  // of turns measured, not of those read
};

// What a thread needs beside an index.
struct RecallTools {
  explicit RecallTools(const ScorerSettings& settings) : scorer(settings) {}
  Analyser analyser;
  RecallScorer scorer;
};

class IndexCache {
 public:
  // `dir` may be null: then indexes are in memory only. `clock` and `metrics` outlive the cache.
  IndexCache(std::unique_ptr<Dir> dir, Clock& clock, Metrics& metrics,
             IndexCacheOptions options = {});
  ~IndexCache();
  IndexCache(const IndexCache&) = delete;
  IndexCache& operator=(const IndexCache&) = delete;

  // From memory, else from its file, else empty. Never null; the same for all who ask while one of
  // them holds it. `owner`: a digest of what the index must agree with beside its turns; an index
  // under another one is dropped. Waits for whoever has the entry locked: don't call it with an
  // entry's mutex held. Drops the longest unused when memory is over its bound.
  std::shared_ptr<IndexedSession> Get(int64_t session_id, const Digest256& owner);
  // After each use, not locked: keeps the account of memory and of what is to be written.
  void Used(IndexedSession& entry);

  // Off the response path, from a timer: writes what has grown by `write_turns`.
  void WriteDue();
  // Likewise: drops what was not used for `idle_ms`, and the longest unused beyond `bytes_max`;
  // gives back what indexes left behind.
  void DropIdle();
  // Writes all that changed; at shutdown.
  void FlushAll();

  // A turn of the session was deleted, or its line is another: the index becomes empty, also for
  // those who hold it, and its file is gone for good on return. kIo, kDenied: the file may still be
  // there. Call it before the log commits the deletion and after: a query between may have read the
  // turn again.
  Status Rebuild(int64_t session_id);
  // The session was deleted: likewise, and nothing is written for those who still hold it.
  Status Remove(int64_t session_id);
  // Sessions that have a file, ascending: those that the log does not know are to be removed.
  Result<std::vector<int64_t>> StoredSessions();

  struct ReturnTools {
    IndexCache* cache = nullptr;
    void operator()(RecallTools* tools) const;
  };
  using ToolsPtr = std::unique_ptr<RecallTools, ReturnTools>;
  // For one thread, until it is destroyed; not beyond the cache. Reused, for the scorer's scratch
  // memory grows to the size of the largest index.
  ToolsPtr Tools();
  // Tools that have looked at a message lie ready. The first such look makes ICU's and our own
  // tables: milliseconds that the first question after a start need not wait for.
  void WarmTools();

  size_t sessions() const;
  size_t bytes() const;  // estimated
  size_t tools_idle() const;

 private:
  struct Slot {
    std::shared_ptr<IndexedSession> entry;
    int64_t used_ns = 0;
    uint64_t uses = 0;
    size_t bytes = 0;
    bool due = false;
  };
  using Slots = std::list<Slot>;  // the one used last comes first
  enum class WriteWhen : uint8_t { kChanged, kLeaving };
  enum class DiscardFor : uint8_t { kRebuild, kEver };
  enum class RebuildReason : uint8_t { kCorrupt, kVersion, kOwner, kIo, kAsked };
  static constexpr size_t kRebuildReasons = 5;
  struct Victim {
    std::shared_ptr<IndexedSession> entry;
    uint64_t uses = 0;
  };

  std::shared_ptr<IndexedSession> FindOrAdd(int64_t session_id);
  void Load(IndexedSession& entry, const Digest256& owner);
  Status ReadInto(IndexedSession& entry, const Digest256& owner) TENUTO_REQUIRES(entry.mutex);
  void CountRebuild(const IndexedSession& entry, RebuildReason reason, std::string_view why);
  Status Discard(IndexedSession& entry, DiscardFor what);
  void Write(IndexedSession& entry, WriteWhen when);
  Status WriteFile(const std::string& name, std::span<const std::span<const std::byte>> parts);
  // False: there was none.
  Result<bool> RemoveFile(const std::string& name);
  void NoteWritten(const Status& status, int64_t session_id);
  // The longest unused that nobody holds, if it was unused since `before_ns` or memory is over its
  // bound.
  std::optional<Victim> NextVictim(int64_t before_ns);
  void Drop(const Victim& victim);
  void EraseSlot(Slots::iterator slot) TENUTO_REQUIRES(mutex_);
  void DropUnusedSince(int64_t before_ns);
  void GiveBack();

  const IndexCacheOptions options_;
  Clock& clock_;
  Gauge& indexes_;
  Counter& loads_;
  std::array<Counter*, kRebuildReasons> rebuilds_{};
  Counter& write_errors_;

  Mutex dir_mutex_;  // names come and go one at a time
  const std::unique_ptr<Dir> dir_;
  std::atomic<bool> write_failed_ = false;  // logged once until one succeeds

  mutable Mutex mutex_;
  Slots slots_ TENUTO_GUARDED_BY(mutex_);
  std::unordered_map<int64_t, Slots::iterator> by_id_ TENUTO_GUARDED_BY(mutex_);
  size_t bytes_ TENUTO_GUARDED_BY(mutex_) = 0;
  uint64_t uses_ TENUTO_GUARDED_BY(mutex_) = 0;
  size_t bytes_left_behind_ TENUTO_GUARDED_BY(mutex_) = 0;  // since memory was given back
  int64_t gave_back_ns_ TENUTO_GUARDED_BY(mutex_) = INT64_MIN;

  mutable Mutex tools_mutex_;
  std::vector<std::unique_ptr<RecallTools>> tools_ TENUTO_GUARDED_BY(tools_mutex_);
};

}  // namespace tenuto
