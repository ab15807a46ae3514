// RAII over the C API of SQLite. Internal to tokenlog/sqlite: with its .cc and page_vfs.cc the only
// place that sees sqlite3.h. Thread-compatible: a Database and its statements belong to whoever
// holds the lock around them. Views from a Statement (Text, Blob) live until its next Step or its
// end.
#pragma once

#include <sqlite3.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "crypto/hash.h"

namespace tenuto {

class Database;

// A cached prepared statement in use: bind, step, read columns. Reset at its end.
class Statement {
 public:
  Statement(Database& database, sqlite3_stmt* statement)
      : database_(&database), handle_(statement) {}
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Parameters in order, the first call binds ?1. Text and blobs must live until the statement's
  // end.
  Statement& Bind(int64_t value);
  Statement& Bind(std::string_view text);
  Statement& Bind(std::span<const std::byte> blob);
  Statement& Bind(const Digest256& digest);
  Statement& BindNull();
  // Binds anew from ?1 on.
  void Reset();

  Result<bool> Step();  // true: a row is there
  Status Run();         // Step that expects no row

  // Columns in order from `column`. A column of another type than asked gives 0 or an empty view:
  // the schema's CHECKs rule that out for rows of ours.
  int64_t Int(int column) const;
  std::string_view Text(int column) const;
  std::span<const std::byte> Blob(int column) const;
  bool IsNull(int column) const;
  Result<Digest256> Digest(int column) const;  // kCorrupt unless it is a blob of 32 bytes

 private:
  void Note(int rc);

  Database* database_;
  sqlite3_stmt* handle_;
  int next_ = 1;
  int bind_error_ = SQLITE_OK;
};

// One connection.
class Database {
 public:
  struct Spec {
    std::string path;
    std::string vfs;
    bool read_only = false;
    int busy_timeout_ms = 0;
  };
  static Result<std::unique_ptr<Database>> Open(const Spec& spec);

  // Prepared on first use, then cached by its text. One use of a statement at a time.
  Result<Statement> Use(std::string_view sql);
  Status Exec(const char* sql);                    // no rows wanted
  Result<int64_t> QueryInt(std::string_view sql);  // first column of the one row
  int64_t changes() const { return sqlite3_changes64(handle_.get()); }
  int64_t last_insert_id() const { return sqlite3_last_insert_rowid(handle_.get()); }
  bool in_transaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }
  // Pages that were read and are kept for the next read.
  void ReleaseMemory() { sqlite3_db_release_memory(handle_.get()); }
  void SetBusyTimeout(int timeout_ms) { sqlite3_busy_timeout(handle_.get(), timeout_ms); }

  // What `rc` means for the caller, with the advice a person needs.
  Error ErrorOf(int rc);
  // A write or a sync was refused by the device: what is on it is in doubt from now on (INV-11).
  bool volume_in_doubt() const { return volume_in_doubt_; }
  void MarkVolumeInDoubt() { volume_in_doubt_ = true; }
  // Closing shall write nothing more.
  void DisableCheckpointOnClose();

  // Copies the write-ahead log into the database file. `truncate` also empties it (waits for
  // readers up to the busy timeout; false: a reader was in the way). `passive` waits for nobody.
  enum class Checkpoint : uint8_t { kPassive, kTruncate };
  Result<bool> RunCheckpoint(Checkpoint mode);
  // Keeps wal_pages() up to date. Takes the place of SQLite's own automatic checkpoints, and they
  // would take its: so after `PRAGMA wal_autocheckpoint`.
  void CountWalPages();
  // Pages in the write-ahead log after the last commit of this connection.
  int wal_pages() const { return wal_pages_; }

  sqlite3* handle() { return handle_.get(); }

 private:
  struct CloseHandle {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  Database() = default;

  std::string path_;
  std::unique_ptr<sqlite3, CloseHandle> handle_;
  std::map<std::string, std::unique_ptr<sqlite3_stmt, FinalizeStatement>, std::less<>> statements_;
  bool volume_in_doubt_ = false;
  int wal_pages_ = 0;
};

// BEGIN ... COMMIT; rolls back at its end when it was not committed.
class Transaction {
 public:
  enum class Kind : uint8_t { kRead, kWrite };
  static Result<Transaction> Begin(Database& database, Kind kind);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status Commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace tenuto
