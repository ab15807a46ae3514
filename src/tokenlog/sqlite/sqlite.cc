#include "tokenlog/sqlite/sqlite.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "io/os_error.h"

namespace tenuto {
namespace {

constexpr char kDamaged[] =
    "; stop the server, keep a copy of the store's folder and restore the log from a backup";

bool IsOutOfSpace(int rc, int os_error) {
  if ((rc & 0xff) == SQLITE_FULL) return true;
  // Growing the shared-memory file is the one place where SQLite hides a full disk behind an I/O
  // error; quotas are another word for it.
  if (rc == SQLITE_IOERR_SHMSIZE) return true;
  // A sync that failed for want of space has still failed (INV-11).
  if (rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC) return false;
  return (rc & 0xff) == SQLITE_IOERR &&
         (os_error == ENOSPC || os_error == EDQUOT || os_error == EFBIG);
}

bool IsDamage(int rc) {
  return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB || rc == SQLITE_IOERR_DATA ||
         rc == SQLITE_IOERR_CORRUPTFS;
}

// On a read-only volume nobody writes, and the write-ahead log's index, which even a reader needs,
// can't be made. Without a write-ahead log there is nothing that it would tell.
bool IsImmutable(const std::string& path) {
  struct stat info {};
  const std::string wal = path + "-wal";
  if (stat(wal.c_str(), &info) == 0 && info.st_size > 0) return false;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  return access(folder.empty() ? "." : folder.c_str(), W_OK) != 0 && errno == EROFS;
}

std::string ImmutableUri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    switch (c) {
      case '%':
        uri += "%25";
        break;
      case '?':
        uri += "%3f";
        break;
      case '#':
        uri += "%23";
        break;
      default:
        uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      handle_(std::exchange(other.handle_, nullptr)),
      next_(other.next_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  if (handle_ != nullptr) Reset();
}

void Statement::Reset() {
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
  next_ = 1;
  bind_error_ = SQLITE_OK;
}

void Statement::Note(int rc) {
  ++next_;
  if (bind_error_ == SQLITE_OK) bind_error_ = rc;
}

Statement& Statement::Bind(int64_t value) {
  Note(sqlite3_bind_int64(handle_, next_, value));
  return *this;
}

Statement& Statement::Bind(std::string_view text) {
  // An empty view may have no address, which SQLite would take for NULL.
  Note(sqlite3_bind_text64(handle_, next_, text.empty() ? "" : text.data(), text.size(),
                           SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Statement& Statement::Bind(std::span<const std::byte> blob) {
  Note(blob.empty() ? sqlite3_bind_zeroblob(handle_, next_, 0)
                    : sqlite3_bind_blob64(handle_, next_, blob.data(), blob.size(), SQLITE_STATIC));
  return *this;
}

Statement& Statement::Bind(const Digest256& digest) {
  return Bind(std::span<const std::byte>(digest.bytes));
}

Statement& Statement::BindNull() {
  Note(sqlite3_bind_null(handle_, next_));
  return *this;
}

Result<bool> Statement::Step() {
  if (bind_error_ != SQLITE_OK) return database_->ErrorOf(bind_error_);
  const int rc = sqlite3_step(handle_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return database_->ErrorOf(rc);
}

Status Statement::Run() {
  TENUTO_ASSIGN(const bool row, Step());
  TENUTO_CHECK(!row);
  return Ok();
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(handle_, column);
}

std::string_view Statement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(handle_, column);
  if (text == nullptr) return {};
  const int bytes = sqlite3_column_bytes(handle_, column);
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(bytes)};
}

std::span<const std::byte> Statement::Blob(int column) const {
  const void* blob = sqlite3_column_blob(handle_, column);
  if (blob == nullptr) return {};
  return {static_cast<const std::byte*>(blob),
          static_cast<size_t>(sqlite3_column_bytes(handle_, column))};
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

Result<Digest256> Statement::Digest(int column) const {
  const auto blob = Blob(column);
  Digest256 digest;
  if (blob.size() != digest.bytes.size())
    return Error(Code::kCorrupt,
                 "a digest in the token log has a wrong size" + std::string(kDamaged));
  std::memcpy(digest.bytes.data(), blob.data(), blob.size());
  return digest;
}

Result<std::unique_ptr<Database>> Database::Open(const Spec& spec) {
  std::unique_ptr<Database> database(new Database);
  database->path_ = spec.path;
  const bool immutable = spec.read_only && IsImmutable(spec.path);
  const std::string name = immutable ? ImmutableUri(spec.path) : spec.path;
  const int flags =
      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (immutable ? SQLITE_OPEN_URI : 0) |
      (spec.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  sqlite3* handle = nullptr;
  const int rc = sqlite3_open_v2(name.c_str(), &handle, flags, spec.vfs.c_str());
  database->handle_.reset(handle);
  // Only here: later it is the write-ahead log's index that can't be made.
  if ((rc & 0xff) == SQLITE_CANTOPEN && handle != nullptr && sqlite3_system_errno(handle) == ENOENT)
    return Error(Code::kNotFound, "token log " + spec.path + " does not exist");
  if (rc != SQLITE_OK) return database->ErrorOf(rc);
  // SQLite opens a file that it may not write for reading, and says nothing.
  if (!spec.read_only && sqlite3_db_readonly(handle, "main") == 1)
    return database->ErrorOf(SQLITE_READONLY);
  sqlite3_busy_timeout(handle, spec.busy_timeout_ms);
  // Foreign bytes must not be able to run what a schema can hold (views, triggers with functions).
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return database;
}

void Database::CountWalPages() {
  sqlite3_wal_hook(
      handle_.get(),
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Database*>(self)->wal_pages_ = pages;
        return SQLITE_OK;
      },
      this);
}

Result<Statement> Database::Use(std::string_view sql) {
  auto cached = statements_.find(sql);
  if (cached == statements_.end()) {
    sqlite3_stmt* statement = nullptr;
    const int rc = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (rc != SQLITE_OK) return ErrorOf(rc);
    cached = statements_.emplace(std::string(sql), statement).first;
  }
  TENUTO_CHECK(sqlite3_stmt_busy(cached->second.get()) == 0);
  return Statement(*this, cached->second.get());
}

Status Database::Exec(const char* sql) {
  const int rc = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK) return ErrorOf(rc);
  return Ok();
}

Result<int64_t> Database::QueryInt(std::string_view sql) {
  TENUTO_ASSIGN(Statement statement, Use(sql));
  TENUTO_ASSIGN(const bool row, statement.Step());
  if (!row)
    return Error(Code::kCorrupt,
                 "the token log lacks a row that every log has" + std::string(kDamaged));
  return statement.Int(0);
}

Error Database::ErrorOf(int rc) {
  sqlite3* db = handle_.get();
  const int os_error = db == nullptr ? 0 : sqlite3_system_errno(db);
  // The connection's own words only where they belong to this code.
  const bool current = db != nullptr && sqlite3_extended_errcode(db) == rc;
  // SQLite calls it a disk I/O error.
  const char* said = rc == SQLITE_IOERR_DATA
                         ? "a page's checksum is not right: damaged, or changed by another program"
                     : current ? sqlite3_errmsg(db)
                               : sqlite3_errstr(rc);
  const std::string what = "token log " + path_ + ": " + said;
  const std::string why = os_error == 0 ? "" : std::string(" (") + OsErrorText(os_error) + ")";
  if (IsDamage(rc)) return Error(Code::kCorrupt, what + kDamaged);
  if (IsOutOfSpace(rc, os_error))
    return Error(Code::kExhausted, what + ": free some space on its volume");
  switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error(Code::kUnavailable, what + ": another process writes to it");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return Error(Code::kDenied,
                   what + ": it can't be written; check the rights of the file and its folder");
    case SQLITE_CANTOPEN:
      return Error(Code::kDenied, what + why + ": check the rights of the file and its folder");
    case SQLITE_IOERR:
      volume_in_doubt_ = volume_in_doubt_ || rc == SQLITE_IOERR_WRITE || rc == SQLITE_IOERR_FSYNC ||
                         rc == SQLITE_IOERR_DIR_FSYNC || rc == SQLITE_IOERR_TRUNCATE;
      return Error(Code::kIo, what + why);
    case SQLITE_TOOBIG:
      return Error(Code::kInvalid, what);
    case SQLITE_NOMEM:
      return Error(Code::kExhausted, what);
    default:
      // SQLITE_ERROR, CONSTRAINT, SCHEMA...: the tables are not what this version wrote.
      return Error(Code::kCorrupt, what + kDamaged);
  }
}

void Database::DisableCheckpointOnClose() {
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

Result<bool> Database::RunCheckpoint(Checkpoint mode) {
  const bool truncate = mode == Checkpoint::kTruncate;
  int left = 0;
  int copied = 0;
  const int rc = sqlite3_wal_checkpoint_v2(
      handle_.get(), "main", truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE,
      &left, &copied);
  if ((rc & 0xff) == SQLITE_BUSY) return false;
  if (rc != SQLITE_OK) return ErrorOf(rc);
  if (left == copied) wal_pages_ = 0;
  return true;
}

Result<Transaction> Transaction::Begin(Database& database, Kind kind) {
  TENUTO_TRY(database.Exec(kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN"));
  return Transaction(database);
}

Transaction::~Transaction() {
  if (database_ == nullptr || !database_->in_transaction()) return;
  // Some errors have rolled back already; what is left can only be dropped.
  (void)database_->Exec("ROLLBACK");
}

Status Transaction::Commit() {
  if (Status done = database_->Exec("COMMIT"); !done) {
    if (done.error().code() == Code::kIo) database_->MarkVolumeInDoubt();
    return done;
  }
  database_ = nullptr;
  return Ok();
}

}  // namespace tenuto
