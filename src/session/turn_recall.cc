// Between a turn's plan and its start: what of the session's archive is quoted in its prompt.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "session/manager.h"

namespace tenuto {
namespace {

// Numbers [begin, end) without those in `lines`, which is sorted.
std::vector<TurnRange> RangesWithout(uint64_t begin, uint64_t end,
                                     const std::vector<uint64_t>& lines) {
  std::vector<TurnRange> ranges;
  for (const uint64_t line : lines) {
    if (line < begin || line >= end) continue;
    if (line > begin) ranges.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(line)});
    begin = line + 1;
  }
  if (begin < end) ranges.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  return ranges;
}

// Older turns that the prompt holds all the same, quoted or pinned; sorted.
std::vector<uint64_t> LinesHere(const SessionWindow& window) {
  std::vector<uint64_t> here = window.quoted_lines();
  for (const PinnedTurn& pinned : window.front())
    here.push_back(pinned.line);
  std::ranges::sort(here);
  here.erase(std::unique(here.begin(), here.end()), here.end());
  std::erase_if(here, [&](uint64_t line) { return line >= window.first(); });
  return here;
}

std::vector<TurnRange> PresentIn(const SessionWindow& window) {
  std::vector<TurnRange> present;
  for (const uint64_t line : LinesHere(window))
    present.push_back({static_cast<uint32_t>(line), static_cast<uint32_t>(line) + 1});
  return present;
}

// Archived turns may come back; those in the window, pinned or quoted there too, compete.
RecallScope ScopeOf(const SessionWindow& window, const std::vector<uint64_t>& never) {
  std::vector<uint64_t> left_out = LinesHere(window);
  left_out.insert(left_out.end(), never.begin(), never.end());
  std::ranges::sort(left_out);
  RecallScope scope;
  scope.candidates = RangesWithout(1, window.first(), left_out);
  scope.window = PresentIn(window);
  if (window.first() < window.next())
    scope.window.push_back(
        {static_cast<uint32_t>(window.first()), static_cast<uint32_t>(window.next())});
  return scope;
}

std::string MessageOf(const TurnRequest& request) {
  std::string message;
  for (const ChatMessage& item : request.messages) {
    if (item.role != "user") continue;
    if (!message.empty()) message += '\n';
    message += item.content;
  }
  return message;
}

}  // namespace

// Tokens that a span may take in front of this turn's message.
int32_t SessionManager::RecallRoom(const Turn& turn, const SessionWindow& window) const {
  const SessionSettings& settings = turn.settings;
  const WindowLimits limits = settings.Limits(turn.request.max_tokens);
  const auto share = static_cast<int32_t>(settings.recall.share_max * limits.tokens);
  const int32_t room = limits.tokens - limits.answer_tokens - window.size() -
                       static_cast<int32_t>(turn.tokens.suffix.size());
  return std::max(0, std::min({settings.recall.tokens_max, share - window.recall_tokens(), room}));
}

