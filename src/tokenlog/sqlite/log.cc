#include "tokenlog/sqlite/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "io/os_error.h"
#include "tokenlog/checks.h"
#include "tokenlog/sqlite/item_rows.h"
#include "tokenlog/sqlite/mark_rows.h"
#include "tokenlog/sqlite/page_vfs.h"
#include "tokenlog/sqlite/rows.h"
#include "tokenlog/sqlite/schema.h"
#include "tokenlog/sqlite/sqlite.h"
#include "tokenlog/sqlite/tenant_rows.h"
#include "tokenlog/sqlite/turn_rows.h"

namespace tenuto {
namespace {

// How long a delete waits for readers before it leaves emptying the write-ahead log to the next
// Settle.
constexpr int kEraseWaitMs = 200;

// SQLite would make the file readable for everybody.
Status CreatePrivate(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0) {
    ::close(fd);
    return Ok();
  }
  // An existing file is not even opened: closing it would drop the locks that this process may hold
  // on it.
  if (errno == EEXIST) return Ok();
  const Code code = errno == EACCES || errno == EPERM || errno == EROFS ? Code::kDenied
                    : errno == ENOSPC || errno == EDQUOT                ? Code::kExhausted
                    : errno == ENOENT                                   ? Code::kNotFound
                                                                        : Code::kIo;
  return Error(code, "token log " + path + " can't be created: " + OsErrorText(errno));
}

// Says which file is meant. For people at the machine: what a client may be told (kNotFound, ...)
// stays without a path.
Error InLog(const std::string& path, Error error) {
  if (error.message().find(path) != std::string::npos) return error;
  return std::move(error).With("token log " + path);
}

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

// A reading connection taken from the pool; goes back at its end.
class SqliteTokenLog::ReaderLease {
 public:
  ReaderLease(SqliteTokenLog& log, std::unique_ptr<Database> database)
      : log_(&log), database_(std::move(database)) {}
  ReaderLease(ReaderLease&&) noexcept = default;
  ReaderLease& operator=(ReaderLease&&) = delete;
  ~ReaderLease() {
    if (!database_) return;
    {
      const MutexLock lock(log_->read_mutex_);
      log_->readers_.push_back(std::move(database_));
    }
    log_->reader_free_.notify_one();
  }
  Database& database() { return *database_; }

