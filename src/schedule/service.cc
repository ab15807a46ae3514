#include "schedule/service.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "session/manager.h"

namespace tenuto {

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

using ReplayDone = std::function<void(Result<ReplayOutcome>)>;

Error Stopping() {
  return Error(Code::kUnavailable, "the server is shutting down");
}

TurnRequest ReplayTurn(const SessionKey& key, const TurnPrompt& prompt, int32_t max_tokens) {
  TurnRequest turn;
  turn.identity = key.tenant + "::" + key.user + "::" + key.agent;
  turn.kind = TurnRequest::Kind::kTokens;
  turn.tokens = prompt.tokens;
  turn.sampling.temperature = 0;
  turn.seed_given = true;
  turn.max_tokens = max_tokens;
  turn.recall = RecallMode::kOff;
  return turn;
}

ReplayOutcome Compare(const TurnPrompt& prompt, TurnId without, int32_t max_tokens,
                      TurnOutcome run) {
  const size_t compared = std::min(prompt.answer.size(), static_cast<size_t>(max_tokens));
  ReplayOutcome replay;
  replay.turn = prompt.turn;
  replay.without = std::move(without);
  replay.equal = run.tokens.size() == compared &&
                 std::equal(run.tokens.begin(), run.tokens.end(), prompt.answer.begin());
  replay.text = std::move(run.text);
  replay.stored_text = prompt.text;
  replay.differs = prompt.differs;
  replay.prompt_tokens = run.prompt_tokens;
  replay.completion_tokens = run.completion_tokens;
  replay.finish_reason = std::move(run.finish_reason);
  return replay;
}

}  // namespace

// All fields but `next_ticket` belong to the core runner.
struct Service::State : std::enable_shared_from_this<Service::State> {
  State(ServiceSettings s, SessionManager& m, Runner& c, Metrics& metrics)
      : settings(s),
        sessions(m),
        core(c),
        admission(s.admission, m, metrics),
        limits(s.limits, admission, m.context().clock, metrics) {}

  void Submit(uint64_t ticket, TurnRequest request, TurnSink sink);
  void Cancel(uint64_t ticket);
  void Replay(uint64_t ticket, const SessionKey& key, const TurnId& turn, ReplayRequest request,
              ReplayDone done);
  void RunReplay(uint64_t ticket, const SessionKey& key, ReplayRequest request, TurnPrompt prompt,
                 ReplayDone done);
  void Ready(const TurnPtr& turn);
  void Preempted(const TurnPtr& turn);
  void Finished(const TurnPtr& turn);
  void Room();
  void TimedOut(uint64_t ticket);
  void Shutdown(std::function<void()> done);
  void CheckStopped();

  const ServiceSettings settings;
  SessionManager& sessions;
  Runner& core;

  std::atomic<uint64_t> next_ticket{1};
  struct Open {
    TurnPtr turn;
    Runner::TimerId timeout = 0;
  };
  std::map<uint64_t, Open> turns;  // all that are not finished, by ticket: oldest first
  std::set<uint64_t> replays;      // whose prompt is being read
  Admission admission;
  TurnLimits limits;
  bool stopping = false;
  std::function<void()> stopped;
};

void Service::State::Submit(uint64_t ticket, TurnRequest request, TurnSink sink) {
  const auto refuse = [&](Error error) { sink.on_done(std::move(error)); };
  if (stopping) return refuse(Stopping());
  if (Status accepted = limits.Accept(request); !accepted)
    return refuse(std::move(accepted).error());
  auto turn = std::make_shared<Turn>();
  turn->id = ticket;
  turn->request = std::move(request);
  turn->sink = std::move(sink);
  turn->submitted_ns = sessions.context().clock.MonotonicNs();
  Open open{turn};
  if (settings.limits.queue_timeout_s > 0)
    open.timeout =
        core.After(settings.limits.queue_timeout_s * kSecondNs, [weak = weak_from_this(), ticket] {
          if (const auto self = weak.lock()) self->TimedOut(ticket);
        });
  turns.emplace(ticket, std::move(open));
  limits.CountQueued();
  sessions.SetIdle(false);
  sessions.Begin(turn);
}

void Service::State::Replay(uint64_t ticket, const SessionKey& key, const TurnId& turn,
                            ReplayRequest request, ReplayDone done) {
  if (stopping) return done(Stopping());
  replays.insert(ticket);
  TurnId without = request.without;
  sessions.ReadPrompt(key, turn, std::move(without),
                      [self = shared_from_this(), ticket, key, request = std::move(request),
                       done = std::move(done)](Result<TurnPrompt> prompt) {
                        const bool wanted = self->replays.erase(ticket) > 0;
                        if (!prompt) return done(std::move(prompt).error());
                        if (!wanted)
                          return done(Error(Code::kUnavailable, "the replay was given up"));
                        self->RunReplay(ticket, key, request, std::move(prompt).value(), done);
                      });
}

