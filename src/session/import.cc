#include "session/import.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <set>
#include <utility>

#include "session/items.h"
#include "session/recall_record.h"
#include "session/tool_text.h"

namespace tenuto {
namespace {

namespace json = boost::json;

Error AtItem(size_t index, Error error) {
  return std::move(error)
      .With("item " + std::to_string(index + 1))
      .At("items[" + std::to_string(index) + "]");
}

// Items [begin, end) of one turn; the last is the answer when `answered`.
struct ItemRun {
  size_t begin = 0;
  size_t end = 0;
  bool answered = false;
};

// Cuts items into turns. A tool call and its results stand between a message and its answer, so
// they are always of the turn they belong to.
class Splitter {
 public:
  explicit Splitter(const std::vector<ImportItem>& items) : items_(items) {}

  Result<std::vector<ItemRun>> Run(size_t begin) && {
    start_ = begin;
    for (size_t i = begin; i < items_.size(); ++i)
      TENUTO_TRY(Take(i));
    if (start_ < items_.size()) runs_.push_back({start_, items_.size(), false});
    return std::move(runs_);
  }

 private:
  Status Take(size_t i) {
    const ChatMessage& message = items_[i].message;
    if (message.role == "assistant") return TakeAssistant(i);
    if (message.role == "tool") {
      if (calls_.erase(message.tool_call_id) > 0) return Ok();
      return AtItem(i, {Code::kInvalid, "no call of the turn waits for the result of '" +
                                            message.tool_call_id + "'"});
    }
    if (message.role != "user")
      return AtItem(i, {Code::kInvalid, message.role == "system"
                                            ? "a system item stands before all others or not at all"
                                            : "the role must be system, user, assistant or tool"});
    // Whoever called tools never answered.
    if (called_) End(i, false);
    return Ok();
  }

  Status TakeAssistant(size_t i) {
    if (i == start_)
      return AtItem(i, {Code::kInvalid, "an assistant's item needs a user's before it"});
    const auto calls = ToolCallsFromJson(items_[i].message.tool_calls);
    if (calls.empty()) {
      End(i + 1, true);
      return Ok();
    }
    called_ = true;
    for (const ToolCall& call : calls)
      calls_.insert(call.id);
    return Ok();
  }

  void End(size_t end, bool answered) {
    runs_.push_back({start_, end, answered});
    start_ = end;
    called_ = false;
    calls_.clear();
  }

  const std::vector<ImportItem>& items_;
  std::vector<ItemRun> runs_;
  size_t start_ = 0;
  bool called_ = false;          // in the turn so far
  std::set<std::string> calls_;  // of the turn, without a result so far
};

class Planner {
 public:
  Planner(const SessionContext& context, const SessionKey& key, const LoadedSession& loaded,
          std::vector<ImportItem> items)
      : context_(context),
        settings_(EffectiveSettings(context.settings, loaded.marks.overrides)),
        limits_(settings_.Limits(std::nullopt)),
        items_(std::move(items)),
        close_(CloseTokens(context.engine)),
        window_(loaded.window),
        now_unix_ms_(context.clock.UnixMs()) {
    plan_.outcome.session = key;
    window_.SetPins(loaded.marks.pins);
    if (loaded.row) {
      head_ = loaded.row->head;
      system_json_ = loaded.row->system_json;
    }
  }

  Result<ImportPlan> Run() && {
    size_t begin = 0;
    while (begin < items_.size() && items_[begin].message.role == "system")
      ++begin;
    TENUTO_TRY(TakeSystem(begin));
    TENUTO_ASSIGN(const auto runs, Splitter(items_).Run(begin));
    if (runs.empty())
      return AtItem(0, {Code::kInvalid, "there is no turn to import: a system item alone is none"});
    for (const ItemRun& run : runs)
      TENUTO_TRY(AddTurn(run));
    return std::move(plan_);
  }

 private:
  Status TakeSystem(size_t count) {
    for (size_t i = 0; i < count; ++i)
      system_.push_back(items_[i].message);
    const std::string given = ItemsToJson(system_);
    if (head_.empty()) {
      system_json_ = given;
    } else if (count > 0 && given != system_json_) {
      return AtItem(0, {Code::kInvalid,
                        "the system item differs from the one this session began with; leave it "
                        "out, or use another session"});
    }
    return Ok();
  }

  Status AddTurn(const ItemRun& run) {
    const bool first = head_.empty();
    const size_t asked_end = run.answered ? run.end - 1 : run.end;
    std::vector<ChatMessage> messages = first ? system_ : std::vector<ChatMessage>();
    for (size_t i = run.begin; i < asked_end; ++i)
      messages.push_back(items_[i].message);
    auto tokens = ChatTurnTokens(context_.engine, WithToolsAsText(messages), first, close_);
    if (!tokens.ok()) return AtItem(run.begin, std::move(tokens).error());

    TurnCommit commit;
    commit.key = plan_.outcome.session;
    commit.expected_head = head_;
    commit.lease_epoch = context_.lease_epoch;
    commit.vocabulary = context_.engine.info().vocabulary;
    commit.system_json = system_json_;
    TurnRow& turn = commit.turn;
    turn.id = NewId();
    turn.parent = head_;
    if (run.answered) {
      const std::string& answer = items_[run.end - 1].message.content;
      TENUTO_ASSIGN(turn.answer, context_.engine.Tokenize(answer, false, false));
    }
    if (first) {
      commit.head_tokens = HeadOf(*tokens, turn.answer);
      TENUTO_TRY(CheckHeadFits(*tokens, commit.head_tokens));
    }
    turn.prompt = std::move(tokens->suffix);
    turn.close_tokens = tokens->close_tokens;
    turn.items_json = ImportedItemsJson(run, first);
    turn.params_json = R"({"imported":true})";
    turn.finish_reason = run.answered ? "stop" : "imported";
    turn.incomplete = !run.answered;
    turn.created_unix_ms = TimeOf(run.begin);
    turn.completed_unix_ms = std::max(turn.created_unix_ms, TimeOf(run.end - 1));
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
    if (items_[item].unix_ms != 0) last_unix_ms_ = items_[item].unix_ms;
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
    const ImportItem& given = items_[item];
    if (given.unix_ms != 0)
      last_zone_s_ = given.zone_s.value_or(settings_.ZoneAt("", given.unix_ms));
    return last_zone_s_;
  }

  std::string ImportedItemsJson(const ItemRun& run, bool first) {
    std::vector<StoredItem> stored;
    if (first)
      for (const ChatMessage& message : system_)
        stored.push_back({message, ""});
    for (size_t i = run.begin; i < run.end; ++i)
      stored.push_back({items_[i].message, items_[i].client_id, ZoneOf(i)});
    if (!run.answered) stored.push_back({{"assistant", "", ""}, ""});
    return StoredItemsJson(stored);
  }

  const SessionContext& context_;
  const SessionSettings settings_;
  const WindowLimits limits_;
  const std::vector<ImportItem> items_;
  std::vector<ChatMessage> system_;
  std::string system_json_ = "[]";
  const std::vector<TokenId> close_;
  SessionWindow window_;
  TurnId head_;
  const int64_t now_unix_ms_;
  int64_t last_unix_ms_ = 0;
  int32_t last_zone_s_ = 0;
  ImportPlan plan_;
};

}  // namespace

Result<ImportPlan> PlanImport(const SessionContext& context, const SessionKey& key,
                              const LoadedSession& loaded, std::vector<ImportItem> items) {
  if (items.empty()) return Error(Code::kInvalid, "there is no item to import").At("items");
  return Planner(context, key, loaded, std::move(items)).Run();
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
