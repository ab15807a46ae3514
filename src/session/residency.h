// Which sequences of the engine are in use, by whom, and how many KV cells are promised. Decides
// who is evicted. Belongs to the core runner (not thread-safe). Counts cells without sharing: an
// upper bound of what is really used.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/metrics.h"
#include "engine/engine.h"

namespace tenuto {

// Something that may hold KV in the engine: a session, or a request without one. Embedded in its
// holder, which must call Residency::Evict before it goes away.
struct Resident {
  SeqId seq;                         // value < 0: nothing is live
  TokenPos live_end = 0;             // the engine holds KV of [0, live_end)
  TokenPos reserved_end = 0;         // cells promised; >= live_end
  int32_t pins = 0;                  // > 0: a turn or an export uses it, it can't be evicted
  uint64_t last_used = 0;            // order, not time
  std::function<void()> on_evicted;  // may be empty

  bool live() const { return seq.value >= 0; }
};

class Residency {
 public:
  Residency(Engine& engine, Metrics& metrics);

  // Gives `resident` a sequence (unless it has one) and promises it cells up to position `end`,
  // evicting idle others, the longest unused first. False: not now, nothing was changed beyond
  // evictions.
  bool Reserve(Resident& resident, TokenPos end);
  // Likewise with cells and sequences that nobody has, evicting none.
  bool ReserveUnused(Resident& resident, TokenPos end);
  // The promise shrinks to what is live (a turn is over).
  void Settle(Resident& resident, TokenPos live_end);
  // Drops the KV and frees the sequence. While it is pinned only the KV goes. No effect when
  // nothing is live.
  void Evict(Resident& resident);
  // Evicts the longest unused idle resident. False when there is none.
  bool EvictOldestIdle();
  // Evicts idle residents, the longest unused first, until idle ones hold at most `tokens` in all;
  // `except` stays.
  void TrimIdle(int32_t tokens, const Resident& except);
  void Touch(Resident& resident) { resident.last_used = ++use_counter_; }

  // Promises and sequences add up: for invariant checks.
  bool CheckConsistent() const;

 private:
  Resident* OldestIdle(const Resident* except);

  Engine& engine_;
  Counter& evictions_;
  std::vector<SeqId> free_;
  std::unordered_map<SeqId, Resident*> live_;
  int32_t promised_ = 0;  // sum of reserved_end
  uint64_t use_counter_ = 0;
};

}  // namespace tenuto
