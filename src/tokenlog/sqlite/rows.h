// Rows of the token log's tables to and from the structs of log.h: its SQL over sessions, commits
// and pieces; turn_rows.h has the turns, mark_rows.h their marks, tenant_rows.h the sums. Each
// function runs inside the caller's transaction. What comes from disk is checked: kCorrupt.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenlog/log.h"
#include "tokenlog/sqlite/sqlite.h"

namespace tenuto {

Result<std::optional<SessionRow>> SelectSession(Database& database, const SessionKey& key);
Result<std::optional<SessionRow>> SelectSession(Database& database, int64_t id);
Result<SessionPage> SelectSessions(Database& database, const std::string& tenant,
                                   const std::string& user, const SessionKey& after, size_t limit);

// Judges one commit and stores it; the session's id. The first error of the outer Result is the
// database's and ends the transaction, the inner one is this commit's verdict and has changed
// nothing.
Result<Result<int64_t>> StoreCommit(Database& database, const TurnCommit& commit);

Result<std::vector<SessionRow>> SelectIdle(Database& database, int64_t updated_before_ms,
                                           const IdleCursor& after, size_t limit);
Status UpdateSettings(Database& database, int64_t session, const std::string& settings_json);
// TokenLog's DeleteTurn.
Status RemoveTurn(Database& database, const SessionRow& session, const TurnId& turn);
// Removes everything of the session; the payload files that no other session's pieces name.
Result<std::vector<PayloadFileId>> RemoveSession(Database& database, const SessionRow& session);

Result<std::vector<PieceRow>> SelectPieces(Database& database, int64_t session);
Status InsertPiece(Database& database, int64_t session, const PieceRow& piece);
Result<std::vector<PayloadFileId>> RemovePieces(Database& database, int64_t session,
                                                std::span<const int64_t> ids);
Result<std::vector<PayloadFileId>> SelectFiles(Database& database);

}  // namespace tenuto
