#include "session/residency.h"

#include <algorithm>

namespace tenuto {

Residency::Residency(Engine& engine, Metrics& metrics)
    : engine_(engine),
      evictions_(metrics.GetCounter("tenuto_evictions_total",
                                    "Idle sequences whose live KV was dropped to make room")) {
  for (int32_t i = engine.info().sequences - 1; i >= 0; --i)
    free_.push_back(SeqId{i});
}

bool Residency::Reserve(Resident& resident, TokenPos end) {
  Touch(resident);
  const int32_t cells = engine_.info().cells;
  while (promised_ - resident.reserved_end + end > cells) {
    Resident* oldest = OldestIdle(&resident);
    if (oldest == nullptr) return false;
    Evict(*oldest);
  }
  if (!resident.live()) {
    if (free_.empty()) {
      Resident* oldest = OldestIdle(&resident);
      if (oldest == nullptr) return false;
      Evict(*oldest);
    }
    resident.seq = free_.back();
    free_.pop_back();
    resident.live_end = 0;
    resident.reserved_end = 0;
    live_[resident.seq] = &resident;
  }
  const TokenPos wanted = std::max(end, resident.live_end);
  promised_ += wanted - resident.reserved_end;
  resident.reserved_end = wanted;
  return true;
}

bool Residency::ReserveUnused(Resident& resident, TokenPos end) {
  const TokenPos wanted = std::max(end, resident.reserved_end);
  if (promised_ - resident.reserved_end + wanted > engine_.info().cells) return false;
  if (!resident.live() && free_.empty()) return false;
  return Reserve(resident, end);
}

void Residency::Settle(Resident& resident, TokenPos live_end) {
  if (!resident.live()) return;
  resident.live_end = live_end;
  promised_ += live_end - resident.reserved_end;
  resident.reserved_end = live_end;
}

void Residency::Evict(Resident& resident) {
  if (!resident.live()) return;
  if (resident.pins > 0) {
    // An export still reads it: the sequence stays its own, ordered behind that, but holds nothing
    // any more.
    engine_.Truncate(resident.seq, 0, nullptr);
    Settle(resident, 0);
    return;
  }
  promised_ -= resident.reserved_end;
  live_.erase(resident.seq);
  free_.push_back(resident.seq);
  engine_.Truncate(resident.seq, 0, nullptr);
  resident.seq = SeqId{};
  resident.live_end = 0;
  resident.reserved_end = 0;
  evictions_.Add();
  // Last: the holder may be destroyed by it.
  if (resident.on_evicted) {
    const auto on_evicted = resident.on_evicted;
    on_evicted();
  }
}

Resident* Residency::OldestIdle(const Resident* except) {
  Resident* oldest = nullptr;
  for (const auto& [seq, resident] : live_) {
    if (resident == except || resident->pins > 0) continue;
    if (oldest == nullptr || resident->last_used < oldest->last_used) oldest = resident;
  }
  return oldest;
}

bool Residency::EvictOldestIdle() {
  Resident* oldest = OldestIdle(nullptr);
  if (oldest == nullptr) return false;
  Evict(*oldest);
  return true;
}

void Residency::TrimIdle(int32_t tokens, const Resident& except) {
  int32_t idle = 0;
  for (const auto& [seq, resident] : live_)
    if (resident != &except && resident->pins == 0) idle += resident->live_end;
  while (idle > tokens) {
    Resident* oldest = OldestIdle(&except);
    if (oldest == nullptr) return;
    idle -= oldest->live_end;
    Evict(*oldest);
  }
}

bool Residency::CheckConsistent() const {
  int32_t sum = 0;
  for (const auto& [seq, resident] : live_) {
    if (resident->seq != seq || resident->reserved_end < resident->live_end) return false;
    sum += resident->reserved_end;
  }
  return sum == promised_ &&
         live_.size() + free_.size() == static_cast<size_t>(engine_.info().sequences);
}

}  // namespace tenuto
