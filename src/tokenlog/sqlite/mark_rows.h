// The marks of turns, the one thing about a turn that changes. Each function runs inside the
// caller's transaction. What comes from disk is checked: kCorrupt.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenlog/log.h"
#include "tokenlog/sqlite/sqlite.h"

namespace tenuto {

// TokenLog's SetTurnMarks and ReadTurnMarks.
Status StoreMarks(Database& database, int64_t session, const TurnMarks& marks);
Result<std::vector<TurnMarks>> SelectMarks(Database& database, int64_t session);

// Of the turn with number `line`; also when there are none.
Status RemoveMarks(Database& database, int64_t session, uint64_t line, const TurnId& turn);

}  // namespace tenuto
