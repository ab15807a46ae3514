#include "tokenlog/checks.h"

#include <algorithm>
#include <limits>

namespace tenuto {
namespace {

constexpr uint64_t kStoredIntegerMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

bool IsTurnId(const std::string& id) {
  if (id.empty() || id.size() > kTurnIdBytesMax) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_';
  });
}

Status CheckTokens(const std::vector<TokenId>& tokens, const char* what) {
  if (tokens.size() > kTurnTokensMax)
    return Error(Code::kInvalid, std::string(what) + " has " + std::to_string(tokens.size()) +
                                     " tokens; the log takes at most " +
                                     std::to_string(kTurnTokensMax));
  if (std::any_of(tokens.begin(), tokens.end(), [](TokenId token) { return token < 0; }))
    return Error(Code::kInvalid, std::string(what) + " has a token id below 0");
  return Ok();
}

Status CheckText(const std::string& text, size_t bytes_max, const char* what) {
  if (text.size() <= bytes_max) return Ok();
  return Error(Code::kInvalid, std::string(what) + " has " + std::to_string(text.size()) +
                                   " bytes; the log takes at most " + std::to_string(bytes_max));
}

std::string Named(const TurnId& id) {
  return id.empty() ? "none" : id.value;
}

}  // namespace

Status CheckTurnCommit(const TurnCommit& commit) {
  const TurnRow& turn = commit.turn;
  TENUTO_ASSIGN(const SessionKey parsed, ParseSessionKey(commit.key.Full()));
  // Four parts that parse to four other parts held the separator themselves.
  if (parsed != commit.key) return Error(Code::kInvalid, "session id has a part with '::' in it");
  if (!IsTurnId(turn.id.value)) return Error(Code::kInvalid, "turn id is empty or malformed");
  if (!turn.parent.empty() && !IsTurnId(turn.parent.value))
    return Error(Code::kInvalid, "parent turn id is malformed");
  if (turn.parent == turn.id) return Error(Code::kInvalid, "a turn can't be its own parent");
  if (commit.lease_epoch > kStoredIntegerMax)
    return Error(Code::kInvalid, "lease epoch is out of range");
  if (turn.deleted) return Error(Code::kInvalid, "a turn can't be committed as deleted");
  TENUTO_TRY(CheckTokens(turn.prompt, "the prompt of a turn"));
  TENUTO_TRY(CheckTokens(turn.answer, "the answer of a turn"));
  TENUTO_TRY(CheckTokens(commit.head_tokens, "the head of the prompts"));
  if (turn.close_tokens > turn.prompt.size())
    return Error(Code::kInvalid,
                 "the closing of the turn before has " + std::to_string(turn.close_tokens) +
                     " tokens; the prompt that holds it has " + std::to_string(turn.prompt.size()));
  TENUTO_TRY(CheckText(commit.system_json, kTurnJsonBytesMax, "the system items"));
  TENUTO_TRY(CheckText(turn.items_json, kTurnJsonBytesMax, "the items of a turn"));
  TENUTO_TRY(CheckText(turn.params_json, kTurnJsonBytesMax, "the parameters of a turn"));
  TENUTO_TRY(CheckText(turn.outcome_json, kTurnJsonBytesMax, "the outcome of a turn"));
  TENUTO_TRY(CheckText(turn.recall_json, kTurnJsonBytesMax, "the recall record of a turn"));
  TENUTO_TRY(CheckText(turn.finish_reason, kFinishReasonBytesMax, "the finish reason"));
  TENUTO_TRY(CheckText(turn.idempotency_key, kIdempotencyKeyBytesMax, "the idempotency key"));
  return Ok();
}

LineRange ItemsRange(uint64_t first_line, size_t limit, uint64_t line_turns) {
  // No sum of a caller's number: it may be any.
  const uint64_t first = std::max<uint64_t>(first_line, 1);
  if (limit == 0 || first > line_turns) return {};
  const uint64_t before_first = first - first_line;  // 0, or 1 for turn 0, which no line has
  const uint64_t wanted = std::min(limit, kItemsPageMax) - before_first;
  return {.first = first, .end = first + std::min(wanted, line_turns - first + 1)};
}

