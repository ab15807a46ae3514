#include "schedule/admission.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "session/manager.h"

namespace tenuto {

// A request without a session is of its identity, "tenant::user::agent".
FairFlow FlowOf(const TurnRequest& request) {
  if (request.session)
    return {request.priority, request.session->tenant, request.session->user,
            request.session->agent + "::" + request.session->session};
  constexpr std::string_view kBetween = "::";
  const std::string& all = request.identity;
  const size_t tenant_end = std::min(all.find(kBetween), all.size());
  const size_t user = std::min(tenant_end + kBetween.size(), all.size());
  const size_t user_end = std::min(all.find(kBetween, user), all.size());
  return {request.priority, all.substr(0, tenant_end), all.substr(user, user_end - user),
          all.substr(user_end)};
}

int64_t TokensComputed(const Turn& turn) {
  return int64_t{turn.outcome.recomputed} + turn.outcome.completion_tokens;
}

Admission::Admission(AdmissionSettings settings, SessionManager& sessions, Metrics& metrics)
    : settings_(std::move(settings)),
      sessions_(sessions),
      running_gauge_(metrics.GetGauge("tenuto_turns_running", "Turns in the engine")),
      queue_seconds_(
          metrics.GetHistogram("tenuto_queue_seconds", "Waiting before admission, per turn")),
      queue_(settings_.tenant_weights) {}

void Admission::Ready(const TurnPtr& turn) {
  queue_.Push(FlowOf(turn->request), turn->id, turn->charged_tokens);
  waiting_.emplace(turn->id, turn);
  Pump();
}

size_t Admission::admitted(const std::string& tenant) const {
  const auto found = admitted_.find(tenant);
  return found == admitted_.end() ? 0 : static_cast<size_t>(found->second);
}

void Admission::OffEngine(const TurnPtr& turn) {
  if (turn == preempting_) {
    preempting_ = nullptr;
    // Its cells are on their way: who still has none after that says so again.
    starved_ = false;
  }
  if (turn->phase == TurnPhase::kDone) return;
  LeaveEngine(turn);
  hold_back_ = true;
}

void Admission::Resume(const TurnPtr& turn) {
  preempted_.push_front(turn);
  Pump();
}

void Admission::Drop(const TurnPtr& turn) {
  queue_.Remove(turn->id);
  waiting_.erase(turn->id);
  std::erase(preempted_, turn);
}

void Admission::Ended(const TurnPtr& turn) {
  Drop(turn);
  LeaveEngine(turn);
  if (turn == preempting_) preempting_ = nullptr;  // it ended before it could be taken off
  if (turn->admitted_order > 0) {
    const FairFlow flow = FlowOf(turn->request);
    queue_.Correct(flow, TokensComputed(*turn) - turn->charged_tokens);
    queue_.Unpark(flow.tenant);
    if (--admitted_.at(flow.tenant) == 0) admitted_.erase(flow.tenant);
  }
  hold_back_ = false;
  Room();
}

void Admission::LeaveEngine(const TurnPtr& turn) {
  if (running_.erase(turn->id) > 0) --counts_[static_cast<size_t>(turn->request.priority)];
}

void Admission::Room() {
  if (starved_) RelievePressure();
  Pump();
}

TurnPtr Admission::Next() {
  if (!preempted_.empty()) return preempted_.front();
  const auto front = queue_.Front();
  return front ? waiting_.at(*front) : nullptr;
}

void Admission::Pump() {
  if (hold_back_ && !running_.empty()) return;
  hold_back_ = false;
  while (static_cast<int32_t>(running_.size()) < settings_.turns_running_max) {
    const TurnPtr turn = Next();
    if (turn == nullptr || !sessions_.Admit(turn)) break;
    Start(turn);
  }
  running_gauge_.Set(static_cast<int64_t>(running_.size()));
  pace_.Waiting(!waiting_.empty(), sessions_.context().clock.MonotonicNs());
}

void Admission::Start(const TurnPtr& turn) {
  if (!preempted_.empty()) {
    preempted_.pop_front();
  } else {
    queue_.Pop();
    waiting_.erase(turn->id);
    const std::string tenant = FlowOf(turn->request).tenant;
    if (++admitted_[tenant] == settings_.tenant_turns_running_max) queue_.Park(tenant);
    pace_.Admitted(turn->admitted_ns);
    queue_seconds_.Observe(turn->outcome.times.queue * 1e-3);
  }
  running_.emplace(turn->id, turn);
  ++counts_[static_cast<size_t>(turn->request.priority)];
  turn->admitted_order = ++admissions_;
  sessions_.Run(turn);
}

// Idle sequences go first; then the turn that was admitted last, unless it is the only one. One
// turn at a time: the next is asked to leave only when the last one's cells did not do.
void Admission::RelievePressure() {
  starved_ = preempting_ != nullptr;
  if (starved_) return;
  if (sessions_.residency().EvictOldestIdle()) return;
  TurnPtr youngest;
  int32_t candidates = 0;
  for (const auto& [id, turn] : running_) {
    if (turn->phase != TurnPhase::kRunning) continue;
    ++candidates;
    if (!youngest || turn->admitted_order > youngest->admitted_order) youngest = turn;
  }
  if (candidates < 2) {
    // Others are being restored, committed or stored: asked again when one of them lets go.
    starved_ = true;
    return;
  }
  preempting_ = youngest;
  sessions_.Preempt(youngest);
}

}  // namespace tenuto
