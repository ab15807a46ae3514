#include "tokenlog/sqlite/schema.h"

#include <string>

#include "tokenlog/sqlite/page_vfs.h"

namespace tenuto {
namespace {

constexpr char kTables[] = R"sql(
CREATE TABLE meta(
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('lease_epoch', 0);

CREATE TABLE sessions(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL,
  user TEXT NOT NULL,
  agent TEXT NOT NULL,
  session TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  head TEXT NOT NULL,
  lease_epoch INTEGER NOT NULL CHECK(lease_epoch >= 0),
  vocabulary BLOB NOT NULL CHECK(length(vocabulary) = 32),
  turns INTEGER NOT NULL CHECK(turns >= 0),
  tokens INTEGER NOT NULL CHECK(tokens >= 0),
  bytes INTEGER NOT NULL CHECK(bytes >= 0),
  settings_json TEXT NOT NULL DEFAULT '{}',
  UNIQUE(tenant, user, agent, session)
) STRICT;
CREATE INDEX sessions_by_update ON sessions(updated_ms);

CREATE TABLE tenants(
  tenant TEXT PRIMARY KEY,
  sessions INTEGER NOT NULL CHECK(sessions > 0),
  turns INTEGER NOT NULL CHECK(turns >= 0),
  bytes INTEGER NOT NULL CHECK(bytes >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE systems(
  session INTEGER PRIMARY KEY REFERENCES sessions(id),
  items_json TEXT NOT NULL,
  head_tokens BLOB NOT NULL CHECK(length(head_tokens) % 4 = 0)
) STRICT;

CREATE TABLE turns(
  row INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions(id),
  id TEXT NOT NULL CHECK(id <> ''),
  parent TEXT NOT NULL,
  line_turns INTEGER NOT NULL CHECK(line_turns > 0),
  line_tokens INTEGER NOT NULL CHECK(line_tokens >= 0),
  window_first INTEGER NOT NULL CHECK(window_first > 0),
  close_tokens INTEGER NOT NULL CHECK(close_tokens >= 0),
  digest BLOB NOT NULL CHECK(length(digest) = 32),
  completed_ms INTEGER NOT NULL,
  incomplete INTEGER NOT NULL CHECK(incomplete IN (0, 1)),
  finish_reason TEXT NOT NULL,
  idempotency_key TEXT,
  params_json TEXT NOT NULL,
  prompt BLOB NOT NULL CHECK(length(prompt) % 4 = 0),
  answer BLOB NOT NULL CHECK(length(answer) % 4 = 0),
  outcome_json TEXT NOT NULL,
  UNIQUE(session, id)
) STRICT;
CREATE UNIQUE INDEX turns_by_key ON turns(session, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX turns_by_line ON turns(session, line_turns, id, parent);

CREATE TABLE items(
  turn INTEGER PRIMARY KEY REFERENCES turns(row),
  created_ms INTEGER NOT NULL,
  tombstone BLOB CHECK(tombstone IS NULL OR length(tombstone) = 32),
  recall_json TEXT NOT NULL,
  items_json TEXT NOT NULL
) STRICT;

CREATE TABLE turn_marks(
  session INTEGER NOT NULL REFERENCES sessions(id),
  line INTEGER NOT NULL CHECK(line > 0),
  turn TEXT NOT NULL CHECK(turn <> ''),
  pinned INTEGER NOT NULL CHECK(pinned IN (0, 1)),
  recall_off INTEGER NOT NULL CHECK(recall_off IN (0, 1)),
  superseded_by TEXT NOT NULL,
  PRIMARY KEY(session, line, turn)
) STRICT, WITHOUT ROWID;

CREATE TABLE pieces(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session INTEGER NOT NULL REFERENCES sessions(id),
  kind INTEGER NOT NULL CHECK(kind BETWEEN 1 AND 255),
  range_begin INTEGER NOT NULL CHECK(range_begin >= 0),
  range_end INTEGER NOT NULL CHECK(range_end > range_begin),
  fingerprint BLOB NOT NULL CHECK(length(fingerprint) = 32),
  prefix_begin BLOB NOT NULL CHECK(length(prefix_begin) = 32),
  prefix_end BLOB NOT NULL CHECK(length(prefix_end) = 32),
  file INTEGER NOT NULL,
  offset INTEGER NOT NULL CHECK(offset >= 0),
  bytes INTEGER NOT NULL CHECK(bytes > 0)
) STRICT;
CREATE INDEX pieces_by_session ON pieces(session, range_begin);
CREATE INDEX pieces_by_file ON pieces(file, session);
)sql";

struct Identity {
  int64_t application_id = 0;
  int64_t format = 0;
  bool empty = false;
};

Result<Identity> ReadIdentity(Database& database) {
  Identity identity;
  TENUTO_ASSIGN(identity.application_id, database.QueryInt("PRAGMA application_id"));
  TENUTO_ASSIGN(identity.format, database.QueryInt("PRAGMA user_version"));
  TENUTO_ASSIGN(const int64_t tables, database.QueryInt("SELECT count(*) FROM sqlite_schema"));
  identity.empty = tables == 0 && identity.application_id == 0 && identity.format == 0;
  return identity;
}

Status CheckIdentity(const Identity& identity) {
  if (identity.application_id != kLogApplicationId)
    return Error(
        Code::kInvalid,
        "it is a database of another program, not a token log; name another folder by --store");
  if (identity.format == kLogFormat) return Ok();
  const bool newer = identity.format > kLogFormat;
  return Error(Code::kInvalid, "it has format " + std::to_string(identity.format) +
                                   " and this tenuto knows format " + std::to_string(kLogFormat) +
                                   ": run the " + (newer ? "newer" : "older") +
                                   " tenuto that wrote it, or name another folder by --store");
}

// Settings that live in the file: only before its first page exists.
Status ShapeEmptyFile(Database& database) {
  int reserve = kLogPageReserveBytes;
  const int rc =
      sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve);
  if (rc != SQLITE_OK) return database.ErrorOf(rc);
  TENUTO_TRY(database.Exec("PRAGMA page_size = 4096"));
  static_assert(kLogPageBytes == 4096);
  // Pages of the pointer map, which auto_vacuum brings, look like b-tree pages to the page VFS.
  return database.Exec("PRAGMA auto_vacuum = NONE");
}

Status UseWal(Database& database) {
  TENUTO_ASSIGN(Statement mode, database.Use("PRAGMA journal_mode = WAL"));
  TENUTO_ASSIGN(const bool row, mode.Step());
  if (!row || mode.Text(0) != "wal")
    return Error(Code::kIo,
                 "SQLite can't use a write-ahead log here; is the store on a network file system?");
  return Ok();
}

Status CreateTables(Database& database) {
  TENUTO_ASSIGN(Transaction transaction, Transaction::Begin(database, Transaction::Kind::kWrite));
  TENUTO_ASSIGN(const Identity identity, ReadIdentity(database));
  // Another process may have made the tables since this one looked.
  if (!identity.empty) return CheckIdentity(identity);
  TENUTO_TRY(database.Exec(kTables));
  const std::string marks = "PRAGMA application_id = " + std::to_string(kLogApplicationId) +
                            "; PRAGMA user_version = " + std::to_string(kLogFormat);
  TENUTO_TRY(database.Exec(marks.c_str()));
  return transaction.Commit();
}

}  // namespace

Status PrepareWriter(Database& database) {
  TENUTO_ASSIGN(const Identity identity, ReadIdentity(database));
  if (!identity.empty)
    TENUTO_TRY(CheckIdentity(identity));
  else
    TENUTO_TRY(ShapeEmptyFile(database));
  TENUTO_TRY(UseWal(database));
  // Checkpoints are run by SqliteTokenLog: inside a commit they would make somebody wait.
  TENUTO_TRY(database.Exec(
      "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;"
      "PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 33554432; PRAGMA temp_store = "
      "MEMORY;"
      "PRAGMA cell_size_check = ON; PRAGMA cache_size = -4096"));
  const std::string limit = "PRAGMA max_page_count = " + std::to_string(kLogPagesMax);
  TENUTO_TRY(database.Exec(limit.c_str()));
  database.CountWalPages();
  if (identity.empty) TENUTO_TRY(CreateTables(database));
  return Ok();
}

Status PrepareReader(Database& database) {
  TENUTO_ASSIGN(const Identity identity, ReadIdentity(database));
  if (identity.empty) return Error(Code::kNotFound, "it is empty: no server has used it yet");
  TENUTO_TRY(CheckIdentity(identity));
  return database.Exec(
      "PRAGMA query_only = ON; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
      "PRAGMA cache_size = -2048");
}

}  // namespace tenuto