void Service::State::RunReplay(uint64_t ticket, const SessionKey& key, ReplayRequest request,
                               TurnPrompt prompt, ReplayDone done) {
  // The stored answer ends before its end-of-turn token, so as many tokens can be compared whether
  // it ended by itself or was cut.
  const int32_t max_tokens =
      request.max_tokens.value_or(static_cast<int32_t>(prompt.answer.size()));
  TurnRequest turn = ReplayTurn(key, prompt, max_tokens);
  TurnSink sink;
  sink.on_chunk = [](const RunChunk&) {};
  sink.on_done = [prompt = std::move(prompt), without = std::move(request.without), max_tokens,
                  done = std::move(done)](Result<TurnOutcome> outcome) {
    if (!outcome) return done(std::move(outcome).error());
    // Half an answer equals nothing.
    if (outcome->incomplete) return done(Error(Code::kUnavailable, "the replay was given up"));
    done(Compare(prompt, without, max_tokens, std::move(outcome).value()));
  };
  Submit(ticket, std::move(turn), std::move(sink));
}

void Service::State::Cancel(uint64_t ticket) {
  if (replays.erase(ticket) > 0) return;
  const auto it = turns.find(ticket);
  if (it == turns.end()) return;
  const TurnPtr turn = it->second.turn;
  admission.Drop(turn);
  sessions.Cancel(turn, /*stopping=*/false);
}

void Service::State::Ready(const TurnPtr& turn) {
  if (turn->phase == TurnPhase::kDone) return;
  if (turn->cancelled || turn->stopping) return sessions.Cancel(turn, turn->stopping);
  if (Status charged = limits.Charge(*turn, sessions.TokensToCompute(*turn)); !charged)
    return sessions.Refuse(turn, std::move(charged).error());
  admission.Ready(turn);
  limits.CountQueued();
}

// Of a turn that was admitted meanwhile nothing is to be done.
void Service::State::TimedOut(uint64_t ticket) {
  const auto it = turns.find(ticket);
  if (it == turns.end()) return;
  const TurnPtr turn = it->second.turn;
  const bool ends_anyway = turn->cancelled || turn->stopping || turn->phase == TurnPhase::kDone;
  if (turn->admitted_order > 0 || ends_anyway) return;
  admission.Drop(turn);
  sessions.Refuse(turn, limits.TimedOut());
}

void Service::State::Preempted(const TurnPtr& turn) {
  admission.OffEngine(turn);
  if (turn->phase == TurnPhase::kDone) return;
  if (turn->cancelled || turn->stopping) return sessions.Cancel(turn, turn->stopping);
  admission.Resume(turn);
  limits.CountQueued();
}

void Service::State::Finished(const TurnPtr& turn) {
  const auto it = turns.find(turn->id);
  core.Cancel(it->second.timeout);
  turns.erase(it);
  admission.Ended(turn);
  limits.Ended(*turn);
  sessions.SetIdle(turns.empty() && !stopping);
  CheckStopped();
}

void Service::State::Room() {
  admission.Room();
  limits.CountQueued();
}

void Service::State::Shutdown(std::function<void()> done) {
  stopping = true;
  stopped = std::move(done);
  Log(LogLevel::kInfo, "service.stopping", {{"turns", static_cast<uint64_t>(turns.size())}});
  // A copy: turns end and leave the map while we walk.
  const auto open = turns;
  for (const auto& [ticket, one] : open)
    admission.Drop(one.turn);
  for (const auto& [ticket, one] : open)
    sessions.Cancel(one.turn, /*stopping=*/true);
  CheckStopped();
}

void Service::State::CheckStopped() {
  if (!stopping || !turns.empty() || !stopped) return;
  sessions.WhenSettled(std::exchange(stopped, nullptr));
}

Service::Service(ServiceSettings settings, SessionManager& sessions, Runner& core, Metrics& metrics)
    : state_(std::make_shared<State>(settings, sessions, core, metrics)) {
  const std::weak_ptr<State> weak = state_;
  TurnEvents events;
  events.on_ready = [weak](const TurnPtr& turn) {
    if (const auto state = weak.lock()) state->Ready(turn);
  };
  events.on_preempted = [weak](const TurnPtr& turn) {
    if (const auto state = weak.lock()) state->Preempted(turn);
  };
  events.on_room = [weak] {
    if (const auto state = weak.lock()) state->Room();
  };
  events.on_finished = [weak](const TurnPtr& turn) {
    if (const auto state = weak.lock()) state->Finished(turn);
  };
  sessions.SetEvents(std::move(events));
  sessions.context().engine.SetPressureCallback([weak](RunId) {
    if (const auto state = weak.lock()) state->admission.RelievePressure();
  });
}

Service::~Service() = default;

const EngineInfo& Service::engine_info() const {
  return state_->sessions.context().engine.info();
}

int32_t Service::window_tokens() const {
  return state_->sessions.context().settings.window_tokens;
}

int32_t Service::turns_running_max() const {
  return state_->settings.admission.turns_running_max;
}

