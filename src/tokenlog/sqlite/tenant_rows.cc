#include "tokenlog/sqlite/tenant_rows.h"

namespace tenuto {

Status ChangeTenant(Database& database, const std::string& tenant, const TenantChange& change) {
  // With its last session a tenant's name goes, too.
  if (change.sessions < 0) {
    TENUTO_ASSIGN(Statement remove,
                  database.Use("DELETE FROM tenants WHERE tenant = ? AND sessions = 1"));
    remove.Bind(tenant);
    TENUTO_TRY(remove.Run());
    if (database.changes() == 1) return Ok();
  }
  {
    TENUTO_ASSIGN(Statement add,
                  database.Use("UPDATE tenants SET sessions = max(1, sessions + ?), turns = "
                               "max(0, turns + ?), bytes = max(0, bytes + ?) WHERE tenant = ?"));
    add.Bind(change.sessions).Bind(change.turns).Bind(change.bytes).Bind(tenant);
    TENUTO_TRY(add.Run());
    if (database.changes() == 1 || change.sessions < 1) return Ok();
  }
  TENUTO_ASSIGN(
      Statement insert,
      database.Use("INSERT INTO tenants(tenant, sessions, turns, bytes) VALUES(?, ?, ?, ?)"));
  insert.Bind(tenant).Bind(change.sessions).Bind(change.turns).Bind(change.bytes);
  return insert.Run();
}

Result<TenantTotals> SelectTenant(Database& database, const std::string& tenant) {
  TENUTO_ASSIGN(Statement find,
                database.Use("SELECT sessions, turns, bytes FROM tenants WHERE tenant = ?"));
  find.Bind(tenant);
  TENUTO_ASSIGN(const bool found, find.Step());
  if (!found) return TenantTotals{};
  return TenantTotals{.sessions = static_cast<uint64_t>(find.Int(0)),
                      .turns = static_cast<uint64_t>(find.Int(1)),
                      .bytes = static_cast<uint64_t>(find.Int(2))};
}

}  // namespace tenuto
