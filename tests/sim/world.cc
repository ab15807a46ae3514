#include "tests/sim/world.h"

#include <algorithm>
#include <utility>

#include "session/quote.h"

namespace tenuto::sim {
namespace {

constexpr int64_t kMs = 1'000'000;

FakeExecutorSettings ModelSettings(const WorldSettings& settings) {
  FakeExecutorSettings model;
  model.window = settings.window;
  model.cells = settings.cells;
  model.sequences = settings.sequences;
  model.batch_tokens_max = 64;
  model.kv_bytes_per_token = 64;
  model.answer_tokens_max = 30;
  return model;
}

// Canary: acknowledges every commit, keeps most.
class LosingTokenLog : public MemoryTokenLog {
 public:
  std::vector<Result<int64_t>> Commit(std::span<const TurnCommit> commits) override {
    if (++calls_ % 7 != 0) return MemoryTokenLog::Commit(commits);
    std::vector<Result<int64_t>> lies;
    for (size_t i = 0; i < commits.size(); ++i)
      lies.emplace_back(int64_t{1});
    return lies;
  }

 private:
  uint64_t calls_ = 0;
};

// What the model answers to `prefix`, computed token by token on an executor of its own.
std::vector<TokenId> ReferenceAnswer(FakeExecutor& model, const std::vector<TokenId>& prefix,
                                     size_t tokens_max) {
  const SeqId seq{0};
  std::vector<TokenId> answer;
  std::vector<ForwardToken> batch;
  const auto run = [&](std::span<const ForwardToken> all) {
    for (size_t at = 0; at < all.size(); at += 64)
      if (!model.Forward(all.subspan(at, std::min<size_t>(64, all.size() - at))).ok()) return false;
    return true;
  };
  for (size_t i = 0; i < prefix.size(); ++i)
    batch.push_back({seq, static_cast<TokenPos>(i), prefix[i], i + 1 == prefix.size()});
  bool good = run(batch);
  while (good && answer.size() < tokens_max) {
    const auto logits = model.Logits(0);
    const auto token = static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
    if (model.IsEnd(token)) break;
    answer.push_back(token);
    const ForwardToken next{seq, static_cast<TokenPos>(prefix.size() + answer.size() - 1), token,
                            true};
    good = answer.size() == tokens_max || model.Forward({&next, 1}).ok();
  }
  if (auto cleared = model.Truncate(seq, 0); !cleared.ok()) answer.clear();
  return answer;
}

// What the model was asked in turn `index`: the head, pinned turns, then whole turns from the cut
// on, each with what it quoted unless a later cut took that away; the first of all without what
// closes a turn that is not there.
class Prompt {
 public:
  Prompt(TokenLog& log, const TokenizeText& tokenize, const SessionRow& row,
         std::span<const TurnRow> turns)
      : log_(log), tokenize_(tokenize), row_(row), turns_(turns) {}

  std::vector<TokenId> Of(size_t index) {
    const auto first = static_cast<size_t>(turns_[index].window_first - 1);
    const RecallRecord record = RecordFromJson(turns_[index].recall_json).value();
    tokens_.clear();
    if (first > 0) tokens_ = row_.head_tokens;
    closes_nothing_ = first > 0;
    for (const NumberedTurn& pinned : record.front)
      Add(static_cast<size_t>(pinned.line - 1), false, true);
    for (size_t i = first; i <= index; ++i)
      Add(i, i + 1 >= record.spans_since, i < index);
    quotes_ = !record.quotes.empty();
    pinned_ = !record.front.empty();
    return tokens_;
  }
  bool quotes() const { return quotes_; }
  bool pinned() const { return pinned_; }

 private:
  void Add(size_t i, bool with_span, bool with_answer) {
    const TurnRow& turn = turns_[i];
    std::vector<TokenId> own = turn.prompt;
    const RecallRecord record = RecordFromJson(turn.recall_json).value();
    if (with_span && !record.quotes.empty()) {
      const RecallSpan span = ReadSpan(log_, tokenize_, row_, record).value().span;
      own.insert(own.begin() + span.at, span.tokens.begin(), span.tokens.end());
    }
    size_t skip = std::exchange(closes_nothing_, false) ? turn.close_tokens : 0;
    // The head stands in front already.
    if (i == 0 && !tokens_.empty()) skip = row_.head_tokens.size();
    tokens_.insert(tokens_.end(), own.begin() + static_cast<std::ptrdiff_t>(skip), own.end());
    if (with_answer) tokens_.insert(tokens_.end(), turn.answer.begin(), turn.answer.end());
  }

