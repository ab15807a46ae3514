#include "session/manager.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "session/prepare.h"

namespace tenuto {

SessionManager::SessionManager(SessionContext context)
    : context_(context),
      residency_(context.engine, context.metrics),
      buffers_(std::make_shared<BufferPool>(context.settings.restore_reads_ahead + 1,
                                            context.settings.restore_buffer_bytes)),
      tenant_quota_(context.log, context.clock, context.settings.quotas),
      counters_(context.metrics) {
  expiry_.shortest_ttl_s = context_.settings.ttl_s;
  TENUTO_CHECK(context_.settings.window_tokens > 1);
  if (context_.indexes != nullptr)
    recall_.emplace(context_.log, *context_.indexes, TokenizerOf(context_.engine),
                    context_.settings.recall);
}

SessionManager::~SessionManager() {
  // Waiting turns hold their session, which holds them.
  for (const auto& [name, session] : sessions_) {
    session->waiting.clear();
    session->after_settle.clear();
  }
}

void SessionManager::Begin(const TurnPtr& turn) {
  turn->created_unix_ms = context_.clock.UnixMs();
  std::array<std::byte, 16> entropy;
  context_.random.Fill(entropy);
  turn->outcome.turn = MakeTurnId(turn->created_unix_ms,
                                  {reinterpret_cast<const char*>(entropy.data()), entropy.size()});
  if (!turn->request.seed_given) {
    std::array<std::byte, 8> seed;
    context_.random.Fill(seed);
    uint64_t value = 0;
    for (const std::byte byte : seed)
      value = value << 8 | std::to_integer<uint64_t>(byte);
    // JSON readers lose bits past 2^53: what is reported must be what can be asked for again.
    turn->request.sampling.seed = value >> 11;
  }
  turn->outcome.seed = turn->request.sampling.seed;
  turn->outcome.session = turn->request.session;
  if (!turn->request.session) {
    turn->outcome.turn = TurnId{};
    StartPreparing(turn);
    return;
  }
  turn->session = FindOrAddSession(*turn->request.session);
  if (turn->session->busy || turn->session->deleting) {
    turn->session->waiting.push_back(turn);
    return;
  }
  turn->session->busy = true;
  StartPreparing(turn);
}

SessionPtr SessionManager::FindOrAddSession(const SessionKey& key) {
  if (const auto it = sessions_.find(key.Full()); it != sessions_.end()) return it->second;
  auto session = std::make_shared<Session>();
  session->key = key;
  session->owner = OwnerDigest(key);
  session->chain.end_digest = ChainStart(session->owner, context_.engine.info().fingerprint);
  sessions_.emplace(key.Full(), session);
  ForgetIdleSessions();
  counters_.sessions_cached.Set(static_cast<int64_t>(sessions_.size()));
  return session;
}

// Bounds memory, not correctness: whatever is forgotten is read from the log again.
void SessionManager::ForgetIdleSessions() {
  if (sessions_.size() <= context_.settings.sessions_cached_max) return;
  for (auto it = sessions_.begin();
       it != sessions_.end() && sessions_.size() > context_.settings.sessions_cached_max;) {
    const SessionPtr& session = it->second;
    const bool in_use = session.use_count() > 1 || session->busy || session->settling ||
                        session->deleting || session->resident.live() || session->spare.live();
    it = in_use ? std::next(it) : sessions_.erase(it);
  }
}

void SessionManager::StartPreparing(const TurnPtr& turn) {
  turn->phase = TurnPhase::kPreparing;
  const SessionPtr session = turn->session;
  const bool load = session != nullptr && !session->loaded;
  const bool marks = session != nullptr && std::exchange(session->marks_stale, false);
  const auto row = session != nullptr ? session->row : std::nullopt;
  context_.pool.Post([this, turn, load, marks, row] {
    if (!turn->request.idempotency_key.empty()) turn->request_digest = RequestDigest(turn->request);
    auto prepared = std::make_shared<Result<Prepared>>(
        Prepare(context_, PrepareInput{turn->request, load, marks, row, turn->request_digest}));
    if (prepared->ok() && turn->request.session && !(*prepared)->replay) {
      const bool first = (*prepared)->loaded ? !(*prepared)->loaded->row : !row;
      if (auto fits = CheckTenantQuota(turn->request.session->tenant,
                                       UseOf(turn->request, (*prepared)->tokens, first));
          !fits)
        *prepared = std::move(fits).error();
    }
    context_.core.Post([this, turn, prepared] { PreparedOn(turn, std::move(*prepared)); });
  });
}

void SessionManager::PreparedOn(const TurnPtr& turn, Result<Prepared> prepared) {
  if (!prepared.ok()) {
    if (turn->session) turn->session->marks_stale = true;  // perhaps they were read in vain
    Finish(turn, std::move(prepared).error());
    return;
  }
  if (prepared->loaded) AdoptLoaded(*turn->session, std::move(*prepared->loaded));
  if (prepared->marks) AdoptMarks(*turn->session, std::move(*prepared->marks));
  if (prepared->replay) {
    Finish(turn, std::move(*prepared->replay));
    return;
  }
  if (EndedEarly(turn)) return;
  if (auto planned = Plan(turn, std::move(*prepared)); !planned.ok()) {
    Finish(turn, std::move(planned).error());
    return;
  }
  Recall(turn);
}

bool SessionManager::EndedEarly(const TurnPtr& turn) {
  if (!turn->cancelled && !turn->stopping && !turn->refused) return false;
  Finish(turn, EarlyEnd(*turn));
  return true;
}

Error SessionManager::EarlyEnd(const Turn& turn) {
  if (turn.refused && !turn.cancelled && !turn.stopping) return *turn.refused;
  return {Code::kUnavailable,
          turn.stopping ? "the server is shutting down" : "the client went away"};
}

Status SessionManager::Plan(const TurnPtr& turn, Prepared prepared) {
  turn->tokens = std::move(prepared.tokens);
  turn->first = turn->session != nullptr && !turn->session->row;
  if (turn->request.kind != TurnRequest::Kind::kChat)
    turn->request.text = std::move(prepared.raw_prompt);
  const auto field = turn->request.kind == TurnRequest::Kind::kChat ? "messages" : "prompt";
  const int32_t answer_min = turn->request.max_tokens.value_or(1) > 0 ? 1 : 0;
  const auto suffix = static_cast<int32_t>(turn->tokens.suffix.size());
  turn->settings = turn->session ? SettingsOf(*turn->session) : context_.settings;
  turn->zone_s = turn->settings.ZoneAt(turn->request.timezone, turn->created_unix_ms);
  if (turn->session) TENUTO_TRY(CheckQuota(*turn));
  const WindowLimits limits = turn->settings.Limits(turn->request.max_tokens);
  // First: a message beside such a system prompt does not fit either.
  if (turn->first && turn->tokens.head) {
    if (Status fits = CheckHead(*turn->tokens.head, limits); !fits)
      return std::move(fits).error().At(field);
  }
  const SessionWindow none;
  const SessionWindow& window = turn->session ? turn->session->window : none;
  auto drop = window.PlanCut(suffix, answer_min, limits);
  if (!drop.ok()) return std::move(drop).error().At(field);
  if (*drop) turn->cut = window.Without(**drop);
  turn->outcome.trimmed_turns = static_cast<int32_t>(drop->value_or(0));
  return Ok();
}

void SessionManager::AdoptLoaded(Session& session, LoadedSession loaded) {
  session.loaded = true;
  session.row = std::move(loaded.row);
  session.window = std::move(loaded.window);
  AdoptMarks(session, std::move(loaded.marks));
  session.chain = std::move(loaded.build.chain);
  if (session.chain.pieces.empty())
    session.chain.end_digest = ChainStart(session.owner, context_.engine.info().fingerprint);
  session.stale_rows = std::move(loaded.build.stale_rows);
  session.lost = std::move(loaded.build.reasons);
  session.file =
      session.chain.pieces.empty() ? PayloadFileId{} : session.chain.pieces.back().location.file;
}

void SessionManager::AdoptMarks(Session& session, SessionMarks marks) {
  session.window.SetPins(std::exchange(marks.pins, {}));
  session.marks = std::move(marks);
  if (session.row && session.marks.overrides[SettingId::kTtl])
    expiry_.Note(session.row->updated_unix_ms, SettingsOf(session).ttl_s);
}

void SessionManager::ReleaseLease(const SessionPtr& session) {
  session->busy = false;
  if (session->waiting.empty() || session->deleting) return;
  session->busy = true;
  const TurnPtr next = session->waiting.front();
  session->waiting.pop_front();
  // From a fresh task: the caller may be in the middle of ending another turn.
  context_.core.Post([this, next] {
    if (next->phase == TurnPhase::kDone) {
      ReleaseLease(next->session);
      return;
    }
    StartPreparing(next);
  });
}

void SessionManager::Finish(const TurnPtr& turn, Result<TurnOutcome> outcome) {
  if (turn->phase == TurnPhase::kDone) return;
  const bool held_lease = turn->session != nullptr && turn->phase != TurnPhase::kWaiting;
  turn->phase = TurnPhase::kDone;
  if (outcome.ok() && outcome->replayed) {
    counters_.turns_replayed.Add();
  } else if (turn->cancelled) {
    counters_.turns_cancelled.Add();
  } else if (outcome.ok()) {
    counters_.turns_ok.Add();
  } else {
    counters_.turns_error.Add();
    Log(LogLevel::kInfo, "turn.failed",
        {{"turn", turn->outcome.turn.value}, {"code", CodeName(outcome.error().code())}});
  }
  // Released with the call: a sink may hold what holds the turn.
  const TurnSink sink = std::exchange(turn->sink, {});
  sink.on_done(std::move(outcome));
  if (held_lease) ReleaseLease(turn->session);
  context_.core.Post([this, turn] { events_.on_finished(turn); });
}

void SessionManager::Cancel(const TurnPtr& turn, bool stopping) {
  if (stopping) {
    turn->stopping = true;
  } else {
    turn->cancelled = true;
  }
  switch (turn->phase) {
    case TurnPhase::kWaiting:
      if (turn->session) std::erase(turn->session->waiting, turn);
      [[fallthrough]];
    case TurnPhase::kReady:
      // A turn that was preempted has an answer to keep: it ends as if it had been running.
      if (!turn->answered.empty()) {
        EndPreempted(turn, 0);
        return;
      }
      EndedEarly(turn);
      return;
    case TurnPhase::kRunning:
      context_.engine.Cancel(turn->run);
      return;
    case TurnPhase::kPreparing:
    case TurnPhase::kRestoring:   // both look at the flags when they come back
    case TurnPhase::kCommitting:  // too late: it is acknowledged or fails
    case TurnPhase::kDone:
      return;
  }
}

void SessionManager::Refuse(const TurnPtr& turn, Error why) {
  TENUTO_CHECK(!turn->pinned && turn->preemptions == 0);
  turn->refused = std::move(why);
  if (turn->phase == TurnPhase::kWaiting && turn->session) std::erase(turn->session->waiting, turn);
  // While it is prepared it ends when that is done.
  if (turn->phase == TurnPhase::kWaiting || turn->phase == TurnPhase::kReady) EndedEarly(turn);
}

void SessionManager::Preempt(const TurnPtr& turn) {
  if (turn->phase == TurnPhase::kRunning) context_.engine.Preempt(turn->run);
}

}  // namespace tenuto
