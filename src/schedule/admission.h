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
#include "session/turn.h"

namespace tenuto {

class SessionManager;

struct AdmissionSettings {
  int32_t turns_running_max = 8;
  int32_t tenant_turns_running_max = 0;  // 0: no limit of its own
  std::map<std::string, int32_t> tenant_weights{};
};

class Admission {
 public:
  Admission(AdmissionSettings settings, SessionManager& sessions, Metrics& metrics);

  // It waits from now on, charged with what it will compute, by what is known now.
  void Ready(const TurnPtr& turn);
  // It is off the engine again. Resume follows, unless it ended just then.
  void OffEngine(const TurnPtr& turn);
  void Resume(const TurnPtr& turn);
  // It does not wait any more.
  void Drop(const TurnPtr& turn);
  // It has ended, whatever it was at. It is charged with what it did compute.
  void Ended(const TurnPtr& turn);
  // There may be room.
  void Room();
  // A running turn has no cells for its next token.
  void RelievePressure();

  // Turns in the engine.
  size_t running() const { return running_.size(); }
  size_t running(TurnPriority priority) const { return counts_[static_cast<size_t>(priority)]; }

 private:
  struct Admitted {
    FairFlow flow;
    int64_t tokens = 0;  // that it was charged with
  };

  void Pump();
  TurnPtr Next();
  void Start(const TurnPtr& turn);
  void LeaveEngine(const TurnPtr& turn);

  const AdmissionSettings settings_;
  SessionManager& sessions_;
  Gauge& running_gauge_;
  Histogram& queue_seconds_;

  FairQueue queue_;
  struct Waiting {
    TurnPtr turn;
    Admitted charge;
  };
  std::map<uint64_t, Waiting> waiting_;     // in the queue
  std::deque<TurnPtr> preempted_;           // the last one first
  std::map<uint64_t, TurnPtr> running_;     // in the engine
  std::array<size_t, 2> counts_{};          // of them, by priority
  std::map<uint64_t, Admitted> admitted_;   // running or preempted
  std::map<std::string, int32_t> tenants_;  // admitted turns of each
  uint64_t admissions_ = 0;
  bool starved_ =
      false;            // a running turn waits for cells and nothing could be done when it said so
  TurnPtr preempting_;  // asked to leave the engine, and not off it yet
  bool hold_back_ =
      false;  // what was preempted waits until a turn has ended: it would only take the cells back
};

}  // namespace tenuto