Result<std::vector<TokenId>> Service::Tokenize(std::string_view text, bool add_special,
                                               bool parse_special) const {
  return state_->sessions.context().engine.Tokenize(text, add_special, parse_special);
}

std::string Service::TokenText(TokenId token, bool special) const {
  return state_->sessions.context().engine.TokenText(token, special);
}

TurnTicket Service::Submit(TurnRequest request, TurnSink sink) {
  const uint64_t ticket = state_->next_ticket.fetch_add(1, std::memory_order_relaxed);
  state_->core.Post(
      [state = state_, ticket, request = std::move(request), sink = std::move(sink)]() mutable {
        state->Submit(ticket, std::move(request), std::move(sink));
      });
  return TurnTicket{ticket};
}

void Service::Cancel(TurnTicket ticket) {
  state_->core.Post([state = state_, ticket] { state->Cancel(ticket.value); });
}

void Service::ListSessions(std::string tenant, std::string user, std::string after, size_t limit,
                           std::function<void(Result<SessionListing>)> done) {
  state_->core.Post(
      [state = state_, tenant = std::move(tenant), user = std::move(user), after = std::move(after),
       limit, done = std::move(done)] { state->sessions.List(tenant, user, after, limit, done); });
}

void Service::GetSession(SessionKey key, std::function<void(Result<SessionInfo>)> done) {
  state_->core.Post([state = state_, key = std::move(key), done = std::move(done)] {
    state->sessions.Get(key, done);
  });
}

void Service::GetTurns(SessionKey key, TurnPageRequest page,
                       std::function<void(Result<TurnPage>)> done) {
  state_->core.Post([state = state_, key = std::move(key), page = std::move(page),
                     done = std::move(done)] { state->sessions.GetTurns(key, page, done); });
}

void Service::ImportItems(SessionKey key, std::vector<ImportItem> items,
                          std::function<void(Result<ImportOutcome>)> done, ImportKey once) {
  state_->core.Post([state = state_, key = std::move(key), items = std::move(items),
                     done = std::move(done), once = std::move(once)]() mutable {
    if (state->stopping) return done(Stopping());
    state->sessions.Import(key, std::move(items), done, std::move(once));
  });
}

void Service::ReadLine(SessionKey key, LineCursor from,
                       std::function<void(Result<LinePage>)> done) {
  state_->core.Post([state = state_, key = std::move(key), from = std::move(from),
                     done = std::move(done)] { state->sessions.ReadLine(key, from, done); });
}

void Service::DeleteSession(SessionKey key, std::function<void(Status)> done) {
  state_->core.Post([state = state_, key = std::move(key), done = std::move(done)] {
    state->sessions.Delete(key, done);
  });
}

void Service::Search(MemorySearch search, std::function<void(Result<MemoryAnswer>)> done) {
  state_->core.Post([state = state_, search = std::move(search), done = std::move(done)] {
    if (state->stopping) return done(Stopping());
    state->sessions.Search(search, done);
  });
}

void Service::Explain(SessionKey key, TurnId turn,
                      std::function<void(Result<TurnExplanation>)> done) {
  state_->core.Post(
      [state = state_, key = std::move(key), turn = std::move(turn), done = std::move(done)] {
        if (state->stopping) return done(Stopping());
        state->sessions.Explain(key, turn, done);
      });
}

void Service::ChangeTurn(SessionKey key, TurnId turn, TurnChange change,
                         std::function<void(Result<TurnState>)> done) {
  state_->core.Post([state = state_, key = std::move(key), turn = std::move(turn),
                     change = std::move(change), done = std::move(done)] {
    if (state->stopping) return done(Stopping());
    state->sessions.ChangeTurn(key, turn, change, done);
  });
}

void Service::ChangeSettings(SessionKey key, SettingsPatch patch,
                             std::function<void(Result<SessionInfo>)> done) {
  state_->core.Post(
      [state = state_, key = std::move(key), patch = std::move(patch), done = std::move(done)] {
        if (state->stopping) return done(Stopping());
        state->sessions.ChangeSettings(key, patch, done);
      });
}

void Service::DeleteTurn(SessionKey key, TurnId turn,
                         std::function<void(Result<TurnDeletion>)> done) {
  state_->core.Post(
      [state = state_, key = std::move(key), turn = std::move(turn), done = std::move(done)] {
        if (state->stopping) return done(Stopping());
        state->sessions.DeleteTurn(key, turn, done);
      });
}

TurnTicket Service::Replay(SessionKey key, TurnId turn, ReplayRequest request,
                           std::function<void(Result<ReplayOutcome>)> done) {
  const uint64_t ticket = state_->next_ticket.fetch_add(1, std::memory_order_relaxed);
  state_->core.Post([state = state_, ticket, key = std::move(key), turn = std::move(turn),
                     request = std::move(request),
                     done = std::move(done)] { state->Replay(ticket, key, turn, request, done); });
  return TurnTicket{ticket};
}

void Service::Shutdown(std::function<void()> done) {
  state_->core.Post([state = state_, done = std::move(done)] { state->Shutdown(done); });
}

}  // namespace tenuto
