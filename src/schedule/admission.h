// Which of the turns that are ready gets the next place in the engine, and who gives one up when KV
// cells run out. Belongs to the core runner.
//
// First come those that were taken off the engine: they were admitted once, and their clients read
// an answer that has stopped. Then the order of the fair queue, strictly: a turn that does not fit
// yet is not passed by those behind it, else a large one would starve. Before it come only turns
// that the fair order puts there, by a bounded number of tokens. The only others that are passed
// are a tenant's that runs as many turns as it may: nothing of it fits, and others don't wait for
// that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "base/metrics.h"
#include "schedule/fair_queue.h"
#include "schedule/pace.h"
#include "session/turn.h"

namespace tenuto {

class SessionManager;

FairFlow FlowOf(const TurnRequest& request);
// So far: prompt tokens that had no KV, and the answer's.
int64_t TokensComputed(const Turn& turn);

struct AdmissionSettings {
  int32_t turns_running_max = 8;
  int32_t tenant_turns_running_max = 0;  // 0: no limit of its own
  std::map<std::string, int32_t> tenant_weights{};
};

class Admission {
 public:
  Admission(AdmissionSettings settings, SessionManager& sessions, Metrics& metrics);

  // It waits from now on. REQUIRES: it was charged.
  void Ready(const TurnPtr& turn);
  // It is off the engine again. Resume follows, unless it ended just then.
  void OffEngine(const TurnPtr& turn);
  void Resume(const TurnPtr& turn);
  // It does not wait any more.
  void Drop(const TurnPtr& turn);
  // It has ended, whatever it was at. Its flow is charged with what it did compute.
  void Ended(const TurnPtr& turn);
  // There may be room.
  void Room();
  // A running turn has no cells for its next token.
  void RelievePressure();

  int32_t turns_running_max() const { return settings_.turns_running_max; }
  size_t waiting() const { return waiting_.size(); }  // that never ran
  size_t admitted(const std::string& tenant) const;   // that run, or did and go on
  const AdmissionPace& pace() const { return pace_; }
  // Turns in the engine.
  size_t running() const { return running_.size(); }
  size_t running(TurnPriority priority) const { return counts_[static_cast<size_t>(priority)]; }

 private:
  void Pump();
  TurnPtr Next();
  void Start(const TurnPtr& turn);
  void LeaveEngine(const TurnPtr& turn);

  const AdmissionSettings settings_;
  SessionManager& sessions_;
  Gauge& running_gauge_;
  Histogram& queue_seconds_;

  FairQueue queue_;
  std::map<uint64_t, TurnPtr> waiting_;      // in the queue
  std::deque<TurnPtr> preempted_;            // the last one first
  std::map<uint64_t, TurnPtr> running_;      // in the engine
  std::array<size_t, 2> counts_{};           // of them, by priority
  std::map<std::string, int32_t> admitted_;  // running or preempted, by tenant
  AdmissionPace pace_;
  uint64_t admissions_ = 0;
  TurnPtr preempting_;  // asked to leave the engine, and not off it yet
  // A running turn waits for cells, and nothing could be done when it said so.
  bool starved_ = false;
  // What was preempted waits until a turn has ended: it would only take the cells back.
  bool hold_back_ = false;
};

}  // namespace tenuto