Status CheckWindow(const TurnRow& turn, uint64_t line_turns) {
  if (turn.window_first >= 1 && turn.window_first <= line_turns) return Ok();
  return Error(Code::kInvalid, "the window begins with turn " + std::to_string(turn.window_first) +
                                   " of a line of " + std::to_string(line_turns));
}

Status CheckSettings(const std::string& settings_json) {
  return CheckText(settings_json, kSettingsBytesMax, "the settings of a session");
}

Status CheckTurnMarks(const TurnMarks& marks) {
  if (!marks.turn.empty() && marks.superseded_by == marks.turn)
    return Error(Code::kInvalid, "a turn can't supersede itself");
  return Ok();
}

bool SaysNothing(const TurnMarks& marks) {
  return !marks.pinned && !marks.recall_off && marks.superseded_by.empty();
}

TurnRow TombstoneOf(const TurnRow& turn) {
  TurnRow left;
  left.id = turn.id;
  left.parent = turn.parent;
  left.window_first = turn.window_first;
  left.items_json = "[]";
  left.created_unix_ms = turn.created_unix_ms;
  left.completed_unix_ms = turn.completed_unix_ms;
  left.deleted = true;
  return left;
}

int64_t UpdateTime(const TurnCommit& commit) {
  return std::max(commit.stored_unix_ms, commit.turn.completed_unix_ms);
}

uint64_t SystemBytes(const TurnCommit& first) {
  return first.system_json.size() + sizeof(TokenId) * first.head_tokens.size();
}

uint64_t TurnBytes(const TurnRow& turn) {
  if (turn.deleted) return 0;
  return sizeof(TokenId) * (turn.prompt.size() + turn.answer.size()) + turn.items_json.size() +
         turn.params_json.size() + turn.recall_json.size() + turn.outcome_json.size();
}

Status CheckPieceRow(const PieceRow& piece) {
  if (piece.kind == 0) return Error(Code::kInvalid, "piece has no kind");
  if (piece.range.begin < 0 || piece.range.end <= piece.range.begin)
    return Error(Code::kInvalid, "piece has an empty or negative range");
  const PayloadLocation& at = piece.location;
  if (at.file.value == 0) return Error(Code::kInvalid, "piece names no file");
  if (at.bytes == 0 || at.offset > kStoredIntegerMax || at.bytes > kStoredIntegerMax - at.offset)
    return Error(Code::kInvalid, "piece has an impossible place in its file");
  return Ok();
}

Status JudgeCommit(const TurnCommit& commit, const SessionRow* session) {
  if (session == nullptr) {
    if (commit.expected_head.empty()) return Ok();
    return Error(Code::kConflict,
                 "the session does not exist (any more); expected its head to be " +
                     commit.expected_head.value);
  }
  if (session->head != commit.expected_head)
    return Error(Code::kConflict, "the session's head is " + Named(session->head) + ", not " +
                                      Named(commit.expected_head) +
                                      ": another turn was committed first");
  if (session->lease_epoch > commit.lease_epoch)
    return Error(Code::kConflict, "another writer (lease epoch " +
                                      std::to_string(session->lease_epoch) +
                                      ") took the session over; this one has epoch " +
                                      std::to_string(commit.lease_epoch));
  if (session->vocabulary != commit.vocabulary)
    return Error(Code::kInvalid,
                 "the session was written with another vocabulary than this model's");
  return Ok();
}

Error DuplicateTurn(const TurnCommit& commit) {
  return Error(Code::kConflict, "turn " + commit.turn.id.value + " is stored already");
}

Error DuplicateIdempotencyKey() {
  return Error(Code::kConflict, "a turn with this idempotency key is stored already");
}

Error MissingParent(const TurnCommit& commit) {
  return Error(Code::kInvalid,
               "parent turn " + commit.turn.parent.value + " is not in the session");
}

Error NoSuchSession(const std::string& name) {
  return Error(Code::kNotFound, "no session " + name);
}

Error NoSuchTurn(const std::string& what) {
  return Error(Code::kNotFound, "no turn with " + what + " in the session");
}

Error BrokenLine(const TurnId& at) {
  return Error(Code::kCorrupt,
               "the token log is damaged: the line of turns breaks at turn " + at.value +
                   "; stop the server, keep a copy of the store and restore it from a backup");
}

}  // namespace tenuto
