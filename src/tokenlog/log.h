// The token log: sessions, their turns with exact token ids, and the rows that name KV pieces. The
// truth (INV-1). Speaks sessions, turns and tokens, never SQL. docs/formats/tokenlog.md has what is
// stored. All calls block; the caller picks the thread. Thread-safe. Writes are durable when a call
// returns.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "crypto/hash.h"
#include "format/location.h"

namespace tenuto {

struct SessionRow {
  int64_t id = 0;  // internal, never reused
  SessionKey key;
  int64_t created_unix_ms = 0;
  int64_t updated_unix_ms = 0;
  TurnId head;               // empty: no turn yet
  uint64_t lease_epoch = 0;  // of the last writer
  Digest256 vocabulary;      // of the model that wrote the log
  std::string system_json;   // the system items of the first turn as a JSON array, "[]" when none
  uint64_t turns = 0;        // of the head's line
  uint64_t tokens = 0;       // of the head's line
  // What every prompt of the session begins with once its oldest turns are cut away: the first
  // token, the system prompt. Stored with the first turn.
  std::vector<TokenId> head_tokens;
  uint64_t bytes = 0;  // of system items, head tokens and the turns of all branches, as stored
  std::string settings_json = "{}";  // opaque here
};

struct TurnRow {
  TurnId id;
  TurnId parent;
  // The suffix that this turn added: closing of the last message, items, opening.
  std::vector<TokenId> prompt;
  // Generated, without the end-of-turn token and without what followed a stop string.
  std::vector<TokenId> answer;
  // The oldest turn that this one's prompt still held, counted along the line from 1; at most this
  // turn's own number. Where the cut lies is history, not a guess (INV-8).
  uint64_t window_first = 1;
  // So many first tokens of `prompt` close the turn before; they are left out of a window that
  // begins with this turn. At most prompt.size().
  uint32_t close_tokens = 0;
  std::string items_json;   // array of {"role","content",...}: what a client sees, answer included
  std::string params_json;  // sampling parameters as resolved, seed included
  std::string finish_reason;    // "stop", "length", "cancelled", "shutdown"
  bool incomplete = false;      // ended by disconnect or shutdown
  std::string idempotency_key;  // empty: none
  std::string outcome_json;  // the answer as acknowledged, for a retry with the same key; else ""
  std::string recall_json;   // room for the recall record; "" for now
  int64_t created_unix_ms = 0;
  int64_t completed_unix_ms = 0;
  // A tombstone: what the turn said is erased, its place in the line is kept. Never of a commit.
  bool deleted = false;
  bool operator==(const TurnRow&) const = default;
};

// What the archive and a search want of a turn: no tokens.
struct ItemsRow {
  uint64_t line = 0;  // the turn's number in its line, from 1
  TurnId id;
  std::string items_json;
  std::string recall_json;
  int64_t created_unix_ms = 0;
  bool deleted = false;
};

// What is said of a turn after it was committed, and may change.
struct TurnMarks {
  TurnId turn;
  uint64_t line = 0;  // the turn's number in its line; set by the log
  bool pinned = false;
  bool recall_off = false;
  TurnId superseded_by = {};  // a turn of the session that holds instead of this one; empty: none
};

// Over all sessions of a tenant. Tombstones count for nothing.
struct TenantTotals {
  uint64_t sessions = 0;
  uint64_t turns = 0;  // of all branches
  uint64_t bytes = 0;
};

// The last row of a page of ListIdleSessions; the default is before all.
struct IdleCursor {
  int64_t updated_unix_ms = std::numeric_limits<int64_t>::min();
  int64_t session = 0;
};

// One turn to commit. Fails with kConflict, changing nothing, unless the session's head is
// `expected_head` and its lease epoch is not above `lease_epoch` (INV-13). A session that does not
// exist is created when expected_head is empty. The turn's parent may be any turn of the session,
// or none: a branch. Also kConflict: a turn with this id or idempotency key is stored. kInvalid:
// malformed or too large (tokenlog/checks.h), the parent is not in the session, or the session was
// written with another vocabulary.
struct TurnCommit {
  SessionKey key;
  TurnId expected_head;
  uint64_t lease_epoch = 0;
  Digest256 vocabulary;
  std::string system_json;           // stored with the first turn
  std::vector<TokenId> head_tokens;  // likewise
  TurnRow turn;
  // When it is stored, where the turn ended long before (an import). The session was updated at the
  // later of the two.
  int64_t stored_unix_ms = 0;
};

struct PieceRow {
  int64_t id = 0;  // set by the log
  uint8_t kind = 0;
  TokenRange range;
  Digest256 fingerprint;
  Digest256 prefix_begin;
  Digest256 prefix_end;
  PayloadLocation location;
};

struct SessionPage {
  std::vector<SessionRow> sessions;  // by key
  bool more = false;
};

class TokenLog {
 public:
  virtual ~TokenLog() = default;

