// The items of some turns of a line, without their tokens: for who reads much of a long session
// forward. Runs inside the caller's transaction. What comes from disk is checked: kCorrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenlog/log.h"
#include "tokenlog/sqlite/sqlite.h"

namespace tenuto {

struct ItemsWanted {
  uint64_t first_line = 1;
  size_t limit = 0;
};

// TokenLog's ReadItems.
Result<std::vector<ItemsRow>> SelectItems(Database& database, const SessionRow& session,
                                          const TurnId& head, const ItemsWanted& wanted);

}  // namespace tenuto
