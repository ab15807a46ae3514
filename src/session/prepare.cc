#include "session/prepare.h"

#include <algorithm>

#include "base/utf8.h"
#include "session/quote.h"

namespace tenuto {
namespace {

std::string_view FieldOf(TurnRequest::Kind kind) {
  return kind == TurnRequest::Kind::kChat ? "messages" : "prompt";
}

// A text that could not fit even if each token were the longest of the vocabulary is refused before
// it is tokenized: tokenizing 10 MB takes seconds.
Status CheckTextFits(const SessionContext& context, const TurnRequest& request) {
  size_t bytes = request.text.size();
  for (const ChatMessage& message : request.messages)
    bytes += message.content.size();
  const auto window = static_cast<size_t>(context.settings.window_tokens);
  const auto longest = static_cast<size_t>(std::max(1, context.engine.info().token_bytes_max));
  if (bytes <= window * longest) return Ok();
  return Error(Code::kInvalid, "the prompt has " + std::to_string(bytes) +
                                   " bytes of text, more than a window of " +
                                   std::to_string(window) + " tokens can hold; shorten it")
      .At(std::string(FieldOf(request.kind)));
}

Status CheckTokenIds(const SessionContext& context, const TurnRequest& request) {
  const int32_t vocabulary = context.engine.info().vocabulary_size;
  for (size_t i = 0; i < request.tokens.size(); ++i)
    if (request.tokens[i] < 0 || request.tokens[i] >= vocabulary)
      return Error(Code::kInvalid, "token id " + std::to_string(request.tokens[i]) + " at index " +
                                       std::to_string(i) + " is outside the vocabulary of " +
                                       std::to_string(vocabulary))
          .At("prompt");
  return Ok();
}

// A session's system prompt is set by its first turn; later turns may repeat it, not change it.
Result<std::span<const ChatMessage>> NewItems(const std::optional<SessionRow>& row,
                                              std::span<const ChatMessage> messages) {
  if (!row) return messages;
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i].role == "assistant")
      return Error(Code::kInvalid,
                   "an assistant message can't be added to a session that has turns: the session "
                   "holds its own answers")
          .At("messages[" + std::to_string(i) + "]");
  const auto system = SystemItems(messages);
  if (system.empty()) return messages;
  if (ItemsToJson(system) != row->system_json)
    return Error(Code::kInvalid,
                 "the system message differs from the one this session began with; leave it out, "
                 "repeat it unchanged, or use another session_id")
        .At("messages[0]");
  const auto rest = messages.subspan(system.size());
  if (rest.empty())
    return Error(Code::kInvalid, "a turn needs at least one message besides the system message")
        .At("messages");
  return rest;
}

Result<TurnTokens> ChatTokens(const SessionContext& context, const PrepareInput& input,
                              const std::optional<SessionRow>& row) {
  TENUTO_ASSIGN(const auto items, NewItems(row, input.request.messages));
  auto tokens = context.chat->Turn(items, !row);
  if (!tokens.ok()) return std::move(tokens).error().At("messages");
  return tokens;
}

Result<TurnTokens> TextTokens(const SessionContext& context, const std::string& text, bool first) {
  TurnTokens tokens;
  TENUTO_ASSIGN(tokens.suffix, context.engine.Tokenize(text, /*add_special=*/first,
                                                       /*parse_special=*/true));
  TENUTO_ASSIGN(auto head, context.engine.Tokenize("", first, true));
  tokens.head.emplace();
  if (StartsWith(tokens.suffix, head)) tokens.head = std::move(head);
  return tokens;
}

Result<TurnTokens> NewTokens(const SessionContext& context, const PrepareInput& input,
                             const std::optional<SessionRow>& row) {
  switch (input.request.kind) {
    case TurnRequest::Kind::kChat:
      return ChatTokens(context, input, row);
    case TurnRequest::Kind::kText:
      return TextTokens(context, input.request.text, !row);
    case TurnRequest::Kind::kTokens: {
      TurnTokens tokens;
      tokens.suffix = input.request.tokens;
      tokens.head.emplace();
      return tokens;
    }
  }
  return Error(Code::kInvalid, "unknown kind of input");
}

