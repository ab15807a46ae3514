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

// The window in front of the turn, with what its turns quoted and was still there.
Status ReadWindowBefore(TokenLog& log, const TokenizeText& tokenize, const SessionRow& row,
                        StoredPrompt& prompt) {
  SessionRow then = row;
  then.turns = prompt.line - 1;
  then.tokens = 0;
  for (const TurnRow& turn : prompt.before)
    then.tokens += turn.prompt.size() + turn.answer.size();
  if (then.turns == 0) return Ok();
  StoredWindow stored{then, prompt.before, {}, prompt.record.spans_since, {}, prompt.record.mark};
  uint64_t line = prompt.line - prompt.before.size();
  for (const TurnRow& turn : prompt.before) {
    TENUTO_ASSIGN(RecallRecord record, RecordFromJson(turn.recall_json));
    if (line++ < prompt.record.spans_since) record.quotes.clear();
    TENUTO_ASSIGN(StoredSpan read, ReadSpan(log, tokenize, row, record));
    KeepRead(record, read.span);
    stored.spans.push_back(std::move(read.span));
    prompt.records.push_back(std::move(record));
  }
  for (const NumberedTurn& pinned : prompt.record.front) {
    TENUTO_ASSIGN(PinnedTurn read, ReadPinned(log, row, pinned));
    if (!read.tokens.empty()) stored.front.push_back(std::move(read));
  }
  prompt.window = SessionWindow::FromLog(stored);
  return Ok();
}

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
  const auto quoted = QuotedBy(prompt.record);
  if (!without.empty() && std::ranges::find(quoted, without) == quoted.end())
    return Error(Code::kInvalid, "turn " + without.value + " was not quoted in this turn's prompt")
        .At("without");
  TENUTO_ASSIGN(prompt.span, ReadSpan(log, tokenize, row, prompt.record, without));
  prompt.same = prompt.span.same;
  KeepRead(prompt.record, prompt.span.span);
  TENUTO_TRY(ReadWindowBefore(log, tokenize, row, prompt));
  // A turn that stood in the window may be gone since.
  const uint32_t had = prompt.record.prompt_tokens;
  const size_t has = prompt.tokens().size();
  prompt.same = prompt.same && (had == 0 ? !prompt.window.has_deleted() : had == has);
  return prompt;
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
