// Rows of the table of turns to and from TurnRow, and the walk along a line of them. Each function
// runs inside the caller's transaction. What comes from disk is checked: kCorrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenlog/digest.h"
#include "tokenlog/log.h"
#include "tokenlog/sqlite/sqlite.h"

namespace tenuto {

// Token ids as a blob holds them; nothing unless they could have been written.
std::optional<std::vector<TokenId>> DecodeTokens(std::span<const std::byte> blob);

// What a root has before it.
LineEnd LineStart(const SessionKey& key, const std::vector<TokenId>& head_tokens);
// The line with `turn` at its end.
LineEnd Extend(const LineEnd& before, const TurnRow& turn);
// As the turn's row has it, unchecked.
Result<std::optional<LineEnd>> SelectLineEnd(Database& database, int64_t session,
                                             const TurnId& turn);

Result<bool> HasTurnWithKey(Database& database, int64_t session, const std::string& key);
// `end` is the line with the turn.
Status InsertTurn(Database& database, int64_t session, const TurnRow& turn, const LineEnd& end);

// Makes the turn a tombstone, after a look at its digest; its line number and what it stored.
// kNotFound: no such turn, or it is one already.
struct ErasedTurn {
  uint64_t line = 0;
  uint64_t bytes = 0;
};
Result<ErasedTurn> EraseTurn(Database& database, const SessionRow& session, const TurnId& turn);
// Its turns that are no tombstones.
Result<int64_t> CountTurns(Database& database, int64_t session);
Status RemoveTurns(Database& database, int64_t session);

// TokenLog's ReadTurns, ReadWindow and ReadTurnsBack. Each row's digest and sums are compared,
// beginning with what the turn before the oldest one holds.
Result<std::vector<TurnRow>> SelectLine(Database& database, const SessionRow& session,
                                        const TurnId& head);
Result<std::vector<TurnRow>> SelectWindow(Database& database, const SessionRow& session,
                                          const TurnId& head);
Result<std::vector<TurnRow>> SelectTurnsBack(Database& database, const SessionRow& session,
                                             const TurnId& last, size_t limit);
Result<std::optional<TurnRow>> SelectTurnByKey(Database& database, const SessionRow& session,
                                               const std::string& idempotency_key);

}  // namespace tenuto