  TokenLog& log_;
  const TokenizeText& tokenize_;
  const SessionRow& row_;
  std::span<const TurnRow> turns_;
  std::vector<TokenId> tokens_;
  bool closes_nothing_ = false;
  bool quotes_ = false;
  bool pinned_ = false;
};

}  // namespace

struct Life {
  Life(World& world, const WorldSettings& settings, SimWorld& sim, FakeDisk& disk, TokenLog& log)
      : owner(world),
        core(sim.NewRunner("core")),
        engine_runner(sim.NewRunner("engine", 40 * kMs)),
        log_runner(sim.NewRunner("log", 5 * kMs)),
        pool(sim.NewRunner("pool", 3 * kMs)),
        executor(ModelSettings(settings)),
        engine(executor, EngineRunners{engine_runner, core}, sim.clock(), EmbeddedSettings{},
               metrics),
        writer(log, log_runner, core),
        indexes(disk.Root()->Sub("recall").value(), sim.clock(), metrics) {
    auto root = disk.Root()->Sub("kv");
    store = SegmentStore::Open(std::move(root).value(), sim.random()).value();
    SessionSettings session;
    session.window_tokens = settings.window;
    session.resident_idle_tokens = 150;
    session.answer_reserve_tokens = 20;
    session.sessions_cached_max = 3;
    session.recall.share_max = 0.5;  // the frame alone is a third of so small a window
    session.recall.tokens_max = 250;
    const uint64_t epoch = *log.NextLeaseEpoch();
    manager = std::make_unique<SessionManager>(SessionContext{engine, log, writer, store.get(),
                                                              core, pool, sim.clock(), sim.random(),
                                                              metrics, session, epoch, &indexes});
    ServiceSettings scheduling;
    scheduling.admission.turns_running_max = settings.running_max;
    scheduling.admission.tenant_turns_running_max = settings.tenant_running_max;
    scheduling.limits.turns_queued_max = 100;
    scheduling.limits.queue_timeout_s = settings.queue_timeout_s;
    service = std::make_unique<Service>(scheduling, *manager, core, metrics);
  }

  int64_t TurnsCounted() {
    const char* const help = "Turns that wait for a place in the engine, by priority";
    return metrics.GetGauge("tenuto_turns_queued", help, "priority=\"interactive\"").value() +
           metrics.GetGauge("tenuto_turns_queued", help, "priority=\"batch\"").value() +
           metrics.GetGauge("tenuto_turns_running", "Turns in the engine").value();
  }

  World& owner;
  Metrics metrics;
  Runner& core;
  Runner& engine_runner;
  Runner& log_runner;
  Runner& pool;
  FakeExecutor executor;
  EmbeddedEngine engine;
  LogWriter writer;
  IndexCache indexes;
  std::unique_ptr<SegmentStore> store;
  std::unique_ptr<SessionManager> manager;
  std::unique_ptr<Service> service;
};

struct World::Client {
  size_t index = 0;
  int32_t turns_left = 0;
  bool waiting = false;
  uint64_t requests = 0;
  std::string session;
  TurnRequest request;  // the one that is open, for a retry
  bool retry = false;
};

World::World(WorldSettings settings)
    : settings_(settings), sim_(settings.seed), disk_(settings.seed ^ 0x5eed) {
  auto log = settings_.lose_commits ? std::make_unique<LosingTokenLog>()
                                    : std::make_unique<MemoryTokenLog>();
  memory_log_ = log.get();
  log_ = std::move(log);
  for (int32_t i = 0; i < settings_.clients; ++i) {
    auto client = std::make_unique<Client>();
    client->index = static_cast<size_t>(i);
    client->turns_left = settings_.turns_per_client;
    clients_.push_back(std::move(client));
  }
}

World::~World() = default;

void World::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = "seed " + std::to_string(settings_.seed) + ": " + what;
}

void World::Start() {
  life_ = std::make_unique<Life>(*this, settings_, sim_, disk_, *log_);
  ++life_count_;
}