  // A number larger than every epoch given before, durable: taken once per start of a writer.
  virtual Result<uint64_t> NextLeaseEpoch() = 0;

  // All in one transaction; each gets its own verdict, in order. A failing transaction fails all
  // with kIo/kExhausted/kUnavailable and nothing is stored, as far as the log can tell (after kIo
  // it is in doubt). The value is the session's id.
  virtual std::vector<Result<int64_t>> Commit(std::span<const TurnCommit> commits) = 0;

  virtual Result<SessionRow> FindSession(const SessionKey& key) = 0;  // kNotFound
  // The line of turns from the root to `head`, in order. kCorrupt when the line is broken.
  virtual Result<std::vector<TurnRow>> ReadTurns(int64_t session, const TurnId& head) = 0;
  // The end of that line: from turn `window_first` of `head` to `head`, in order. Costs what is
  // read, not what is before it: digests are compared from the turn before on. Errors likewise.
  virtual Result<std::vector<TurnRow>> ReadWindow(int64_t session, const TurnId& head) = 0;
  // At most `limit` (<= kTurnPageMax) turns of the line that ends with `last`, newest first.
  // kNotFound: no such turn.
  virtual Result<std::vector<TurnRow>> ReadTurnsBack(int64_t session, const TurnId& last,
                                                     size_t limit) = 0;
  // Items of turns [first_line, first_line + limit) of the line that ends with `head`, in order;
  // fewer at its end. `limit` is at most kItemsPageMax. Costs what is read, and where the session
  // has branches their length. Places in the line are checked, digests are not. kNotFound: no such
  // head.
  virtual Result<std::vector<ItemsRow>> ReadItems(int64_t session, const TurnId& head,
                                                  uint64_t first_line, size_t limit) = 0;
  virtual Result<TurnRow> FindByIdempotencyKey(int64_t session, const std::string& key) = 0;
  // Sessions of one user (all agents), in key order after `after` (exclusive; empty: from the
  // start; else a session's name, kInvalid when it is none). An empty user lists the tenant's, an
  // empty tenant all. A page has at most 1000.
  virtual Result<SessionPage> ListSessions(const std::string& tenant, const std::string& user,
                                           const std::string& after, size_t limit) = 0;
  // Sessions that were updated before `updated_before_ms`, by that time, then id, from after
  // `after` on; at most 1000. Costs what is listed.
  virtual Result<std::vector<SessionRow>> ListIdleSessions(int64_t updated_before_ms, size_t limit,
                                                           const IdleCursor& after = {}) = 0;
  // All 0 for a tenant without sessions. One look-up, whatever the tenant has.
  virtual Result<TenantTotals> TenantUse(const std::string& tenant) = 0;
  // Replaces the session's settings. kInvalid: longer than kSettingsBytesMax. kNotFound.
  virtual Status SetSessionSettings(int64_t session, const std::string& settings_json) = 0;

  // Replaces the marks of one turn; marks that say nothing are none. kNotFound: no such turn, or it
  // is deleted, or `superseded_by` names no turn of the session (a deleted one it may). kInvalid:
  // the turn itself.
  virtual Status SetTurnMarks(int64_t session, const TurnMarks& marks) = 0;
  // The marks that say something, by line number, then id.
  virtual Result<std::vector<TurnMarks>> ReadTurnMarks(int64_t session) = 0;
  // Makes the turn, any of the session, a tombstone: its tokens, JSON, idempotency key and marks
  // are erased, from the files, too; place, times and window stay, and the line's counts go on
  // counting its tokens. KV pieces that hold it are the caller's to drop. kNotFound: no such turn,
  // or it is deleted already. kCorrupt: the turn is damaged.
  virtual Status DeleteTurn(int64_t session, const TurnId& turn) = 0;
  // Removes the session, its turns and piece rows; returns the payload files that only it named.
  virtual Result<std::vector<PayloadFileId>> DeleteSession(const SessionKey& key) = 0;

  // Piece rows of a session by begin, then id. Adding checks that the session still exists
  // (kNotFound) and returns the new rows' ids, in order.
  virtual Result<std::vector<PieceRow>> ReadPieces(int64_t session) = 0;
  virtual Result<std::vector<int64_t>> AddPieces(int64_t session,
                                                 std::span<const PieceRow> pieces) = 0;
  // Removes rows by id; returns the payload files that no row names any more.
  virtual Result<std::vector<PayloadFileId>> DropPieces(int64_t session,
                                                        std::span<const int64_t> ids) = 0;
  // Every payload file that a row names, sorted: what a sweep must keep.
  virtual Result<std::vector<PayloadFileId>> ReferencedFiles() = 0;

  // Housekeeping that no answer waits for (a checkpoint that is due, pages that reads kept). Called
  // by whoever writes, after its answers are out. An error does not undo anything.
  virtual Status Settle() { return Ok(); }
};

}  // namespace tenuto
