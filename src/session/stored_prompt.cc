#include "session/stored_prompt.h"

#include <algorithm>

namespace tenuto {
namespace {

std::vector<TurnId> QuotedBy(const RecallRecord& record) {
  std::vector<TurnId> turns;
  for (const RecallQuote& quote : record.quotes)
    turns.push_back(quote.turn);
  return turns;
}

// A quote that could not be read again is in the prompt no more.
void KeepRead(RecallRecord& record, const RecallSpan& span) {
  std::erase_if(record.quotes, [&](const RecallQuote& quote) {
    return std::ranges::find(span.lines, quote.line) == span.lines.end();
  });
}

bool Quotes(const RecallRecord& record, const TurnId& turn) {
  return std::ranges::find(record.quotes, turn, &RecallQuote::turn) != record.quotes.end();
}

// A turn of the window as if it had been deleted. True: it is there.
bool LeaveOut(std::vector<TurnRow>& window, const TurnId& without) {
  const auto found = std::ranges::find(window, without, &TurnRow::id);
  if (without.empty() || found == window.end() || found->deleted) return false;
  found->prompt.clear();
  found->answer.clear();
  found->close_tokens = 0;
  found->recall_json.clear();
  found->deleted = true;
  return true;
}

// The window in front of the turn, with what its turns quoted and was still there. True: `without`
// was in it.
Result<bool> ReadWindowBefore(TokenLog& log, const TokenizeText& tokenize, const SessionRow& row,
                              const TurnId& without, StoredPrompt& prompt) {
  bool found = LeaveOut(prompt.before, without);
  SessionRow then = row;
  then.turns = prompt.line - 1;
  then.tokens = 0;
  for (const TurnRow& turn : prompt.before)
    then.tokens += turn.prompt.size() + turn.answer.size();
  if (then.turns == 0) return false;
  StoredWindow stored{then, prompt.before, {}, prompt.record.spans_since, {}, prompt.record.mark};
  uint64_t line = prompt.line - prompt.before.size();
  for (const TurnRow& turn : prompt.before) {
    TENUTO_ASSIGN(RecallRecord record, RecordFromJson(turn.recall_json));
    if (line++ < prompt.record.spans_since) record.quotes.clear();
    found |= !without.empty() && Quotes(record, without);
    TENUTO_ASSIGN(StoredSpan read, ReadSpan(log, tokenize, row, record, without));
    KeepRead(record, read.span);
    stored.spans.push_back(std::move(read.span));
    prompt.records.push_back(std::move(record));
  }
  for (const NumberedTurn& pinned : prompt.record.front) {
    TENUTO_ASSIGN(PinnedTurn read, ReadPinned(log, row, pinned));
    if (read.tokens.empty()) continue;
    if (pinned.turn == without) {
      found = true;
    } else {
      stored.front.push_back(std::move(read));
    }
  }
  prompt.window = SessionWindow::FromLog(stored);
  return found;
}

// A turn of the line, for who held another in its prompt.
struct Holder {
  TurnId id;
  uint64_t line = 0;
  uint64_t window_first = 1;
  uint64_t spans_since = 1;
  bool in_front = false;  // the other one, pinned
  bool ran = false;       // and is not deleted
};

}  // namespace

std::vector<TokenId> StoredPrompt::tokens() const {
  std::vector<TokenId> all = window.tokens();
  const auto own = WithSpan(turn.prompt, span.span);
  all.insert(all.end(), own.begin() + stray_close(), own.end());
  return all;
}

Result<StoredPrompt> ReadStoredPrompt(TokenLog& log, const TokenizeText& tokenize,
                                      const SessionRow& row, const TurnId& turn,
                                      const TurnId& without) {
  StoredPrompt prompt;
  TENUTO_ASSIGN(prompt.before, log.ReadWindow(row.id, turn));
  if (prompt.before.empty() || prompt.before.back().deleted)
    return Error(Code::kNotFound, "the session has no turn " + turn.value).At("turn");
  prompt.turn = std::move(prompt.before.back());
  prompt.line = prompt.turn.window_first + prompt.before.size() - 1;
  prompt.before.pop_back();
  TENUTO_ASSIGN(prompt.record, RecordFromJson(prompt.turn.recall_json));
  const bool quoted = !without.empty() && Quotes(prompt.record, without);
  TENUTO_ASSIGN(prompt.span, ReadSpan(log, tokenize, row, prompt.record, without));
  prompt.same = prompt.span.same;
  const size_t quotes = prompt.record.quotes.size();
  KeepRead(prompt.record, prompt.span.span);
  TENUTO_ASSIGN(const bool held, ReadWindowBefore(log, tokenize, row, without, prompt));
  if (!without.empty() && !held && !quoted)
    return Error(Code::kInvalid, "turn " + without.value + " was not in this turn's prompt")
        .At("without");
  // A turn that stood in the window may be gone since.
  const uint32_t had = prompt.record.prompt_tokens;
  const size_t has = prompt.tokens().size();
  const bool all_there = had == 0 ? !prompt.window.has_deleted() : had == has;
  if (!all_there || prompt.record.quotes.size() != quotes) {
    prompt.differs = "deleted";
  } else if (!prompt.same) {
    prompt.differs = "wording";
  }
  prompt.same = prompt.differs.empty();
  return prompt;
}

Result<std::vector<TurnId>> ReadUsers(TokenLog& log, const SessionRow& row, const TurnId& turn) {
  constexpr size_t kPageTurns = 256;
  // What an import writes: no model ran.
  constexpr std::string_view kImported = R"({"imported":true})";
  std::vector<Holder> holders;    // newest first
  std::vector<uint64_t> quoting;  // lines of turns that quoted it, newest first
  uint64_t line = row.turns;
  TurnId last = row.head;
  while (line > 0 && last != turn) {
    TENUTO_ASSIGN(const auto page, log.ReadTurnsBack(row.id, last, kPageTurns));
    for (const TurnRow& one : page) {
      last = one.id;
      if (last == turn) break;
      TENUTO_ASSIGN(const RecallRecord record, RecordFromJson(one.recall_json));
      const bool pinned =
          std::ranges::find(record.front, turn, &NumberedTurn::turn) != record.front.end();
      if (Quotes(record, turn)) quoting.push_back(line);
      holders.push_back({one.id, line--, one.window_first, record.spans_since, pinned,
                         !one.deleted && one.params_json != kImported});
      last = one.parent;
    }
    if (page.empty()) break;
  }
  std::vector<TurnId> users;
  if (last != turn) return users;  // of another branch
  for (auto one = holders.rbegin(); one != holders.rend(); ++one) {
    const auto in_window = [&](uint64_t quoted_at) {
      return quoted_at <= one->line && quoted_at >= std::max(one->window_first, one->spans_since);
    };
    const bool held =
        one->window_first <= line || one->in_front || std::ranges::any_of(quoting, in_window);
    if (one->ran && held) users.push_back(one->id);
  }
  return users;
}

TurnExplanation Explain(const SessionRow& row, const StoredPrompt& prompt) {
  TurnExplanation explained;
  explained.turn = prompt.turn.id;
  explained.line = prompt.line;
  explained.recall = prompt.record.outcome;
  explained.same_prompt = prompt.same;
  auto& spans = explained.spans;
  // A window that was never cut begins with the first turn's prompt, which begins with the head.
  const auto head = static_cast<int32_t>(row.head_tokens.size());
  const bool cut = prompt.window.first() > 1;
  if (head > 0) spans.push_back({"head", {}, head, {}});
  int32_t behind_head = cut ? 0 : head;
  const auto put = [&](const char* kind, const TurnId& turn, int32_t tokens) {
    const int32_t of_head = std::min(behind_head, tokens);
    behind_head -= of_head;
    if (tokens > of_head) spans.push_back({kind, turn, tokens - of_head, {}});
  };
  for (size_t i = 0; i < prompt.window.front().size(); ++i) {
    const PinnedTurn& pinned = prompt.window.front()[i];
    const auto closes = i == 0 ? static_cast<int32_t>(pinned.close_tokens) : 0;
    put("pinned", pinned.id, static_cast<int32_t>(pinned.tokens.size()) - closes);
  }
  for (size_t i = 0; i < prompt.before.size(); ++i) {
    const int32_t quoted = prompt.window.recall_size(i);
    if (quoted > 0)
      spans.push_back({"recall", prompt.before[i].id, quoted, QuotedBy(prompt.records[i])});
    put("turn", prompt.before[i].id, prompt.window.turn_size(i) - quoted);
  }
  if (!prompt.span.span.tokens.empty())
    spans.push_back({"recall", prompt.turn.id, static_cast<int32_t>(prompt.span.span.tokens.size()),
                     QuotedBy(prompt.record)});
  put("message", prompt.turn.id,
      static_cast<int32_t>(prompt.turn.prompt.size()) - prompt.stray_close());
  explained.prompt_tokens = static_cast<int32_t>(prompt.tokens().size());
  return explained;
}

}  // namespace tenuto
