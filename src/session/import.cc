#include "session/import.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <utility>

#include "session/items.h"
#include "session/recall_record.h"

namespace tenuto {
namespace {

namespace json = boost::json;

class Planner {
 public:
  Planner(const SessionContext& context, const SessionKey& key, const LoadedSession& loaded,
          ImportDraft draft)
      : context_(context),
        settings_(EffectiveSettings(context.settings, loaded.marks.overrides)),
        limits_(settings_.Limits(std::nullopt)),
        draft_(std::move(draft)),
        system_json_(draft_.new_session ? ItemsToJson(draft_.system) : loaded.row->system_json),
        window_(loaded.window),
        now_unix_ms_(context.clock.UnixMs()) {
    plan_.outcome.session = key;
    window_.SetPins(loaded.marks.pins);
    if (loaded.row) head_ = loaded.row->head;
  }

  Result<ImportPlan> Run() && {
    for (DraftTurn& turn : draft_.turns)
      TENUTO_TRY(AddTurn(turn));
    return std::move(plan_);
  }

 private:
  Status AddTurn(DraftTurn& draft) {
    const bool first = head_.empty();
    TurnCommit commit;
    commit.key = plan_.outcome.session;
    commit.expected_head = head_;
    commit.lease_epoch = context_.lease_epoch;
    commit.vocabulary = context_.engine.info().vocabulary;
    commit.system_json = system_json_;
    TurnRow& turn = commit.turn;
    turn.id = NewId();
    turn.parent = head_;
    if (first) {
      commit.head_tokens = HeadOf(draft.asked, draft.answer);
      TENUTO_TRY(CheckHeadFits(draft.asked, commit.head_tokens));
    }
    turn.prompt = std::move(draft.asked.suffix);
    turn.answer = std::move(draft.answer);
    turn.close_tokens = draft.asked.close_tokens;
    turn.items_json = ImportedItemsJson(draft, first);
    turn.params_json = R"({"imported":true})";
    turn.finish_reason = draft.answered ? "stop" : "imported";
    turn.incomplete = !draft.answered;
    turn.created_unix_ms = TimeOf(draft.begin);
    turn.completed_unix_ms = std::max(turn.created_unix_ms, TimeOf(draft.end - 1));
    commit.stored_unix_ms = now_unix_ms_;
    Place(commit, first);
    head_ = turn.id;
    ++plan_.outcome.turns;
    plan_.outcome.tokens += turn.prompt.size() + turn.answer.size();
    plan_.commits.push_back(std::move(commit));
    return Ok();
  }

  // What stays in front of every later turn. Where the template can't print a system prompt by
  // itself that is the whole first turn, which may be long, but not longer than a window.
  Status CheckHeadFits(const TurnTokens& tokens, std::span<const TokenId> head) const {
    Status fits = Ok();
    if (tokens.head) {
      fits = CheckHead(head, limits_);
    } else if (head.size() >= static_cast<size_t>(limits_.tokens)) {
      fits = Error(Code::kInvalid,
                   "this model's chat template keeps a session's first turn for good, and this one "
                   "has " +
                       std::to_string(head.size()) + " tokens; the window has " +
                       std::to_string(limits_.tokens));
    }
    return fits ? fits : Status(AtItem(0, std::move(fits).error()));
  }

  // Cuts the window as a served turn would have. A turn that no window holds is archive from the
  // start: the next one cuts it away.
  void Place(TurnCommit& commit, bool first) {
    TurnRow& turn = commit.turn;
    const auto size = static_cast<int32_t>(turn.prompt.size() + turn.answer.size());
    // What was quoted so far goes, with or without a cut: these turns were never answered with it.
    const bool spans_gone = window_.recall_tokens() > 0 || window_.spans_since() > 1;
    const auto drop = window_.PlanCut(size, 0, limits_);
    if (!drop.ok()) {
      window_ = window_.Without(window_.turns());
    } else if (*drop) {
      window_ = window_.Without(**drop);
    }
    if (spans_gone || !window_.front().empty()) turn.recall_json = WindowRecord();
    turn.window_first = window_.first();
    if (first) window_.SetHead(commit.head_tokens);
    window_.Append(turn.prompt, turn.answer, turn.close_tokens);
  }

