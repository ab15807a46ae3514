// Admission to the engine, restore, and the run itself.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/utf8.h"
#include "session/manager.h"
#include "session/restore.h"

namespace tenuto {
namespace {

// Sharing fewer tokens than this costs more in bookkeeping than it saves in prefill.
constexpr TokenPos kSharedPrefixMin = 32;

TokenPos LivePrefix(const Anonymous& held, std::span<const TokenId> tokens) {
  return std::min(held.resident.live_end, CommonPrefix(held.tokens, tokens));
}

void AddTimes(Turn& turn, const RunTimes& times) {
  turn.outcome.times.prefill += static_cast<double>(times.prefill_ns) * 1e-6;
  turn.outcome.times.decode += static_cast<double>(times.decode_ns) * 1e-6;
}

}  // namespace

int32_t SessionManager::WindowSize(const Turn& turn) const {
  const int32_t history = turn.history() ? turn.history()->size() : 0;
  return history + turn.prompt_size() + static_cast<int32_t>(turn.answered.size());
}

// How far live and stored KV, which is of the session's window, is also of the turn's prompt.
TokenPos SessionManager::KeptKv(const Turn& turn) const {
  const auto& tokens = turn.session->window.tokens();
  if (!turn.cut) return static_cast<TokenPos>(tokens.size());
  return CommonPrefix(tokens, turn.cut->tokens());
}

std::vector<TokenId> SessionManager::WindowOf(const Turn& turn) const {
  std::vector<TokenId> window;
  window.reserve(static_cast<size_t>(WindowSize(turn)));
  if (turn.history()) window = turn.history()->tokens();
  const auto prompt = turn.prompt();
  window.insert(window.end(), prompt.begin(), prompt.end());
  window.insert(window.end(), turn.answered.begin(), turn.answered.end());
  return window;
}

// Of what may still be sampled: the request's budget, and the window's end.
int32_t SessionManager::MaxNewTokens(const Turn& turn) const {
  const int32_t room = turn.settings.window_tokens - WindowSize(turn);
  if (!turn.request.max_tokens) return std::max(0, room);
  const auto answered = static_cast<int32_t>(turn.answered.size());
  return std::clamp(*turn.request.max_tokens - answered, 0, std::max(0, room));
}

int64_t SessionManager::TokensToCompute(const Turn& turn) const {
  TokenPos known = 0;
  if (turn.session) {
    const TokenPos stored = context_.keeps_kv() ? turn.session->chain.end() : 0;
    known = std::min(KeptKv(turn), std::max(turn.session->resident.live_end, stored));
  } else {
    const std::vector<TokenId> window = WindowOf(turn);
    for (const AnonymousPtr& held : anonymous_)
      if (held->identity == turn.request.identity)
        known = std::max(known, LivePrefix(*held, window));
  }
  // The last token is computed whatever is known (INV-6).
  const int32_t prompt = std::max(1, WindowSize(turn) - known);
  return int64_t{prompt} + std::min(MaxNewTokens(turn), context_.settings.answer_reserve_tokens);
}

bool SessionManager::Admit(const TurnPtr& turn) {
  TENUTO_CHECK(turn->phase == TurnPhase::kReady);
  const int32_t size = WindowSize(*turn);
  const TokenPos end =
      std::min(turn->settings.window_tokens,
               size + std::min(MaxNewTokens(*turn), context_.settings.answer_reserve_tokens));
  if (turn->session) {
    // Being stopped for this turn; there is room for it the moment that has happened.
    if (turn->cut && cutting_ahead_ == turn->session) return false;
    if (turn->cut && turn->taken_ahead == 0 && turn->preemptions == 0)
      turn->taken_ahead = TakeCutAhead(*turn, end);
    if (!residency_.Reserve(turn->session->resident, end)) return false;
  } else if (!AdmitAnonymous(turn, end)) {
    return false;
  }
  ++turn->resident().pins;
  turn->pinned = true;
  turn->phase = TurnPhase::kRestoring;
  turn->admitted_ns = context_.clock.MonotonicNs();
  if (turn->preemptions == 0)
    turn->outcome.times.queue = static_cast<double>(turn->admitted_ns - turn->submitted_ns) * 1e-6;
  // Idle sequences slow a unified cache for everyone (docs/decisions/0002): bringing them back
  // costs less.
  residency_.TrimIdle(context_.settings.resident_idle_tokens, turn->resident());
  return true;
}

bool SessionManager::AdmitAnonymous(const TurnPtr& turn, TokenPos end) {
  const std::vector<TokenId> window = WindowOf(*turn);
  AnonymousPtr best;
  TokenPos best_shared = 0;
  for (const AnonymousPtr& held : anonymous_) {
    if (held->identity != turn->request.identity) continue;
    const TokenPos shared = LivePrefix(*held, window);
    if (shared > best_shared) {
      best = held;
      best_shared = shared;
    }
  }
  const bool rewinds = context_.engine.info().range_export;
  // Mostly the same: the conversation goes on, or its last message was edited. Else leave the other
  // one its KV.
  const bool take = best && best->resident.pins == 0 &&
                    (best_shared == best->resident.live_end ||
                     (rewinds && 2 * best_shared >= best->resident.live_end));
  if (take) {
    if (!residency_.Reserve(best->resident, std::max(end, best->resident.live_end))) return false;
    best->resident.live_end = best_shared;
    turn->anonymous = best;
    return true;
  }
  auto fresh = std::make_shared<Anonymous>();
  fresh->identity = turn->request.identity;
  fresh->tokens = window;
  if (best) ++best->resident.pins;  // must outlive the search for room
  bool reserved = residency_.Reserve(fresh->resident, end);
  if (best) --best->resident.pins;
  if (!reserved && best && best->resident.pins == 0) {
    // There is room only without the one that starts alike.
    best = nullptr;
    reserved = residency_.Reserve(fresh->resident, end);
  }
  if (!reserved) return false;
  fresh->resident.on_evicted = [this, raw = fresh.get()] {
    std::erase_if(anonymous_, [raw](const AnonymousPtr& held) { return held.get() == raw; });
  };
  anonymous_.push_back(fresh);
  turn->anonymous = fresh;
  if (best && rewinds && best_shared >= kSharedPrefixMin) {
    turn->copy_from = best->resident.seq;
    turn->copy_end = best_shared;
    // The copy is ordered before anything else that is asked of either sequence from here on.
    context_.engine.CopyPrefix(turn->copy_from, fresh->resident.seq, turn->copy_end,
                               [turn](const Status& status) {
                                 if (!status.ok()) turn->copy_end = 0;
                               });
  }
  return true;
}

void SessionManager::Run(const TurnPtr& turn) {
  TENUTO_CHECK(turn->phase == TurnPhase::kRestoring);
  if (turn->session) {
    RestoreSession(turn);
  } else {
    CopyPrefixThenStart(turn);
  }
}

void SessionManager::CopyPrefixThenStart(const TurnPtr& turn) {
  if (turn->copy_from.value < 0) {
    StartAfterShared(turn, turn->anonymous->resident.live_end);
    return;
  }
  // A no-op on the same sequence whose answer comes after the copy's.
  context_.engine.Truncate(turn->anonymous->resident.seq, turn->copy_end,
                           [this, turn](const Status&) {
                             turn->copy_from = SeqId{};
                             StartAfterShared(turn, turn->copy_end);
                           });
}

// `shared`: so many tokens of the prompt are live. Where that is all of them, the last one is
// computed again (INV-6).
void SessionManager::StartAfterShared(const TurnPtr& turn, TokenPos shared) {
  const TokenPos live = std::min(shared, WindowSize(*turn) - 1);
  AccountPrompt(*turn, {.known = shared, .reused = live, .restored = 0}, {});
  Start(turn, live);
}

void SessionManager::RestoreSession(const TurnPtr& turn) {
  Session& session = *turn->session;
  const TokenPos kept = KeptKv(*turn);
  TokenPos live = std::min(
      {session.resident.live_end, std::max(kept, turn->taken_ahead), WindowSize(*turn) - 1});
  // The history's last token is computed again even where it is live, as it has to be after a
  // restore (INV-6): so both go on with the same batches, and with the same numbers.
  const TokenPos history = turn->history()->size();
  if (context_.engine.info().range_export && live == history) live = std::max(0, history - 1);
  std::vector<PieceRow> pieces;
  for (const PieceRow& piece : session.chain.pieces)
    if (piece.range.end > live && piece.range.end <= kept) pieces.push_back(piece);
  if (!context_.keeps_kv() || pieces.empty()) {
    RestoreResult nothing;
    nothing.end = live;
    RestoredOn(turn, live, std::move(nothing));
    return;
  }
  if (pieces.front().range.begin < live) {
    live = pieces.front().range.begin;
    context_.engine.Truncate(session.resident.seq, live, nullptr);
  }
  RestoreJob job{session.resident.seq, std::move(pieces), session.owner,
                 [turn] { return turn->cancelled || turn->stopping; }};
  RestorePieces(context_, buffers_, std::move(job), [this, turn, live](RestoreResult result) {
    RestoredOn(turn, live, std::move(result));
  });
}

void SessionManager::RestoredOn(const TurnPtr& turn, TokenPos live, RestoreResult result) {
  Session& session = *turn->session;
  const int64_t restore_ns = context_.clock.MonotonicNs() - turn->admitted_ns;
  if (result.end > live) {
    counters_.restore_seconds.Observe(static_cast<double>(restore_ns) * 1e-9);
    if (turn->preemptions == 0)
      turn->outcome.times.restore = static_cast<double>(restore_ns) * 1e-6;
  }
  if (!result.bad_rows.empty()) {
    session.stale_rows.insert(session.stale_rows.end(), result.bad_rows.begin(),
                              result.bad_rows.end());
    CutChain(session.chain, result.end, session.owner, context_.engine.info().fingerprint);
    if (session.chain.pieces.empty()) session.file = PayloadFileId{};
  }
  if ((turn->cancelled || turn->stopping) && !turn->answered.empty()) {
    EndPreempted(turn, result.end);
    return;
  }
  if (turn->cancelled || turn->stopping) {
    EndWithoutCommit(turn, result.end, EarlyEnd(*turn));
    return;
  }
  std::vector<KvReason> lost = std::move(result.reasons);
  lost.insert(lost.end(), session.lost.begin(), session.lost.end());
  session.lost.clear();
  AccountPrompt(*turn,
                {.known = turn->history()->size(), .reused = live, .restored = result.end - live},
                lost);
  Start(turn, result.end);
}

// Every prompt token is reused, restored or computed, and those computed have a reason.
void SessionManager::AccountPrompt(Turn& turn, const PromptKv& kv,
                                   const std::vector<KvReason>& lost) {
  TurnOutcome& outcome = turn.outcome;
  if (turn.preemptions > 0) return;  // told once, for the first start
  outcome.prompt_tokens = WindowSize(turn);
  outcome.reused = kv.reused;
  outcome.restored = kv.restored;
  outcome.recomputed = outcome.prompt_tokens - kv.reused - kv.restored;
  counters_.reused.Add(static_cast<uint64_t>(kv.reused));
  counters_.restored.Add(static_cast<uint64_t>(kv.restored));
  counters_.recomputed.Add(static_cast<uint64_t>(outcome.recomputed));
  int32_t gap = std::max(0, kv.known - kv.reused - kv.restored);
  const auto tell = [&](const std::string& code, int32_t tokens, const std::string& detail) {
    if (tokens <= 0) return;
    outcome.reasons.push_back({code, tokens, detail});
    context_.metrics
        .GetCounter("tenuto_recomputed_tokens_total", "Prompt tokens computed again, by reason",
                    "reason=\"" + code + "\"")
        .Add(static_cast<uint64_t>(tokens));
  };
  tell("new", outcome.recomputed - gap, "");
  if (gap == 0) return;
  tell("tail", 1, "the last token is always decoded again");
  gap -= 1;
  if (turn.cut) {
    tell("window", gap, "the window was cut and what is kept was not prepared");
    return;
  }
  for (const KvReason& reason : lost) {
    const int32_t tokens = std::min(gap, reason.tokens);
    tell(reason.code, tokens, reason.detail);
    gap -= tokens;
  }
  if (!context_.keeps_kv()) {
    tell("policy", gap, "the server keeps no KV on disk");
  } else if (!context_.engine.info().range_export) {
    tell("state", gap, "this kind of model keeps no stored KV yet");
  } else {
    tell("missing", gap, "not on disk yet when the server ended or the KV made room for others");
  }
}

RunListener SessionManager::ListenerFor(const TurnPtr& turn) {
  RunListener listener;
  listener.on_chunk = [turn, prompt = WindowSize(*turn)](const RunChunk& chunk) {
    // The first token proves that the whole prompt is live: others may share it from now on.
    if (turn->anonymous)
      turn->anonymous->resident.live_end = std::max(turn->anonymous->resident.live_end, prompt);
    turn->text += chunk.text;
    if (turn->sink.on_chunk) turn->sink.on_chunk(chunk);
  };
  listener.on_prefill = [turn](int32_t prefilled, int32_t total) {
    if (turn->sink.on_prefill) turn->sink.on_prefill(prefilled, total);
  };
  listener.on_done = [this, turn](Result<RunResult> result) { RunDone(turn, std::move(result)); };
  return listener;
}

void SessionManager::Start(const TurnPtr& turn, TokenPos begin) {
  if ((turn->cancelled || turn->stopping) && !turn->answered.empty()) {
    EndPreempted(turn, begin);
    return;
  }
  if (turn->cancelled || turn->stopping) {
    EndWithoutCommit(turn, begin, Error(Code::kUnavailable, "ended before it ran"));
    return;
  }
  RunRequest request;
  request.seq = turn->resident().seq;
  request.begin = begin;
  request.tokens = WindowOf(*turn);
  request.answered = static_cast<int32_t>(turn->answered.size());
  request.max_new_tokens = MaxNewTokens(*turn);
  request.sampling = turn->request.sampling;
  request.stop = turn->request.stop;
  request.ignore_end = turn->request.ignore_end;
  if (turn->anonymous) {
    turn->anonymous->tokens = request.tokens;
    turn->anonymous->resident.live_end = begin;
  }
  turn->phase = TurnPhase::kRunning;
  turn->run = context_.engine.Start(std::move(request), ListenerFor(turn));
}

void SessionManager::Unpin(Turn& turn) {
  if (!turn.pinned) return;
  turn.pinned = false;
  Unpin(turn.resident());
}

void SessionManager::Unpin(Resident& resident) {
  if (--resident.pins > 0 || !events_.on_room) return;
  context_.core.Post([this] { events_.on_room(); });
}

// A turn that was preempted and does not run again: what was said of it is kept as if it had been
// running. The engine held back the last bytes (half a character, perhaps half a stop string); the
// log's tokens have them, so the text must.
void SessionManager::EndPreempted(const TurnPtr& turn, TokenPos kv_end) {
  std::string bytes;
  for (const TokenId token : turn->answered)
    bytes += context_.engine.TokenText(token, /*special=*/false);
  std::string whole;
  AppendLastUtf8(bytes, whole);
  if (whole.size() > turn->text.size() && whole.starts_with(turn->text)) {
    RunChunk rest;
    rest.text = whole.substr(turn->text.size());
    turn->text = whole;
    if (turn->sink.on_chunk) turn->sink.on_chunk(rest);
  }
  RunResult result;
  result.reason = FinishReason::kCancelled;
  result.answer = turn->answered;
  result.kv_end = kv_end;
  RunDone(turn, std::move(result));
}

// The turn leaves no trace in the log; what is live of the history stays live.
void SessionManager::EndWithoutCommit(const TurnPtr& turn, TokenPos kv_end,
                                      Result<TurnOutcome> outcome) {
  if (turn->pinned) {
    Resident& resident = turn->resident();
    if (turn->session) kv_end = std::min(kv_end, KeptKv(*turn));
    context_.engine.Truncate(resident.seq, kv_end, nullptr);
    residency_.Settle(resident, kv_end);
    Unpin(*turn);
    if (turn->session && !context_.engine.info().range_export) residency_.Evict(resident);
  }
  Finish(turn, std::move(outcome));
}

void SessionManager::RunDone(const TurnPtr& turn, Result<RunResult> result) {
  if (!result.ok()) {
    // The engine removed the sequence's KV.
    const bool pinned = turn->pinned;
    Unpin(*turn);
    if (pinned) residency_.Evict(turn->resident());
    Finish(turn, std::move(result).error());
    return;
  }
  if (result->reason == FinishReason::kPreempted && !turn->cancelled && !turn->stopping) {
    turn->answered = std::move(result->answer);
    AddTimes(*turn, result->times);
    ++turn->preemptions;
    counters_.preemptions.Add();
    Unpin(*turn);
    residency_.Evict(turn->resident());
    turn->taken_ahead = 0;
    turn->anonymous = nullptr;
    turn->phase = TurnPhase::kReady;
    context_.core.Post([this, turn] { events_.on_preempted(turn); });
    return;
  }
  if (result->reason == FinishReason::kPreempted && !result->answer.empty()) {
    // Cancelled just then: what the engine held back of the text is still to come.
    turn->answered = std::move(result->answer);
    AddTimes(*turn, result->times);
    EndPreempted(turn, result->kv_end);
    return;
  }
  const bool ended_early =
      result->reason == FinishReason::kCancelled || result->reason == FinishReason::kPreempted;
  const bool keep = turn->session && !(ended_early && result->answer.empty()) &&
                    !(ended_early && turn->cancelled && !turn->stopping &&
                      !context_.settings.commit_on_disconnect);
  turn->outcome.incomplete = ended_early;
  FillOutcome(*turn, *result);
  if (keep) {
    Commit(turn, std::move(*result));
    return;
  }
  if (turn->anonymous) {
    turn->anonymous->tokens.resize(static_cast<size_t>(WindowSize(*turn)) - turn->answered.size());
    turn->anonymous->tokens.insert(turn->anonymous->tokens.end(), result->answer.begin(),
                                   result->answer.end());
  }
  if (ended_early && (!turn->stopping || result->answer.empty())) {
    EndWithoutCommit(turn, result->kv_end, EarlyEnd(*turn));
  } else {
    EndWithoutCommit(turn, result->kv_end, turn->outcome);
  }
}

}  // namespace tenuto
