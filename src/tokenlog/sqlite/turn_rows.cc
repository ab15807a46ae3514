#include "tokenlog/sqlite/turn_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tokenlog/checks.h"
#include "tokenlog/digest.h"

namespace tenuto {
namespace {

static_assert(std::endian::native == std::endian::little, "token blobs are little endian");

std::string TurnsWhere(std::string_view rest) {
  return "SELECT t.id, t.parent, i.created_ms, t.completed_ms, t.incomplete, t.finish_reason, "
         "t.idempotency_key, t.prompt, t.answer, t.params_json, i.recall_json, i.items_json, "
         "t.outcome_json, t.digest, t.line_turns, t.line_tokens, t.window_first, t.close_tokens, "
         "i.tombstone, t.row, i.turn "
         "FROM turns t LEFT JOIN items i ON i.turn = t.row WHERE " +
         std::string(rest);
}

// A turn with what its rows hold beside the struct: the line that ends with it, what holds a
// tombstone in its place, where the rows are.
struct StoredTurn {
  TurnRow turn;
  LineEnd end;
  Digest256 tombstone;
  int64_t row = 0;
};

Result<StoredTurn> DecodeTurn(const Statement& row) {
  StoredTurn stored;
  TurnRow& turn = stored.turn;
  turn.id = {std::string(row.Text(0))};
  turn.parent = {std::string(row.Text(1))};
  turn.created_unix_ms = row.Int(2);
  turn.completed_unix_ms = row.Int(3);
  turn.incomplete = row.Int(4) != 0;
  turn.finish_reason = std::string(row.Text(5));
  turn.idempotency_key = std::string(row.Text(6));
  auto prompt = DecodeTokens(row.Blob(7));
  auto answer = DecodeTokens(row.Blob(8));
  if (!prompt || !answer) return BrokenLine(turn.id);
  turn.prompt = *std::move(prompt);
  turn.answer = *std::move(answer);
  turn.params_json = std::string(row.Text(9));
  turn.recall_json = std::string(row.Text(10));
  turn.items_json = std::string(row.Text(11));
  turn.outcome_json = std::string(row.Text(12));
  TENUTO_ASSIGN(stored.end.digest, row.Digest(13));
  stored.end.turns = static_cast<uint64_t>(row.Int(14));
  stored.end.tokens = static_cast<uint64_t>(row.Int(15));
  // In range before they are used or cut to size: where a window begins says how far to read,
  // before any digest is compared.
  const int64_t first = row.Int(16);
  const int64_t close = row.Int(17);
  if (first < 1 || first > row.Int(14) || close < 0 ||
      close > static_cast<int64_t>(turn.prompt.size()))
    return BrokenLine(turn.id);
  turn.window_first = static_cast<uint64_t>(first);
  turn.close_tokens = static_cast<uint32_t>(close);
  turn.deleted = !row.IsNull(18);
  if (turn.deleted) {
    TENUTO_ASSIGN(stored.tombstone, row.Digest(18));
    if (turn != TombstoneOf(turn)) return BrokenLine(turn.id);
  }
  stored.row = row.Int(19);
  if (row.IsNull(20)) return BrokenLine(turn.id);
  return stored;
}

// The turn is what its digest says, and stands after `before`. A tombstone's digest is taken as it
// lies there, for what it covered is gone; its place is held by a digest of its own.
bool Continues(const LineEnd& before, const StoredTurn& stored) {
  if (!stored.turn.deleted) return Extend(before, stored.turn) == stored.end;
  return stored.end.turns == before.turns + 1 &&
         stored.tombstone == TombstoneDigest(before.digest, stored.end, stored.turn);
}

// What stands before `turn`, as its parent's row has it.
Result<LineEnd> SelectBefore(Database& database, const SessionRow& session, const TurnRow& turn) {
  if (turn.parent.empty()) return LineStart(session.key, session.head_tokens);
  TENUTO_ASSIGN(const std::optional<LineEnd> before,
                SelectLineEnd(database, session.id, turn.parent));
  if (!before) return BrokenLine(turn.parent);
  return *before;
}

Result<std::optional<StoredTurn>> SelectTurn(Database& database, int64_t session,
                                             const TurnId& id) {
  TENUTO_ASSIGN(Statement find, database.Use(TurnsWhere("t.session = ? AND t.id = ?")));
  find.Bind(session).Bind(id.value);
  TENUTO_ASSIGN(const bool found, find.Step());
  if (!found) return std::optional<StoredTurn>();
  TENUTO_ASSIGN(StoredTurn stored, DecodeTurn(find));
  if (stored.turn.id != id) return BrokenLine(id);
  return std::optional<StoredTurn>(std::move(stored));
}

// The last turn of a line that somebody asks for.
Result<StoredTurn> SelectLast(Database& database, const SessionRow& session, const TurnId& last) {
  TENUTO_ASSIGN(std::optional<StoredTurn> stored, SelectTurn(database, session.id, last));
  const bool is_head = last == session.head;
  if (!stored) return is_head ? BrokenLine(last) : NoSuchTurn("id " + last.value);
  // The session's own count: a window reads no root that the turns could be counted from.
  if (is_head && (stored->end.turns != session.turns || stored->end.tokens != session.tokens))
    return BrokenLine(last);
  return *std::move(stored);
}

// From turn `first` of the line that ends with `last` to `last`, in order.
Result<std::vector<TurnRow>> SelectEnd(Database& database, const SessionRow& session,
                                       StoredTurn last, uint64_t first) {
  std::vector<StoredTurn> line;  // from the last one back
  line.push_back(std::move(last));
  while (line.back().end.turns > first) {
    const TurnRow& after = line.back().turn;
    if (after.parent.empty()) return BrokenLine(after.id);
    TENUTO_ASSIGN(std::optional<StoredTurn> stored, SelectTurn(database, session.id, after.parent));
    // Counting down also keeps a ring of parents from being walked for ever.
    if (!stored || stored->end.turns != line.back().end.turns - 1) return BrokenLine(after.parent);
    line.push_back(*std::move(stored));
  }

  std::vector<TurnRow> turns;
  turns.reserve(line.size());
  TENUTO_ASSIGN(LineEnd end, SelectBefore(database, session, line.back().turn));
  for (auto stored = line.rbegin(); stored != line.rend(); ++stored) {
    if (!Continues(end, *stored)) return BrokenLine(stored->turn.id);
    end = stored->end;
    turns.push_back(std::move(stored->turn));
  }
  return turns;
}

}  // namespace

std::optional<std::vector<TokenId>> DecodeTokens(std::span<const std::byte> blob) {
  if (blob.size() % sizeof(TokenId) != 0 || blob.size() / sizeof(TokenId) > kTurnTokensMax)
    return std::nullopt;
  std::vector<TokenId> tokens(blob.size() / sizeof(TokenId));
  if (!blob.empty()) std::memcpy(tokens.data(), blob.data(), blob.size());
  if (std::any_of(tokens.begin(), tokens.end(), [](TokenId token) { return token < 0; }))
    return std::nullopt;
  return tokens;
}

LineEnd LineStart(const SessionKey& key, const std::vector<TokenId>& head_tokens) {
  return {.digest = LineSeed(key, head_tokens)};
}

LineEnd Extend(const LineEnd& before, const TurnRow& turn) {
  return {.digest = TurnDigest(before.digest, turn),
          .turns = before.turns + 1,
          .tokens = before.tokens + turn.prompt.size() + turn.answer.size()};
}

Result<std::optional<LineEnd>> SelectLineEnd(Database& database, int64_t session,
                                             const TurnId& turn) {
  TENUTO_ASSIGN(Statement find, database.Use("SELECT digest, line_turns, line_tokens FROM turns "
                                             "WHERE session = ? AND id = ?"));
  find.Bind(session).Bind(turn.value);
  TENUTO_ASSIGN(const bool found, find.Step());
  if (!found) return std::optional<LineEnd>();
  LineEnd end;
  TENUTO_ASSIGN(end.digest, find.Digest(0));
  end.turns = static_cast<uint64_t>(find.Int(1));
  end.tokens = static_cast<uint64_t>(find.Int(2));
  return std::optional<LineEnd>(end);
}

Result<bool> HasTurnWithKey(Database& database, int64_t session, const std::string& key) {
  TENUTO_ASSIGN(Statement find,
                database.Use("SELECT 1 FROM turns WHERE session = ? AND idempotency_key = ?"));
  find.Bind(session).Bind(key);
  return find.Step();
}

Status InsertTurn(Database& database, int64_t session, const TurnRow& turn, const LineEnd& end) {
  TENUTO_ASSIGN(
      Statement insert,
      database.Use(
          "INSERT INTO turns(session, id, parent, line_turns, line_tokens, window_first, "
          "close_tokens, digest, completed_ms, incomplete, finish_reason, idempotency_key, "
          "params_json, prompt, answer, outcome_json) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(session).Bind(turn.id.value).Bind(turn.parent.value);
  insert.Bind(static_cast<int64_t>(end.turns)).Bind(static_cast<int64_t>(end.tokens));
  insert.Bind(static_cast<int64_t>(turn.window_first)).Bind(int64_t{turn.close_tokens});
  insert.Bind(end.digest);
  insert.Bind(turn.completed_unix_ms).Bind(int64_t{turn.incomplete});
  insert.Bind(turn.finish_reason);
  if (turn.idempotency_key.empty())
    insert.BindNull();
  else
    insert.Bind(turn.idempotency_key);
  insert.Bind(turn.params_json).Bind(std::as_bytes(std::span(turn.prompt)));
  insert.Bind(std::as_bytes(std::span(turn.answer))).Bind(turn.outcome_json);
  TENUTO_TRY(insert.Run());
  const int64_t row = database.last_insert_id();
  TENUTO_ASSIGN(
      Statement items,
      database.Use(
          "INSERT INTO items(turn, created_ms, recall_json, items_json) VALUES(?, ?, ?, ?)"));
  items.Bind(row).Bind(turn.created_unix_ms).Bind(turn.recall_json).Bind(turn.items_json);
  return items.Run();
}

Result<ErasedTurn> EraseTurn(Database& database, const SessionRow& session, const TurnId& turn) {
  TENUTO_ASSIGN(const std::optional<StoredTurn> stored, SelectTurn(database, session.id, turn));
  if (!stored || stored->turn.deleted) return NoSuchTurn("id " + turn.value);
  TENUTO_ASSIGN(const LineEnd before, SelectBefore(database, session, stored->turn));
  // A damaged turn would become a sound tombstone.
  if (!Continues(before, *stored)) return BrokenLine(turn);
  {
    TENUTO_ASSIGN(Statement erase,
                  database.Use("UPDATE turns SET close_tokens = 0, incomplete = 0, finish_reason = "
                               "'', idempotency_key = NULL, params_json = '', prompt = x'', "
                               "answer = x'', outcome_json = '' WHERE row = ?"));
    erase.Bind(stored->row);
    TENUTO_TRY(erase.Run());
  }
  TENUTO_ASSIGN(Statement erase,
                database.Use("UPDATE items SET tombstone = ?, recall_json = '', items_json = '[]' "
                             "WHERE turn = ?"));
  const Digest256 tombstone = TombstoneDigest(before.digest, stored->end, stored->turn);
  erase.Bind(tombstone).Bind(stored->row);
  TENUTO_TRY(erase.Run());
  return ErasedTurn{.line = stored->end.turns, .bytes = TurnBytes(stored->turn)};
}

Result<int64_t> CountTurns(Database& database, int64_t session) {
  TENUTO_ASSIGN(Statement count,
                database.Use("SELECT count(*) FROM turns t JOIN items i ON i.turn = t.row "
                             "WHERE t.session = ? AND i.tombstone IS NULL"));
  count.Bind(session);
  TENUTO_TRY(count.Step());
  return count.Int(0);
}

Status RemoveTurns(Database& database, int64_t session) {
  for (const char* sql :
       {"DELETE FROM items WHERE turn IN (SELECT row FROM turns WHERE session = ?)",
        "DELETE FROM turns WHERE session = ?"}) {
    TENUTO_ASSIGN(Statement remove, database.Use(sql));
    remove.Bind(session);
    TENUTO_TRY(remove.Run());
  }
  return Ok();
}

Result<std::vector<TurnRow>> SelectLine(Database& database, const SessionRow& session,
                                        const TurnId& head) {
  if (head.empty()) return std::vector<TurnRow>();
  TENUTO_ASSIGN(StoredTurn last, SelectLast(database, session, head));
  return SelectEnd(database, session, std::move(last), 1);
}

Result<std::vector<TurnRow>> SelectWindow(Database& database, const SessionRow& session,
                                          const TurnId& head) {
  if (head.empty()) return std::vector<TurnRow>();
  TENUTO_ASSIGN(StoredTurn last, SelectLast(database, session, head));
  const uint64_t first = last.turn.window_first;
  return SelectEnd(database, session, std::move(last), first);
}

Result<std::vector<TurnRow>> SelectTurnsBack(Database& database, const SessionRow& session,
                                             const TurnId& last, size_t limit) {
  if (last.empty()) return std::vector<TurnRow>();
  TENUTO_ASSIGN(StoredTurn newest, SelectLast(database, session, last));
  if (limit == 0) return std::vector<TurnRow>();
  const uint64_t turns_before = newest.end.turns - std::min<uint64_t>(newest.end.turns, limit);
  TENUTO_ASSIGN(std::vector<TurnRow> turns,
                SelectEnd(database, session, std::move(newest), turns_before + 1));
  std::reverse(turns.begin(), turns.end());
  return turns;
}

Result<std::optional<TurnRow>> SelectTurnByKey(Database& database, const SessionRow& session,
                                               const std::string& idempotency_key) {
  TENUTO_ASSIGN(Statement find,
                database.Use(TurnsWhere("t.session = ? AND t.idempotency_key = ?")));
  find.Bind(session.id).Bind(idempotency_key);
  TENUTO_ASSIGN(const bool found, find.Step());
  if (!found) return std::optional<TurnRow>();
  TENUTO_ASSIGN(StoredTurn stored, DecodeTurn(find));
  TENUTO_ASSIGN(const LineEnd before, SelectBefore(database, session, stored.turn));
  if (!Continues(before, stored)) return BrokenLine(stored.turn.id);
  return std::optional<TurnRow>(std::move(stored.turn));
}

}  // namespace tenuto