void World::Crash() {
  ++facts_.crashes;
  sim_.DropAll();
  life_.reset();
  disk_.Crash();
  memory_log_->Crash();
  sim_.DropAll();
  for (auto& client : clients_) {
    // A client whose answer was lost does not know whether the turn happened.
    if (client->waiting) client->retry = sim_.random().Chance(settings_.retry_chance);
    client->waiting = false;
  }
  Start();
}

void World::Send(Client& client) {
  SeededRandom& random = sim_.random();
  if (!client.retry) {
    const uint64_t session = random.Below(static_cast<uint64_t>(settings_.sessions));
    const uint64_t tenant = session % static_cast<uint64_t>(settings_.tenants);
    client.session = "t" + std::to_string(tenant) + "::u::a::s" + std::to_string(session);
    TurnRequest request;
    if (random.Chance(settings_.batch_chance)) request.priority = TurnPriority::kBatch;
    request.session = *ParseSessionKey(client.session);
    request.messages = {{"user", "harbour q" + std::to_string(random.Below(30)), ""}};
    if (random.Chance(0.05)) request.messages[0].content.append(random.Below(350), 'x');
    if (random.Chance(0.3)) request.recall = RecallMode::kForced;
    request.sampling.temperature = 0;
    request.seed_given = true;
    request.idempotency_key =
        "c" + std::to_string(client.index) + "-" + std::to_string(client.requests++);
    if (random.Chance(0.3)) request.max_tokens = static_cast<int32_t>(1 + random.Below(8));
    client.request = request;
  }
  client.retry = false;
  client.waiting = true;
  TurnSink sink;
  sink.on_done = [this, index = client.index, life = life_count_,
                  session = client.session](Result<TurnOutcome> result) {
    Answered(index, life, session, std::move(result));
  };
  const TurnTicket ticket = life_->service->Submit(client.request, std::move(sink));
  if (random.Chance(settings_.cancel_chance)) {
    ++facts_.cancels;
    const auto delay = static_cast<int64_t>(random.Below(2000)) * kMs;
    life_->core.After(delay, [this, ticket] { life_->service->Cancel(ticket); });
  }
}

void World::Answered(size_t index, uint64_t life, const std::string& session,
                     Result<TurnOutcome> result) {
  Client& client = *clients_[index];
  if (life != life_count_) return Fail("an answer from a process that is dead");
  if (!client.waiting) return Fail("two answers to one request");
  client.waiting = false;
  --client.turns_left;
  if (!result.ok()) {
    // A turn that was cancelled before it said anything has no other answer.
    const Code code = result.error().code();
    if (code == Code::kExhausted && result.error().field() == "limit.queue_timeout") {
      ++facts_.refusals;
    } else if (code != Code::kUnavailable)
      Fail("turn failed: " + std::string(CodeName(code)) + " " + result.error().message());
    return;
  }
  const TurnOutcome& outcome = *result;
  if (outcome.reused + outcome.restored + outcome.recomputed != outcome.prompt_tokens)
    Fail("reused + restored + recomputed is not the prompt");
  int32_t explained = 0;
  for (const KvReason& reason : outcome.reasons)
    explained += reason.tokens;
  if (explained != outcome.recomputed) Fail("recomputed tokens without a reason");
  auto& list = acknowledged_[session];
  const bool known =
      std::ranges::any_of(list, [&](const auto& a) { return a.turn == outcome.turn.value; });
  if (outcome.replayed) ++facts_.replays;
  if (known && !outcome.replayed) Fail("the same turn was acknowledged twice");
  facts_.restored_tokens += static_cast<uint64_t>(outcome.restored);
  if (!known) PinSometimes(*ParseSessionKey(session), outcome.turn);
  facts_.trace += outcome.turn.value + " " + outcome.text + "\n";
  if (known) return;
  ++facts_.turns_acknowledged;
  if (client.request.priority == TurnPriority::kBatch) ++facts_.batch_turns;
  list.push_back({outcome.turn.value, outcome.text, outcome.tokens, outcome.finish_reason});
}