  std::string WindowRecord() const {
    RecallRecord record;
    record.spans_since = window_.next();
    record.mark = window_.mark();
    for (const PinnedTurn& pinned : window_.front())
      record.front.push_back({pinned.line, pinned.id});
    return RecordToJson(record);
  }

  int64_t TimeOf(size_t item) {
    if (draft_.items[item].unix_ms != 0) last_unix_ms_ = draft_.items[item].unix_ms;
    return last_unix_ms_ != 0 ? last_unix_ms_ : now_unix_ms_;
  }

  TurnId NewId() {
    std::array<std::byte, 16> entropy;
    context_.random.Fill(entropy);
    return MakeTurnId(now_unix_ms_,
                      {reinterpret_cast<const char*>(entropy.data()), entropy.size()});
  }

  // Of who spoke; an item without a time is of the one before it.
  int32_t ZoneOf(size_t item) {
    const ImportItem& given = draft_.items[item];
    if (given.unix_ms != 0)
      last_zone_s_ = given.zone_s.value_or(settings_.ZoneAt("", given.unix_ms));
    return last_zone_s_;
  }

  std::string ImportedItemsJson(const DraftTurn& turn, bool first) {
    std::vector<StoredItem> stored;
    if (first)
      for (const ChatMessage& message : draft_.system)
        stored.push_back({message, ""});
    for (size_t i = turn.begin; i < turn.end; ++i)
      stored.push_back({draft_.items[i].message, draft_.items[i].client_id, ZoneOf(i)});
    if (!turn.answered) stored.push_back({{"assistant", "", ""}, ""});
    return StoredItemsJson(stored);
  }

  const SessionContext& context_;
  const SessionSettings settings_;
  const WindowLimits limits_;
  ImportDraft draft_;
  const std::string system_json_;
  SessionWindow window_;
  TurnId head_;
  const int64_t now_unix_ms_;
  int64_t last_unix_ms_ = 0;
  int32_t last_zone_s_ = 0;
  ImportPlan plan_;
};

}  // namespace

Result<ImportPlan> PlanImport(const SessionContext& context, const SessionKey& key,
                              const LoadedSession& loaded, ImportDraft draft) {
  return Planner(context, key, loaded, std::move(draft)).Run();
}

void KeepKey(ImportPlan& plan, const ImportKey& once) {
  if (once.key.empty() || plan.commits.empty()) return;
  TurnRow& turn = plan.commits.front().turn;
  turn.idempotency_key = once.key;
  turn.outcome_json = json::serialize(json::object{{"request", "import " + once.request},
                                                   {"turns", plan.outcome.turns},
                                                   {"tokens", plan.outcome.tokens}});
}

Result<std::optional<ImportOutcome>> FindImport(TokenLog& log, const SessionRow& row,
                                                const ImportKey& once) {
  if (once.key.empty()) return std::optional<ImportOutcome>();
  const auto turn = log.FindByIdempotencyKey(row.id, once.key);
  if (!turn.ok()) {
    if (turn.error().code() == Code::kNotFound) return std::optional<ImportOutcome>();
    return turn.error();
  }
  boost::system::error_code error;
  const json::value stored = json::parse(turn->outcome_json, error);
  const json::object* object = error ? nullptr : stored.if_object();
  const auto number = [&](std::string_view name) {
    const json::value* value = object->if_contains(name);
    return value != nullptr && value->is_int64() ? static_cast<uint64_t>(value->get_int64()) : 0;
  };
  const json::value* request = object == nullptr ? nullptr : object->if_contains("request");
  if (request == nullptr || *request != json::value("import " + once.request))
    return Error(Code::kConflict,
                 "this Idempotency-Key was used for another request of the session")
        .At("Idempotency-Key");
  return std::optional<ImportOutcome>({row.key, number("turns"), number("tokens"), true});
}

}  // namespace tenuto
