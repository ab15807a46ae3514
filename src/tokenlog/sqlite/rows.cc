#include "tokenlog/sqlite/rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "tokenlog/checks.h"
#include "tokenlog/sqlite/mark_rows.h"
#include "tokenlog/sqlite/tenant_rows.h"
#include "tokenlog/sqlite/turn_rows.h"

namespace tenuto {
namespace {

std::string SessionsWhere(std::string_view rest) {
  return "SELECT s.id, s.tenant, s.user, s.agent, s.session, s.created_ms, s.updated_ms, s.head, "
         "s.lease_epoch, "
         "s.vocabulary, s.turns, s.tokens, y.items_json, y.head_tokens, s.bytes, s.settings_json "
         "FROM sessions s JOIN systems y ON y.session = s.id WHERE " +
         std::string(rest);
}

Result<SessionRow> DecodeSession(const Statement& row) {
  SessionRow session;
  session.id = row.Int(0);
  session.key = {.tenant = std::string(row.Text(1)),
                 .user = std::string(row.Text(2)),
                 .agent = std::string(row.Text(3)),
                 .session = std::string(row.Text(4))};
  session.created_unix_ms = row.Int(5);
  session.updated_unix_ms = row.Int(6);
  session.head = {std::string(row.Text(7))};
  session.lease_epoch = static_cast<uint64_t>(row.Int(8));
  TENUTO_ASSIGN(session.vocabulary, row.Digest(9));
  session.turns = static_cast<uint64_t>(row.Int(10));
  session.tokens = static_cast<uint64_t>(row.Int(11));
  session.system_json = std::string(row.Text(12));
  std::optional<std::vector<TokenId>> head = DecodeTokens(row.Blob(13));
  if (!head)
    return Error(Code::kCorrupt, "the head tokens of session " + session.key.Short() +
                                     " are damaged in the token log");
  session.head_tokens = *std::move(head);
  session.bytes = static_cast<uint64_t>(row.Int(14));
  session.settings_json = std::string(row.Text(15));
  return session;
}

Result<std::optional<SessionRow>> OneSession(Statement& find) {
  TENUTO_ASSIGN(const bool found, find.Step());
  if (!found) return std::optional<SessionRow>();
  TENUTO_ASSIGN(SessionRow session, DecodeSession(find));
  return std::optional<SessionRow>(std::move(session));
}

Result<int64_t> InsertSession(Database& database, const TurnCommit& commit) {
  TENUTO_ASSIGN(
      Statement insert,
      database.Use(
          "INSERT INTO sessions(tenant, user, agent, session, created_ms, updated_ms, head, "
          "lease_epoch, vocabulary, turns, tokens, bytes) "
          "VALUES(?, ?, ?, ?, ?, ?, '', ?, ?, 0, 0, ?)"));
  const SessionKey& key = commit.key;
  insert.Bind(key.tenant).Bind(key.user).Bind(key.agent).Bind(key.session);
  insert.Bind(commit.turn.created_unix_ms).Bind(UpdateTime(commit));
  insert.Bind(static_cast<int64_t>(commit.lease_epoch)).Bind(commit.vocabulary);
  insert.Bind(static_cast<int64_t>(SystemBytes(commit)));
  TENUTO_TRY(insert.Run());
  const int64_t id = database.last_insert_id();
  TENUTO_ASSIGN(Statement system,
                database.Use("INSERT INTO systems(session, items_json, head_tokens) "
                             "VALUES(?, ?, ?)"));
  system.Bind(id).Bind(commit.system_json);
  system.Bind(std::as_bytes(std::span(commit.head_tokens)));
  TENUTO_TRY(system.Run());
  return id;
}

Status MoveHead(Database& database, int64_t session, const TurnCommit& commit, const LineEnd& end) {
  TENUTO_ASSIGN(
      Statement update,
      database.Use(
          "UPDATE sessions SET head = ?, lease_epoch = ?, updated_ms = ?, turns = ?, tokens = ?, "
          "bytes = bytes + ? WHERE id = ?"));
  update.Bind(commit.turn.id.value).Bind(static_cast<int64_t>(commit.lease_epoch));
  update.Bind(UpdateTime(commit)).Bind(static_cast<int64_t>(end.turns));
  update.Bind(static_cast<int64_t>(end.tokens)).Bind(static_cast<int64_t>(TurnBytes(commit.turn)));
  update.Bind(session);
  return update.Run();
}

Status DeleteWhere(Database& database, const char* sql, int64_t session) {
  TENUTO_ASSIGN(Statement remove, database.Use(sql));
  remove.Bind(session);
  return remove.Run();
}

PayloadFileId FileOf(int64_t column) {
  return {std::bit_cast<uint64_t>(column)};
}

// SQLite orders the ids as signed numbers; callers get them as what they are.
std::vector<PayloadFileId> Sorted(std::vector<PayloadFileId> files) {
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

Result<PieceRow> DecodePiece(const Statement& row) {
  PieceRow piece;
  piece.id = row.Int(0);
  const int64_t kind = row.Int(1);
  const int64_t begin = row.Int(2);
  const int64_t end = row.Int(3);
  if (kind < 1 || kind > 255 || begin < 0 || end <= begin ||
      end > std::numeric_limits<TokenPos>::max())
    return Error(Code::kCorrupt, "a piece row of the token log is damaged");
  piece.kind = static_cast<uint8_t>(kind);
  piece.range = {static_cast<TokenPos>(begin), static_cast<TokenPos>(end)};
  TENUTO_ASSIGN(piece.fingerprint, row.Digest(4));
  TENUTO_ASSIGN(piece.prefix_begin, row.Digest(5));
  TENUTO_ASSIGN(piece.prefix_end, row.Digest(6));
  piece.location = {.file = FileOf(row.Int(7)),
                    .offset = static_cast<uint64_t>(row.Int(8)),
                    .bytes = static_cast<uint64_t>(row.Int(9))};
  if (Status sound = CheckPieceRow(piece); !sound)
    return Error(Code::kCorrupt,
                 "a piece row of the token log is damaged: " + sound.error().message());
  return piece;
}

}  // namespace

Result<std::optional<SessionRow>> SelectSession(Database& database, const SessionKey& key) {
  TENUTO_ASSIGN(
      Statement find,
      database.Use(SessionsWhere("s.tenant = ? AND s.user = ? AND s.agent = ? AND s.session = ?")));
  find.Bind(key.tenant).Bind(key.user).Bind(key.agent).Bind(key.session);
  return OneSession(find);
}

Result<std::optional<SessionRow>> SelectSession(Database& database, int64_t id) {
  TENUTO_ASSIGN(Statement find, database.Use(SessionsWhere("s.id = ?")));
  find.Bind(id);
  return OneSession(find);
}

Result<SessionPage> SelectSessions(Database& database, const std::string& tenant,
                                   const std::string& user, const SessionKey& after, size_t limit) {
  // The filter's columns lead the index, and the start is compared in the columns after them: a
  // page costs what is on it, wherever it lies.
  std::vector<std::string_view> equal;
  if (!tenant.empty()) equal.push_back(tenant);
  if (!tenant.empty() && !user.empty()) equal.push_back(user);
  std::vector<std::string_view> start = {after.tenant, after.user, after.agent, after.session};
  for (const std::string_view wanted : equal) {
    if (start.front() > wanted) return SessionPage{};
    const bool before = start.front() < wanted;
    start.erase(start.begin());
    if (before) std::fill(start.begin(), start.end(), std::string_view());
  }
  static constexpr std::array<const char*, 3> kFilters = {
      "(s.tenant, s.user, s.agent, s.session) > (?, ?, ?, ?)",
      "s.tenant = ? AND (s.user, s.agent, s.session) > (?, ?, ?)",
      "s.tenant = ? AND s.user = ? AND (s.agent, s.session) > (?, ?)"};
  TENUTO_ASSIGN(
      Statement list,
      database.Use(SessionsWhere(std::string(kFilters[equal.size()]) +
                                 " ORDER BY s.tenant, s.user, s.agent, s.session LIMIT ?")));
  for (const std::string_view part : equal)
    list.Bind(part);
  for (const std::string_view part : start)
    list.Bind(part);
  list.Bind(static_cast<int64_t>(limit) + 1);
  SessionPage page;
  for (;;) {
    TENUTO_ASSIGN(const bool row, list.Step());
    if (!row) return page;
    if (page.sessions.size() == limit) {
      page.more = true;
      return page;
    }
    TENUTO_ASSIGN(SessionRow session, DecodeSession(list));
    page.sessions.push_back(std::move(session));
  }
}

Result<Result<int64_t>> StoreCommit(Database& database, const TurnCommit& commit) {
  using Verdict = Result<int64_t>;
  const TurnRow& turn = commit.turn;
  if (Status sound = CheckTurnCommit(commit); !sound) return Verdict(std::move(sound).error());
  TENUTO_ASSIGN(const std::optional<SessionRow> session, SelectSession(database, commit.key));
  if (Status fits = JudgeCommit(commit, session ? &*session : nullptr); !fits)
    return Verdict(std::move(fits).error());

  if (session) {
    if (!turn.idempotency_key.empty()) {
      TENUTO_ASSIGN(const bool used, HasTurnWithKey(database, session->id, turn.idempotency_key));
      if (used) return Verdict(DuplicateIdempotencyKey());
    }
    TENUTO_ASSIGN(const std::optional<LineEnd> same, SelectLineEnd(database, session->id, turn.id));
    if (same) return Verdict(DuplicateTurn(commit));
  }
  LineEnd before;
  if (turn.parent.empty()) {
    before = LineStart(commit.key, session ? session->head_tokens : commit.head_tokens);
  } else {
    if (!session) return Verdict(MissingParent(commit));
    TENUTO_ASSIGN(const std::optional<LineEnd> parent,
                  SelectLineEnd(database, session->id, turn.parent));
    if (!parent) return Verdict(MissingParent(commit));
    before = *parent;
  }
  const LineEnd end = Extend(before, turn);
  if (Status inside = CheckWindow(turn, end.turns); !inside)
    return Verdict(std::move(inside).error());

  int64_t id = session ? session->id : 0;
  if (!session) {
    TENUTO_ASSIGN(id, InsertSession(database, commit));
  }
  TENUTO_TRY(InsertTurn(database, id, turn, end));
  TENUTO_TRY(MoveHead(database, id, commit, end));
  const uint64_t bytes = TurnBytes(turn) + (session ? 0 : SystemBytes(commit));
  TENUTO_TRY(ChangeTenant(
      database, commit.key.tenant,
      {.sessions = session ? 0 : 1, .turns = 1, .bytes = static_cast<int64_t>(bytes)}));
  return Verdict(id);
}

Result<std::vector<SessionRow>> SelectIdle(Database& database, int64_t updated_before_ms,
                                           const IdleCursor& after, size_t limit) {
  TENUTO_ASSIGN(Statement list,
                database.Use(SessionsWhere("s.updated_ms < ? AND (s.updated_ms, s.id) > (?, ?) "
                                           "ORDER BY s.updated_ms, s.id LIMIT ?")));
  list.Bind(updated_before_ms).Bind(after.updated_unix_ms).Bind(after.session);
  list.Bind(static_cast<int64_t>(limit));
  std::vector<SessionRow> sessions;
  for (;;) {
    TENUTO_ASSIGN(const bool row, list.Step());
    if (!row) return sessions;
    TENUTO_ASSIGN(SessionRow session, DecodeSession(list));
    sessions.push_back(std::move(session));
  }
}

Status UpdateSettings(Database& database, int64_t session, const std::string& settings_json) {
  TENUTO_ASSIGN(Statement update,
                database.Use("UPDATE sessions SET settings_json = ? WHERE id = ?"));
  update.Bind(settings_json).Bind(session);
  return update.Run();
}

Status RemoveTurn(Database& database, const SessionRow& session, const TurnId& turn) {
  TENUTO_ASSIGN(const ErasedTurn erased, EraseTurn(database, session, turn));
  TENUTO_TRY(RemoveMarks(database, session.id, erased.line, turn));
  const auto bytes = static_cast<int64_t>(erased.bytes);
  {
    TENUTO_ASSIGN(Statement update,
                  database.Use("UPDATE sessions SET bytes = max(0, bytes - ?) WHERE id = ?"));
    update.Bind(bytes).Bind(session.id);
    TENUTO_TRY(update.Run());
  }
  return ChangeTenant(database, session.key.tenant, {.sessions = 0, .turns = -1, .bytes = -bytes});
}

Result<std::vector<PayloadFileId>> RemoveSession(Database& database, const SessionRow& removed) {
  const int64_t session = removed.id;
  std::vector<PayloadFileId> files;
  {
    TENUTO_ASSIGN(
        Statement own,
        database.Use("SELECT DISTINCT file FROM pieces p WHERE session = ?1 AND NOT EXISTS "
                     "(SELECT 1 FROM pieces q WHERE q.file = p.file AND q.session <> ?1)"));
    own.Bind(session);
    for (;;) {
      TENUTO_ASSIGN(const bool row, own.Step());
      if (!row) break;
      files.push_back(FileOf(own.Int(0)));
    }
  }
  TENUTO_TRY(DeleteWhere(database, "DELETE FROM pieces WHERE session = ?", session));
  TENUTO_ASSIGN(const int64_t turns, CountTurns(database, session));
  TENUTO_TRY(ChangeTenant(
      database, removed.key.tenant,
      {.sessions = -1, .turns = -turns, .bytes = -static_cast<int64_t>(removed.bytes)}));
  TENUTO_TRY(DeleteWhere(database, "DELETE FROM turn_marks WHERE session = ?", session));
  TENUTO_TRY(RemoveTurns(database, session));
  TENUTO_TRY(DeleteWhere(database, "DELETE FROM systems WHERE session = ?", session));
  TENUTO_TRY(DeleteWhere(database, "DELETE FROM sessions WHERE id = ?", session));
  return Sorted(std::move(files));
}

Result<std::vector<PieceRow>> SelectPieces(Database& database, int64_t session) {
  TENUTO_ASSIGN(
      Statement list,
      database.Use(
          "SELECT id, kind, range_begin, range_end, fingerprint, prefix_begin, prefix_end, file, "
          "offset, bytes FROM pieces WHERE session = ? ORDER BY range_begin, id"));
  list.Bind(session);
  std::vector<PieceRow> pieces;
  for (;;) {
    TENUTO_ASSIGN(const bool row, list.Step());
    if (!row) return pieces;
    TENUTO_ASSIGN(PieceRow piece, DecodePiece(list));
    pieces.push_back(piece);
  }
}

Status InsertPiece(Database& database, int64_t session, const PieceRow& piece) {
  TENUTO_ASSIGN(
      Statement insert,
      database.Use(
          "INSERT INTO pieces(session, kind, range_begin, range_end, fingerprint, prefix_begin, "
          "prefix_end, file, offset, bytes) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.Bind(session).Bind(int64_t{piece.kind}).Bind(int64_t{piece.range.begin});
  insert.Bind(int64_t{piece.range.end}).Bind(piece.fingerprint).Bind(piece.prefix_begin);
  insert.Bind(piece.prefix_end).Bind(std::bit_cast<int64_t>(piece.location.file.value));
  insert.Bind(static_cast<int64_t>(piece.location.offset))
      .Bind(static_cast<int64_t>(piece.location.bytes));
  return insert.Run();
}

Result<std::vector<PayloadFileId>> RemovePieces(Database& database, int64_t session,
                                                std::span<const int64_t> ids) {
  TENUTO_ASSIGN(Statement remove,
                database.Use("DELETE FROM pieces WHERE id = ? AND session = ? RETURNING file"));
  std::vector<PayloadFileId> files;
  for (const int64_t id : ids) {
    remove.Reset();
    remove.Bind(id).Bind(session);
    for (;;) {
      TENUTO_ASSIGN(const bool row, remove.Step());
      if (!row) break;
      files.push_back(FileOf(remove.Int(0)));
    }
  }
  files = Sorted(std::move(files));

  TENUTO_ASSIGN(Statement named, database.Use("SELECT 1 FROM pieces WHERE file = ? LIMIT 1"));
  std::vector<PayloadFileId> unnamed;
  for (const PayloadFileId file : files) {
    named.Reset();
    named.Bind(std::bit_cast<int64_t>(file.value));
    TENUTO_ASSIGN(const bool still, named.Step());
    if (!still) unnamed.push_back(file);
  }
  return unnamed;
}

Result<std::vector<PayloadFileId>> SelectFiles(Database& database) {
  TENUTO_ASSIGN(Statement list, database.Use("SELECT DISTINCT file FROM pieces"));
  std::vector<PayloadFileId> files;
  for (;;) {
    TENUTO_ASSIGN(const bool row, list.Step());
    if (!row) return Sorted(std::move(files));
    files.push_back(FileOf(list.Int(0)));
  }
}

}  // namespace tenuto