 private:
  SqliteTokenLog* log_;
  std::unique_ptr<Database> database_;
};

SqliteTokenLog::SqliteTokenLog(std::string path, std::string vfs, SqliteMode mode,
                               const SqliteOptions& options)
    : path_(std::move(path)), vfs_(std::move(vfs)), mode_(mode), options_(options) {}

Result<std::unique_ptr<SqliteTokenLog>> SqliteTokenLog::Open(const std::string& path,
                                                             SqliteMode mode,
                                                             const SqliteOptions& options) {
  TENUTO_ASSIGN(std::string vfs, RegisterPageVfs(options.vfs));
  std::unique_ptr<SqliteTokenLog> log(new SqliteTokenLog(path, std::move(vfs), mode, options));
  if (mode == SqliteMode::kWriter) {
    if (options.vfs.empty()) TENUTO_TRY(CreatePrivate(path));
    auto writer = Database::Open({.path = path,
                                  .vfs = log->vfs_,
                                  .read_only = false,
                                  .busy_timeout_ms = options.busy_timeout_ms});
    if (!writer) return InLog(path, std::move(writer).error());
    if (Status prepared = PrepareWriter(**writer); !prepared)
      return InLog(path, std::move(prepared).error());
    const MutexLock lock(log->write_mutex_);
    log->writer_ = std::move(writer).value();
    // After a crash the write-ahead log may hold text that was deleted since.
    log->EmptyWal(0);
  } else {
    // One reader at once, so that what is wrong with the file shows here and not at the first
    // question.
    TENUTO_ASSIGN(std::unique_ptr<Database> reader, log->OpenReader());
    const MutexLock lock(log->read_mutex_);
    log->readers_.push_back(std::move(reader));
    log->readers_open_ = 1;
  }
  return log;
}

SqliteTokenLog::~SqliteTokenLog() {
  {
    const MutexLock lock(read_mutex_);
    readers_.clear();  // before the writer, whose close then finds itself alone and empties the
                       // write-ahead log
  }
  const MutexLock lock(write_mutex_);
  if (writer_ && dead_) writer_->DisableCheckpointOnClose();
  writer_.reset();
}

Result<std::unique_ptr<Database>> SqliteTokenLog::OpenReader() const {
  auto reader = Database::Open(
      {.path = path_, .vfs = vfs_, .read_only = true, .busy_timeout_ms = options_.busy_timeout_ms});
  if (!reader) return InLog(path_, std::move(reader).error());
  if (Status prepared = PrepareReader(**reader); !prepared)
    return InLog(path_, std::move(prepared).error());
  return reader;
}

Result<SqliteTokenLog::ReaderLease> SqliteTokenLog::BorrowReader() {
  {
    const MutexLock lock(read_mutex_);
    while (readers_.empty() && readers_open_ >= kReadersMax)
      reader_free_.wait(read_mutex_);
    if (!readers_.empty()) {
      std::unique_ptr<Database> reader = std::move(readers_.back());
      readers_.pop_back();
      return ReaderLease(*this, std::move(reader));
    }
    ++readers_open_;
  }
  auto opened = OpenReader();
  if (opened) return ReaderLease(*this, std::move(opened).value());
  {
    const MutexLock lock(read_mutex_);
    --readers_open_;
  }
  reader_free_.notify_one();
  return std::move(opened).error();
}

Error SqliteTokenLog::Told(Error error) const {
  if (error.code() == Code::kCorrupt) error = InLog(path_, std::move(error));
  const std::string& whole = error.message();
  const size_t at = whole.find(path_);
  if (mode_ == SqliteMode::kReader || at == std::string::npos) return error;
  Log(LogLevel::kWarn, "tokenlog.failed", {{"code", CodeName(error.code())}, {"error", whole}});
  return Error(error.code(), whole.substr(0, at) + NameOf(path_) + whole.substr(at + path_.size()));
}

template <typename Work>
auto SqliteTokenLog::Read(Work work) -> decltype(work(std::declval<Database&>())) {
  auto in_transaction = [&]() -> decltype(work(std::declval<Database&>())) {
    TENUTO_ASSIGN(ReaderLease lease, BorrowReader());
    TENUTO_ASSIGN(Transaction transaction,
                  Transaction::Begin(lease.database(), Transaction::Kind::kRead));
    return work(lease.database());
  };
  auto result = in_transaction();
  if (!result) return Told(std::move(result).error());
  return result;
}

template <typename Work>
std::invoke_result_t<Work, Database&> SqliteTokenLog::Write(Work work) {
  TENUTO_TRY(Writable());
  Database& writer = *writer_;
  auto in_transaction = [&]() -> std::invoke_result_t<Work, Database&> {
    TENUTO_ASSIGN(Transaction transaction, Transaction::Begin(writer, Transaction::Kind::kWrite));
    auto done = work(writer);
    if (!done) return done;
    TENUTO_TRY(transaction.Commit());
    return done;
  };
  auto result = in_transaction();
  NoteFailure();
  if (!result) result = Told(std::move(result).error());
  if (writer.wal_pages() >= kCheckpointOverduePages) {
    if (const Status copied = Checkpoint(); !copied)
      Log(LogLevel::kWarn, "tokenlog.checkpoint_failed", {{"error", copied.error().message()}});
  }
  return result;
}

template <typename Work>
std::invoke_result_t<Work, Database&, const SessionRow&> SqliteTokenLog::WriteTo(int64_t session,
                                                                                 Work work) {
  return Write([&](Database& database) -> std::invoke_result_t<Work, Database&, const SessionRow&> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    return work(database, *row);
  });
}

Status SqliteTokenLog::Writable() const {
  if (!writer_) return Error(Code::kDenied, "token log " + path_ + " is open for reading only");
  if (dead_) return *dead_;
  return Ok();
}

void SqliteTokenLog::NoteFailure() {
  if (dead_ || !writer_->volume_in_doubt()) return;
  dead_ = Error(Code::kIo,
                "token log " + NameOf(path_) +
                    " refuses writes: its volume failed a write or a sync, so what is on it is in "
                    "doubt; check the disk and restart");
  Log(LogLevel::kError, "tokenlog.dead", {{"path", path_}});
}

Status SqliteTokenLog::Checkpoint() {
  const Result<bool> done = writer_->RunCheckpoint(Database::Checkpoint::kPassive);
  NoteFailure();
  if (!done) return done.error();
  return Ok();
}

