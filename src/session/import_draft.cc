#include "session/import_draft.h"

#include <set>
#include <span>
#include <utility>

#include "session/items.h"
#include "session/tool_text.h"

namespace tenuto {
namespace {

// Cuts items into turns. A tool call and its results stand between a message and its answer, so
// they are always of the turn they belong to.
class Splitter {
 public:
  explicit Splitter(const std::vector<ImportItem>& items) : items_(items) {}

  Result<std::vector<DraftTurn>> Run(size_t begin) && {
    start_ = begin;
    for (size_t i = begin; i < items_.size(); ++i)
      TENUTO_TRY(Take(i));
    if (start_ < items_.size()) turns_.push_back({start_, items_.size(), false});
    return std::move(turns_);
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
    turns_.push_back({start_, end, answered});
    start_ = end;
    called_ = false;
    calls_.clear();
  }

  const std::vector<ImportItem>& items_;
  std::vector<DraftTurn> turns_;
  size_t start_ = 0;
  bool called_ = false;          // in the turn so far
  std::set<std::string> calls_;  // of the turn, without a result so far
};

Status TokenizeTurn(const SessionContext& context, const ImportDraft& draft, bool first,
                    DraftTurn& turn) {
  std::vector<ChatMessage> messages = first ? draft.system : std::vector<ChatMessage>();
  const size_t asked_end = turn.answered ? turn.end - 1 : turn.end;
  for (size_t i = turn.begin; i < asked_end; ++i)
    messages.push_back(draft.items[i].message);
  TENUTO_ASSIGN(turn.asked, context.chat->Turn(WithToolsAsText(messages), first));
  if (!turn.answered) return Ok();
  TENUTO_ASSIGN(turn.answer,
                context.engine.Tokenize(draft.items[turn.end - 1].message.content, false, false));
  return Ok();
}

}  // namespace

Error AtItem(size_t index, Error error) {
  return std::move(error)
      .With("item " + std::to_string(index + 1))
      .At("items[" + std::to_string(index) + "]");
}

Result<ImportDraft> DraftImport(const std::optional<SessionRow>& row,
                                std::vector<ImportItem> items) {
  if (items.empty()) return Error(Code::kInvalid, "there is no item to import").At("items");
  ImportDraft draft;
  draft.items = std::move(items);
  draft.new_session = !row || row->head.empty();
  for (const ImportItem& item : draft.items) {
    if (item.message.role != "system") break;
    draft.system.push_back(item.message);
  }
  if (!draft.new_session && !draft.system.empty() && ItemsToJson(draft.system) != row->system_json)
    return AtItem(0, {Code::kInvalid,
                      "the system item differs from the one this session began with; leave it out, "
                      "or use another session"});
  TENUTO_ASSIGN(draft.turns, Splitter(draft.items).Run(draft.system.size()));
  if (draft.turns.empty())
    return AtItem(0, {Code::kInvalid, "there is no turn to import: a system item alone is none"});
  return draft;
}

Status TokenizeDraft(const SessionContext& context, ImportDraft& draft, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    DraftTurn& turn = draft.turns[i];
    const bool first = draft.new_session && i == 0;
    Status done = TokenizeTurn(context, draft, first, turn);
    if (!done) return AtItem(turn.begin, std::move(done).error());
  }
  return Ok();
}

}  // namespace tenuto
