// Sums over a tenant's sessions, kept in the transaction that changes what they add up: asked for
// before commits, they may not cost a walk. Each function runs inside the caller's transaction.
#pragma once

#include <cstdint>
#include <string>

#include "tokenlog/log.h"
#include "tokenlog/sqlite/sqlite.h"

namespace tenuto {

struct TenantChange {
  int64_t sessions = 0;  // 1, 0 or -1
  int64_t turns = 0;
  int64_t bytes = 0;
};

// A sum that is wrong steers quotas wrongly; it must not keep a session from being erased. So one
// that would fall too low stays where it makes sense.
Status ChangeTenant(Database& database, const std::string& tenant, const TenantChange& change);

Result<TenantTotals> SelectTenant(Database& database, const std::string& tenant);

}  // namespace tenuto