void SqliteTokenLog::EmptyWal(int wait_ms) {
  writer_->SetBusyTimeout(wait_ms);
  const Result<bool> done = writer_->RunCheckpoint(Database::Checkpoint::kTruncate);
  writer_->SetBusyTimeout(options_.busy_timeout_ms);
  NoteFailure();
  erase_pending_ = !done.ok() || !*done;
  if (!done) Log(LogLevel::kWarn, "tokenlog.erase_delayed", {{"error", done.error().message()}});
}

Status SqliteTokenLog::Settle() {
  {
    // After a commit SQLite reads all of its pages anew; kept, they grow to megabytes for each
    // reader, a little more with each session that is asked and then rests.
    const MutexLock lock(read_mutex_);
    for (const auto& reader : readers_)
      reader->ReleaseMemory();
  }
  const MutexLock lock(write_mutex_);
  if (!writer_ || dead_) return Ok();
  if (erase_pending_) {
    EmptyWal(0);
    return Ok();
  }
  if (writer_->wal_pages() >= kCheckpointPages) return Checkpoint();
  return Ok();
}

Result<uint64_t> SqliteTokenLog::NextLeaseEpoch() {
  const MutexLock lock(write_mutex_);
  return Write([](Database& database) -> Result<uint64_t> {
    TENUTO_ASSIGN(Statement next,
                  database.Use("UPDATE meta SET value = value + 1 WHERE name = 'lease_epoch'"));
    TENUTO_TRY(next.Run());
    TENUTO_ASSIGN(const int64_t epoch,
                  database.QueryInt("SELECT value FROM meta WHERE name = 'lease_epoch'"));
    return static_cast<uint64_t>(epoch);
  });
}

std::vector<Result<int64_t>> SqliteTokenLog::Commit(std::span<const TurnCommit> commits) {
  using Verdicts = std::vector<Result<int64_t>>;
  const MutexLock lock(write_mutex_);
  Result<Verdicts> verdicts = Write([&](Database& database) -> Result<Verdicts> {
    Verdicts each;
    each.reserve(commits.size());
    for (const TurnCommit& commit : commits) {
      TENUTO_ASSIGN(Result<int64_t> verdict, StoreCommit(database, commit));
      each.push_back(std::move(verdict));
    }
    return each;
  });
  if (!verdicts) return Verdicts(commits.size(), verdicts.error());
  return std::move(verdicts).value();
}

Result<SessionRow> SqliteTokenLog::FindSession(const SessionKey& key) {
  return Read([&](Database& database) -> Result<SessionRow> {
    TENUTO_ASSIGN(std::optional<SessionRow> session, SelectSession(database, key));
    if (!session) return NoSuchSession(key.Short());
    return *std::move(session);
  });
}

Result<std::vector<TurnRow>> SqliteTokenLog::ReadTurns(int64_t session, const TurnId& head) {
  return Read([&](Database& database) -> Result<std::vector<TurnRow>> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    return SelectLine(database, *row, head);
  });
}

Result<std::vector<TurnRow>> SqliteTokenLog::ReadWindow(int64_t session, const TurnId& head) {
  return Read([&](Database& database) -> Result<std::vector<TurnRow>> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    return SelectWindow(database, *row, head);
  });
}

Result<std::vector<TurnRow>> SqliteTokenLog::ReadTurnsBack(int64_t session, const TurnId& last,
                                                           size_t limit) {
  return Read([&](Database& database) -> Result<std::vector<TurnRow>> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    return SelectTurnsBack(database, *row, last, std::min(limit, kTurnPageMax));
  });
}

Result<std::vector<ItemsRow>> SqliteTokenLog::ReadItems(int64_t session, const TurnId& head,
                                                        uint64_t first_line, size_t limit) {
  return Read([&](Database& database) -> Result<std::vector<ItemsRow>> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    return SelectItems(database, *row, head, {.first_line = first_line, .limit = limit});
  });
}

Result<TurnRow> SqliteTokenLog::FindByIdempotencyKey(int64_t session, const std::string& key) {
  return Read([&](Database& database) -> Result<TurnRow> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    TENUTO_ASSIGN(std::optional<TurnRow> turn, SelectTurnByKey(database, *row, key));
    if (!turn) return NoSuchTurn("this idempotency key");
    return *std::move(turn);
  });
}

