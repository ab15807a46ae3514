// A TokenLog in memory: the oracle of the tests and the disk of the simulator. Same contract,
// verdicts and codes as the stores on disk, plus faults on demand. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tokenlog/log.h"

namespace tenuto {

class MemoryTokenLog : public TokenLog {
 public:
  // What the n-th write from now (1 = the next) does instead of succeeding.
  struct Fault {
    uint64_t at_write = 1;
    Code code = Code::kIo;
    // True: the write reports its error but is found there after Crash(), as after a failed sync.
    bool kept = false;
  };

  // After a fault with kIo every further write is refused until Crash(): the volume is in doubt
  // (INV-11).
  void FailWrite(Fault fault);
  // The process dies and comes back: all that was acknowledged is there, and of what failed only
  // `kept` writes are.
  void Crash();
  // Writes that succeeded: one for each call that stored something, however many turns it carried.
  uint64_t writes() const;

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

 private:
  struct StoredTurn {
    TurnRow row;
    uint64_t line_turns = 0;  // from the root to this turn, both included
    uint64_t line_tokens = 0;
  };
  struct Session {
    SessionRow row;
    std::map<std::string, StoredTurn> turns;         // by turn id
    std::map<std::string, std::string> idempotency;  // key -> turn id
    std::map<int64_t, PieceRow> pieces;              // by piece id
    std::map<std::string, TurnMarks> marks;          // by turn id
  };
  struct State {
    uint64_t lease_epoch = 0;
    int64_t next_session = 1;
    int64_t next_piece = 1;
    std::map<int64_t, Session> sessions;
    std::map<SessionKey, int64_t> by_key;
  };

  // Runs `change` on the state unless a fault is due. `change` returns whether it stored something.
  template <typename Change>
  Status Write(Change change) TENUTO_REQUIRES(mutex_);
  // The newest turns of the line that ends with `last`, newest first; `turns_of` says how many from
  // the StoredTurn of `last`.
  template <typename TurnsOf>
  Result<std::vector<TurnRow>> ReadNewest(int64_t session, const TurnId& last, TurnsOf turns_of)
      TENUTO_REQUIRES(mutex_);
  static Result<int64_t> CommitOne(State& state, const TurnCommit& commit);
  // Null: no such turn, or it is deleted.
  static StoredTurn* FindLive(State& state, int64_t session, const TurnId& turn);
  static std::vector<PayloadFileId> Unnamed(const State& state, std::vector<PayloadFileId> files);

  mutable Mutex mutex_;
  State state_ TENUTO_GUARDED_BY(mutex_);
  std::optional<State> in_doubt_
      TENUTO_GUARDED_BY(mutex_);  // what a `kept` fault left on the medium
  std::optional<Fault> fault_ TENUTO_GUARDED_BY(mutex_);
  std::optional<Error> dead_ TENUTO_GUARDED_BY(mutex_);
  uint64_t writes_ TENUTO_GUARDED_BY(mutex_) = 0;
};

}  // namespace tenuto