Result<std::optional<TurnOutcome>> FindReplay(const SessionContext& context,
                                              const PrepareInput& input, const SessionRow& row) {
  const std::string& key = input.request.idempotency_key;
  if (key.empty()) return std::optional<TurnOutcome>();
  auto turn = context.log.FindByIdempotencyKey(row.id, key);
  if (!turn.ok()) {
    if (turn.error().code() == Code::kNotFound) return std::optional<TurnOutcome>();
    return std::move(turn).error();
  }
  TENUTO_ASSIGN(StoredOutcome stored, OutcomeFromJson(turn->outcome_json));
  if (stored.request_digest != input.request_digest)
    return Error(Code::kConflict,
                 "this Idempotency-Key was used for another request of the session")
        .At("Idempotency-Key");
  stored.outcome.turn = turn->id;
  stored.outcome.session = row.key;
  stored.outcome.replayed = true;
  return std::optional<TurnOutcome>(std::move(stored.outcome));
}

}  // namespace

Status CheckVocabulary(const SessionContext& context, const SessionRow& row) {
  if (row.vocabulary == context.engine.info().vocabulary) return Ok();
  return Error(Code::kConflict, "session " + row.key.Short() +
                                    " was written with another model's vocabulary; serve that "
                                    "model, or use another session_id")
      .At("session_id");
}

Result<SessionMarks> LoadMarks(TokenLog& log, const SessionRow& row) {
  SessionMarks marks;
  TENUTO_ASSIGN(marks.overrides, OverridesFromJson(row.settings_json));
  TENUTO_ASSIGN(const auto rows, log.ReadTurnMarks(row.id));
  for (const TurnMarks& turn : rows) {
    if (turn.recall_off) marks.never_recalled.push_back(turn.line);
    if (!turn.pinned) continue;
    TENUTO_ASSIGN(PinnedTurn pinned, ReadPinned(log, row, {turn.line, turn.turn}));
    if (!pinned.tokens.empty()) marks.pins.push_back(std::move(pinned));
  }
  for (const TurnMarks& turn : rows) {
    if (turn.superseded_by.empty()) continue;
    const auto newer = log.ReadWindow(row.id, turn.superseded_by);
    if (!newer.ok() || newer->empty() || newer->back().deleted) continue;
    marks.superseded[turn.line] = newer->back().window_first + newer->size() - 1;
  }
  return marks;
}

Result<LoadedSession> LoadSession(const SessionContext& context, const SessionKey& key) {
  LoadedSession loaded;
  auto row = context.log.FindSession(key);
  if (!row.ok()) {
    if (row.error().code() == Code::kNotFound) return loaded;
    return std::move(row).error();
  }
  TENUTO_TRY(CheckVocabulary(context, *row));
  TENUTO_ASSIGN(loaded.window, ReadSessionWindow(context.log, TokenizerOf(context.engine), *row));
  TENUTO_ASSIGN(loaded.marks, LoadMarks(context.log, *row));
  if (context.keeps_kv()) {
    // Without piece rows the session goes on: KV is derived (INV-1).
    if (const auto rows = context.log.ReadPieces(row->id); rows.ok())
      loaded.build = BuildChain(*rows, loaded.window.tokens(), OwnerDigest(key),
                                context.engine.info().fingerprint);
  }
  loaded.row = std::move(*row);
  return loaded;
}

Result<Prepared> Prepare(const SessionContext& context, const PrepareInput& input) {
  Prepared prepared;
  std::optional<SessionRow> row = input.row;
  if (input.load) {
    TENUTO_ASSIGN(prepared.loaded, LoadSession(context, *input.request.session));
    row = prepared.loaded->row;
  } else if (input.load_marks && row) {
    TENUTO_ASSIGN(row, context.log.FindSession(row->key));  // its settings may be new
    TENUTO_ASSIGN(prepared.marks, LoadMarks(context.log, *row));
  }
  if (row) {
    TENUTO_ASSIGN(prepared.replay, FindReplay(context, input, *row));
    if (prepared.replay) return prepared;
  }
  TENUTO_TRY(CheckTextFits(context, input.request));
  TENUTO_TRY(CheckTokenIds(context, input.request));
  TENUTO_ASSIGN(prepared.tokens, NewTokens(context, input, row));
  if (prepared.tokens.suffix.empty())
    return Error(Code::kInvalid, "the prompt has no tokens")
        .At(std::string(FieldOf(input.request.kind)));
  if (input.request.session && input.request.kind == TurnRequest::Kind::kTokens) {
    // Tokens may end inside a character; what a client reads must be text.
    std::string bytes;
    for (const TokenId token : input.request.tokens)
      bytes += context.engine.TokenText(token, /*special=*/true);
    AppendLastUtf8(bytes, prepared.raw_prompt);
  }
  if (input.request.session && input.request.kind == TurnRequest::Kind::kText)
    prepared.raw_prompt = input.request.text;
  return prepared;
}

}  // namespace tenuto