Result<SessionPage> SqliteTokenLog::ListSessions(const std::string& tenant, const std::string& user,
                                                 const std::string& after, size_t limit) {
  SessionKey start{.tenant = "", .user = "", .agent = "", .session = ""};
  if (!after.empty()) {
    TENUTO_ASSIGN(start, ParseSessionKey(after));
  }
  return Read([&](Database& database) {
    return SelectSessions(database, tenant, user, start, std::min(limit, kSessionPageMax));
  });
}

Result<std::vector<SessionRow>> SqliteTokenLog::ListIdleSessions(int64_t updated_before_ms,
                                                                 size_t limit,
                                                                 const IdleCursor& after) {
  return Read([&](Database& database) {
    return SelectIdle(database, updated_before_ms, after, std::min(limit, kSessionPageMax));
  });
}

Result<TenantTotals> SqliteTokenLog::TenantUse(const std::string& tenant) {
  return Read([&](Database& database) { return SelectTenant(database, tenant); });
}

Status SqliteTokenLog::SetSessionSettings(int64_t session, const std::string& settings_json) {
  TENUTO_TRY(CheckSettings(settings_json));
  const MutexLock lock(write_mutex_);
  return WriteTo(session, [&](Database& database, const SessionRow& row) {
    return UpdateSettings(database, row.id, settings_json);
  });
}

Status SqliteTokenLog::SetTurnMarks(int64_t session, const TurnMarks& marks) {
  TENUTO_TRY(CheckTurnMarks(marks));
  const MutexLock lock(write_mutex_);
  return WriteTo(session, [&](Database& database, const SessionRow& row) {
    return StoreMarks(database, row.id, marks);
  });
}

Result<std::vector<TurnMarks>> SqliteTokenLog::ReadTurnMarks(int64_t session) {
  return Read([&](Database& database) -> Result<std::vector<TurnMarks>> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    return SelectMarks(database, session);
  });
}

Status SqliteTokenLog::DeleteTurn(int64_t session, const TurnId& turn) {
  const MutexLock lock(write_mutex_);
  TENUTO_TRY(WriteTo(session, [&](Database& database, const SessionRow& row) {
    return RemoveTurn(database, row, turn);
  }));
  EmptyWal(kEraseWaitMs);  // as for a session
  return Ok();
}

Result<std::vector<PayloadFileId>> SqliteTokenLog::DeleteSession(const SessionKey& key) {
  const MutexLock lock(write_mutex_);
  auto files = Write([&](Database& database) -> Result<std::vector<PayloadFileId>> {
    TENUTO_ASSIGN(const std::optional<SessionRow> session, SelectSession(database, key));
    if (!session) return NoSuchSession(key.Short());
    return RemoveSession(database, *session);
  });
  if (!files) return files;
  // The rows are gone either way; a reader in the way or a full disk only delays the overwriting.
  EmptyWal(kEraseWaitMs);
  return files;
}

Result<std::vector<PieceRow>> SqliteTokenLog::ReadPieces(int64_t session) {
  return Read([&](Database& database) -> Result<std::vector<PieceRow>> {
    TENUTO_ASSIGN(const std::optional<SessionRow> row, SelectSession(database, session));
    if (!row) return NoSuchSession(std::to_string(session));
    return SelectPieces(database, session);
  });
}

Result<std::vector<int64_t>> SqliteTokenLog::AddPieces(int64_t session,
                                                       std::span<const PieceRow> pieces) {
  for (const PieceRow& piece : pieces)
    TENUTO_TRY(CheckPieceRow(piece));
  const MutexLock lock(write_mutex_);
  return WriteTo(session,
                 [&](Database& database, const SessionRow& row) -> Result<std::vector<int64_t>> {
                   std::vector<int64_t> ids;
                   for (const PieceRow& piece : pieces) {
                     TENUTO_TRY(InsertPiece(database, row.id, piece));
                     ids.push_back(database.last_insert_id());
                   }
                   return ids;
                 });
}

Result<std::vector<PayloadFileId>> SqliteTokenLog::DropPieces(int64_t session,
                                                              std::span<const int64_t> ids) {
  const MutexLock lock(write_mutex_);
  return WriteTo(session, [&](Database& database, const SessionRow& row) {
    return RemovePieces(database, row.id, ids);
  });
}

Result<std::vector<PayloadFileId>> SqliteTokenLog::ReferencedFiles() {
  return Read([](Database& database) { return SelectFiles(database); });
}

}  // namespace tenuto