void World::PinSometimes(const SessionKey& key, const TurnId& turn) {
  if (!sim_.random().Chance(settings_.pin_chance)) return;
  TurnChange change;
  change.pinned = sim_.random().Chance(0.8);
  life_->service->ChangeTurn(key, turn, change, [this](Result<TurnState> state) {
    // Too many pins; or the service stops.
    if (!state.ok() && state.error().code() != Code::kInvalid &&
        state.error().code() != Code::kUnavailable)
      Fail("a turn could not be pinned: " + state.error().message());
  });
}

std::string World::Run() {
  Start();
  SeededRandom& random = sim_.random();
  for (uint64_t guard = 0; failure_.empty() && guard < 2'000'000; ++guard) {
    bool open = false;
    for (auto& client : clients_) {
      if (client->waiting) open = true;
      if (client->waiting || client->turns_left <= 0) continue;
      open = true;
      if (random.Chance(settings_.crash_chance)) Crash();
      if (random.Chance(0.2)) Send(*client);
    }
    if (!open) break;
    // A crash can come at any step, not only between requests.
    if (random.Chance(settings_.crash_chance * 0.01)) Crash();
    sim_.Step();
    ++facts_.steps;
  }
  if (!failure_.empty()) return failure_;
  bool stopped = false;
  life_->service->Shutdown([&] { stopped = true; });
  if (!sim_.RunUntil([&] { return stopped; })) Fail("the shutdown did not end");
  sim_.RunUntil([] { return false; }, 100'000);
  if (!life_->manager->CheckIdle()) Fail("leases, pins or cells are left after the end");
  if (life_->TurnsCounted() != 0) Fail("turns are counted as waiting or running after the end");
  for (const auto& client : clients_)
    if (client->waiting) Fail("a request was never answered");
  if (failure_.empty()) failure_ = CheckLog();
  return failure_;
}

// The log must hold each acknowledged turn once, and each turn's answer must be what the model says
// to all before it.
std::string World::CheckLog() {
  WorldSettings roomy = settings_;
  roomy.cells = settings_.window + 64;
  FakeExecutor reference(ModelSettings(roomy));
  const TokenizeText tokenize = [&](std::string_view text, bool add_special, bool parse_special) {
    return reference.Tokenize(text, add_special, parse_special);
  };
  const auto failed = [&](const std::string& what) {
    return "seed " + std::to_string(settings_.seed) + ": " + what;
  };
  for (const auto& [name, list] : acknowledged_) {
    const auto row = log_->FindSession(*ParseSessionKey(name));
    if (!row.ok()) return failed("session " + name + " is missing");
    const auto turns = log_->ReadTurns(row->id, row->head);
    if (!turns.ok()) return failed("turns of " + name + ": " + turns.error().message());
    std::map<std::string, const TurnRow*> by_id;
    std::set<std::string> keys;
    Prompt prompt(*log_, tokenize, *row, *turns);
    for (size_t i = 0; i < turns->size(); ++i) {
      const TurnRow& turn = (*turns)[i];
      if (!by_id.emplace(turn.id.value, &turn).second) return failed("a turn is in the log twice");
      if (!keys.insert(turn.idempotency_key).second) return failed("one request became two turns");
      const std::vector<TokenId> prefix = prompt.Of(i);
      facts_.turns_that_quote += prompt.quotes() ? 1 : 0;
      facts_.turns_behind_pins += prompt.pinned() ? 1 : 0;
      if (static_cast<int32_t>(prefix.size() + turn.answer.size()) > settings_.window)
        return failed("turn " + turn.id.value + " had more tokens than the window");
      if (turn.window_first > 1) ++facts_.turns_past_the_window;
      const auto expected = ReferenceAnswer(reference, prefix, turn.answer.size() + 1);
      const bool whole = turn.finish_reason == "stop";
      if (whole ? turn.answer != expected
                : !std::equal(turn.answer.begin(), turn.answer.end(), expected.begin(),
                              expected.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                     turn.answer.size(), expected.size()))))
        return failed("the answer of turn " + turn.id.value + " in " + name +
                      " is not the model's");
    }
    for (const Acknowledged& ack : list) {
      const auto it = by_id.find(ack.turn);
      if (it == by_id.end())
        return failed("acknowledged turn " + ack.turn + " of " + name + " is not in the log");
      if (it->second->answer != ack.tokens)
        return failed("the log has another answer than was acknowledged");
    }
  }
  return "";
}

}  // namespace tenuto::sim