void SessionManager::Recall(const TurnPtr& turn) {
  const RecallMode mode = turn->request.recall.value_or(turn->settings.recall.mode);
  const bool possible = recall_ && turn->session &&
                        turn->request.kind == TurnRequest::Kind::kChat && turn->tokens.text_at;
  if (!possible || mode == RecallMode::kOff) return RecalledNothing(turn, "off");
  if (turn->first) return RecalledNothing(turn, "empty");
  const SessionWindow& window = *turn->history();
  RecallQuestion question;
  question.row = *turn->session->row;
  question.owner = turn->session->owner;
  question.scope = ScopeOf(window, turn->session->marks.never_recalled);
  question.present = PresentIn(window);
  question.superseded = turn->session->marks.superseded;
  question.message = MessageOf(turn->request);
  question.now_unix_ms = turn->created_unix_ms;
  question.zone_s = turn->zone_s;
  question.forced = mode == RecallMode::kForced;
  question.tokens_max = RecallRoom(*turn, window);
  question.mark = window.mark();
  if (question.scope.candidates.empty() && window.recall_tokens() == 0)
    return RecalledNothing(turn, "empty");
  // Where older spans take the room, the window without them is tried as well.
  std::optional<RecallQuestion> stripped;
  if (window.recall_tokens() > 0) {
    const SessionWindow without = window.Without(0);
    stripped = question;
    stripped->scope = ScopeOf(without, turn->session->marks.never_recalled);
    stripped->present = PresentIn(without);
    stripped->tokens_max = RecallRoom(*turn, without);
  }
  context_.pool.Post([this, turn, question = std::move(question), stripped = std::move(stripped)] {
    auto choice = std::make_shared<Result<RecallChoice>>(recall_->Choose(question));
    bool strip = false;
    if (choice->ok() && (*choice)->budget_short && stripped) {
      auto second = recall_->Choose(*stripped);
      strip = second.ok() && second->span.tokens.size() > (*choice)->span.tokens.size();
      if (strip) *choice = std::move(second);
    }
    context_.core.Post([this, turn, choice, strip] { ChosenOn(turn, std::move(*choice), strip); });
  });
}

void SessionManager::ChosenOn(const TurnPtr& turn, Result<RecallChoice> choice, bool strip) {
  if (EndedEarly(turn)) return;
  if (!choice.ok()) {
    // The turn goes on without what it could have been reminded of.
    counters_.recall_failures.Add();
    Log(LogLevel::kWarn, "recall.failed",
        {{"turn", turn->outcome.turn.value}, {"detail", choice.error().message()}});
    return RecalledNothing(turn, "off");
  }
  if (strip) turn->cut = turn->history()->Without(0);
  turn->outcome.recall = std::move(choice->outcome);
  turn->recalled.mark = std::move(choice->mark);
  if (!choice->span.tokens.empty()) {
    turn->span = std::move(choice->span);
    turn->span.at = *turn->tokens.text_at;
    turn->recalled.digest = std::move(choice->digest);
    turn->recalled.quotes = std::move(choice->quotes);
    turn->recalled.at = turn->span.at;
    turn->recalled.tokens = static_cast<uint32_t>(turn->span.tokens.size());
    counters_.recall_injected.Add();
    counters_.recall_tokens.Add(turn->span.tokens.size());
  }
  Recalled(turn);
}

void SessionManager::RecalledNothing(const TurnPtr& turn, const char* decision) {
  turn->outcome.recall.decision = decision;
  Recalled(turn);
}

// The plan is complete: the log's record of it, and on to the scheduler.
void SessionManager::Recalled(const TurnPtr& turn) {
  if (const SessionWindow* window = turn->history(); window != nullptr) {
    RecallRecord& record = turn->recalled;
    record.outcome = turn->outcome.recall;
    record.spans_since = window->spans_since();
    record.beside_deleted = window->has_deleted();
    record.prompt_tokens = static_cast<uint32_t>(WindowSize(*turn));
    if (record.mark.empty()) record.mark = window->mark();
    for (const PinnedTurn& pinned : window->front())
      record.front.push_back({pinned.line, pinned.id});
  }
  turn->phase = TurnPhase::kReady;
  events_.on_ready(turn);
}

// After a commit, off the response path. A session that is far from its first cut needs no index.
void SessionManager::IndexBehind(const SessionPtr& session) {
  constexpr int32_t kFarShare = 2;
  const WindowLimits limits = SettingsOf(*session).Limits(std::nullopt);
  const bool far =
      session->window.first() == 1 && session->window.size() < limits.high_tokens() / kFarShare;
  if (!recall_ || far || session->deleting) return;
  context_.pool.Post([this, row = *session->row, owner = session->owner] {
    if (const Status status = recall_->CatchUp(row, owner); !status)
      Log(LogLevel::kInfo, "recall.index_behind", {{"detail", status.error().message()}});
  });
}

}  // namespace tenuto
