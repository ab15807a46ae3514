// The token log in one SQLite database in WAL mode (docs/formats/tokenlog.md). Thread-safe: one
// writing connection behind a lock, a few reading ones in short transactions, so that readers never
// wait for a commit's sync.
//
// CAVEATS
// - One writing process per file is the rule, and the store's lock file enforces it, not this
// class. A second writer
//   is still safe: SQLite serialises them and the lease epoch makes the stale one's commits
//   kConflict (INV-13).
// - After a failed sync or write the log is dead: writes give kIo until it is opened anew (INV-11);
// reads go on.
//   What the failed call wrote may or may not be there after that.
// - Not for network file systems. Don't fork while one is open.
// - Besides the codes in log.h every method may give kUnavailable (another process holds the write
// lock for longer
//   than the busy timeout), kCorrupt and kIo.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/mutex.h"
#include "tokenlog/log.h"

namespace tenuto {

class Database;

enum class SqliteMode : uint8_t {
  kWriter,  // creates the file (mode 0600) when it is missing
  kReader,  // works beside a running writer or alone; writes give kDenied
};

struct SqliteOptions {
  int busy_timeout_ms = 5000;
  std::string vfs;  // SQLite's name of the VFS below the page checksums; "": the system's
};

class SqliteTokenLog : public TokenLog {
 public:
  static constexpr int kReadersMax = 3;
  // Pages of the write-ahead log from which Settle copies them into the database, and from which a
  // commit that finds nobody calling Settle does it itself.
  static constexpr int kCheckpointPages = 1000;
  static constexpr int kCheckpointOverduePages = 8000;

  // kInvalid: another format (both are named) or another program's file; kNotFound: a reader found
  // no log; kDenied: no rights; kCorrupt; kIo.
  static Result<std::unique_ptr<SqliteTokenLog>> Open(const std::string& path, SqliteMode mode,
                                                      const SqliteOptions& options = {});
  ~SqliteTokenLog() override;

  Result<uint64_t> NextLeaseEpoch() override;
  std::vector<Result<int64_t>> Commit(std::span<const TurnCommit> commits) override;
  Result<SessionRow> FindSession(const SessionKey& key) override;
  Result<std::vector<TurnRow>> ReadTurns(int64_t session, const TurnId& head) override;
  Result<std::vector<TurnRow>> ReadWindow(int64_t session, const TurnId& head) override;
  Result<std::vector<TurnRow>> ReadTurnsBack(int64_t session, const TurnId& last,
                                             size_t limit) override;
  Result<std::vector<ItemsRow>> ReadItems(int64_t session, const TurnId& head, uint64_t first_line,
                                          size_t limit) override;
  Result<TurnRow> FindByIdempotencyKey(int64_t session, const std::string& key) override;
  Result<SessionPage> ListSessions(const std::string& tenant, const std::string& user,
                                   const std::string& after, size_t limit) override;
  Result<std::vector<SessionRow>> ListIdleSessions(int64_t updated_before_ms, size_t limit,
                                                   const IdleCursor& after) override;
  Result<TenantTotals> TenantUse(const std::string& tenant) override;
  Status SetSessionSettings(int64_t session, const std::string& settings_json) override;
  Status SetTurnMarks(int64_t session, const TurnMarks& marks) override;
  Result<std::vector<TurnMarks>> ReadTurnMarks(int64_t session) override;
  Status DeleteTurn(int64_t session, const TurnId& turn) override;
  Result<std::vector<PayloadFileId>> DeleteSession(const SessionKey& key) override;
  Result<std::vector<PieceRow>> ReadPieces(int64_t session) override;
  Result<std::vector<int64_t>> AddPieces(int64_t session,
                                         std::span<const PieceRow> pieces) override;
  Result<std::vector<PayloadFileId>> DropPieces(int64_t session,
                                                std::span<const int64_t> ids) override;
  Result<std::vector<PayloadFileId>> ReferencedFiles() override;
  Status Settle() override;

 private:
  class ReaderLease;

  SqliteTokenLog(std::string path, std::string vfs, SqliteMode mode, const SqliteOptions& options);
  Result<std::unique_ptr<Database>> OpenReader() const;
  Result<ReaderLease> BorrowReader();
  // What the answer to a call says: of a writer, whose errors are handed on to clients, the file's
  // name and the reason without this machine's folders. The log has the whole of it.
  Error Told(Error error) const;
  template <typename Work>
  auto Read(Work work) -> decltype(work(std::declval<Database&>()));
  template <typename Work>
  std::invoke_result_t<Work, Database&> Write(Work work) TENUTO_REQUIRES(write_mutex_);
  Status Writable() const TENUTO_REQUIRES(write_mutex_);
  void NoteFailure() TENUTO_REQUIRES(write_mutex_);
  Status Checkpoint() TENUTO_REQUIRES(write_mutex_);
  void EmptyWal(int wait_ms) TENUTO_REQUIRES(write_mutex_);
  // Write, for what is of one session. kNotFound: it is not there.
  template <typename Work>
  std::invoke_result_t<Work, Database&, const SessionRow&> WriteTo(int64_t session, Work work)
      TENUTO_REQUIRES(write_mutex_);

  const std::string path_;
  const std::string vfs_;
  const SqliteMode mode_;
  const SqliteOptions options_;

  Mutex write_mutex_;
  std::unique_ptr<Database> writer_ TENUTO_GUARDED_BY(write_mutex_);  // null: opened for reading
  std::optional<Error> dead_ TENUTO_GUARDED_BY(write_mutex_);
  bool erase_pending_ TENUTO_GUARDED_BY(write_mutex_) =
      false;  // deleted text may still be in the write-ahead log

  Mutex read_mutex_;
  std::condition_variable_any reader_free_;
  std::vector<std::unique_ptr<Database>> readers_ TENUTO_GUARDED_BY(read_mutex_);  // idle
  int readers_open_ TENUTO_GUARDED_BY(read_mutex_) = 0;
};

}  // namespace tenuto
