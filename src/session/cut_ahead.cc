// In idle time the part of a window that the next cut will keep is computed into a spare sequence,
// so that the turn which cuts pays nothing for it. Only time depends on this, never a token: what
// is cut is decided in SessionWindow (INV-8).
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "session/manager.h"

namespace tenuto {
namespace {

// Of one run ahead: a turn that comes meanwhile waits for no more than this. 128 took one to four
// seconds on two busy cores.
constexpr TokenPos kSliceTokens = 32;

}  // namespace

// After a commit. Near: two more turns like the last one, or like a usual one, would be cut.
void SessionManager::NoteCutAhead(const SessionPtr& session) {
  constexpr int32_t kTurnsAhead = 2;
  const WindowLimits limits = SettingsOf(*session).Limits(std::nullopt);
  const int32_t usual = std::max(session->window.last_turn_tokens(), limits.grid_tokens);
  const bool near = session->window.size() + kTurnsAhead * usual > limits.high_tokens();
  if (!near || session->cut_noted || !context_.engine.info().range_export) return;
  session->cut_noted = true;
  cuts_ahead_.push_back(session);
  counters_.cuts_ahead.Set(static_cast<int64_t>(cuts_ahead_.size()));
}

void SessionManager::SetIdle(bool idle) {
  idle_ = idle;
  if (idle_) {
    CutAhead();
  } else if (cutting_ahead_) {
    context_.engine.Cancel(cutting_ahead_->spare_run);
  }
}

void SessionManager::CutAhead() {
  while (idle_ && !cutting_ahead_ && !cuts_ahead_.empty()) {
    const SessionPtr session = cuts_ahead_.front();
    cuts_ahead_.pop_front();
    session->cut_noted = false;
    if (!session->busy && !session->deleting && session->loaded) StartCutAhead(session);
  }
  counters_.cuts_ahead.Set(static_cast<int64_t>(cuts_ahead_.size()) + (cutting_ahead_ ? 1 : 0));
}

void SessionManager::StartCutAhead(const SessionPtr& session) {
  const size_t drop = session->window.UsualCut(SettingsOf(*session).Limits(std::nullopt));
  if (drop == 0) return;
  SessionWindow cut = session->window.Without(drop);
  Resident& spare = session->spare;
  const TokenPos live =
      spare.live()
          ? std::min(spare.live_end, CommonPrefix(session->spare_window.tokens(), cut.tokens()))
          : 0;
  const TokenPos end = std::min(live + kSliceTokens, cut.size());
  if (live == end || !residency_.ReserveUnused(spare, end)) return;
  RunRequest request;
  request.seq = spare.seq;
  request.begin = live;
  request.tokens.assign(cut.tokens().begin(), cut.tokens().begin() + end);
  session->spare_window = std::move(cut);
  spare.live_end = live;
  ++spare.pins;
  ++settling_;
  cutting_ahead_ = session;
  RunListener listener;
  listener.on_done = [this, session](const Result<RunResult>& result) {
    CutAheadDone(session, result);
  };
  session->spare_run = context_.engine.Start(std::move(request), std::move(listener));
}

void SessionManager::CutAheadDone(const SessionPtr& session, const Result<RunResult>& result) {
  cutting_ahead_ = nullptr;
  Unpin(session->spare);
  if (result.ok()) {
    residency_.Settle(session->spare, result->kv_end);
    counters_.cut_ahead.Add(static_cast<uint64_t>(result->prefilled));
    if (!session->cut_noted) {
      session->cut_noted = true;
      cuts_ahead_.push_front(session);  // for the next slice, if there is one
    }
  } else {
    residency_.Evict(session->spare);
  }
  if (!session->settling)
    for (const auto& task : std::exchange(session->after_settle, {}))
      task();
  SettlingEnded();
  CutAhead();
}

// The spare's KV becomes the session's: what the turn's cut window and the spare's begin with.
TokenPos SessionManager::TakeCutAhead(Turn& turn, TokenPos end) {
  Session& session = *turn.session;
  Resident& spare = session.spare;
  if (!spare.live() || spare.pins > 0) return 0;
  const TokenPos shared =
      std::min(spare.live_end, CommonPrefix(session.spare_window.tokens(), turn.cut->tokens()));
  const TokenPos lies_there = std::min(session.resident.live_end, KeptKv(turn));
  TokenPos taken = 0;
  if (shared > lies_there) {
    if (session.resident.live()) {
      context_.engine.Truncate(session.resident.seq, 0, nullptr);
      residency_.Settle(session.resident, 0);
    }
    ++spare.pins;  // stays while room is made for its copy
    if (residency_.Reserve(session.resident, end)) {
      context_.engine.CopyPrefix(spare.seq, session.resident.seq, shared, nullptr);
      residency_.Settle(session.resident, shared);
      taken = shared;
    }
    --spare.pins;
  }
  residency_.Evict(spare);
  return taken;
}

}  // namespace tenuto
