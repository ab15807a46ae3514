// Group commit: all writes of a TokenLog through one runner, so that the commits which wait at the
// same moment share one transaction and its sync.
//
// Order: the commits of one session, and all other writes among each other, run in the order
// posted. Another write runs after the commits posted before it. A commit may overtake writes of
// pieces, marks and settings that were posted before it (nothing of theirs concerns it), never a
// delete, be it of a session or of a turn. Each `done`
// runs exactly once on the answer runner, unless one of the two runners is stopped first.
// Thread-safe. The log and both runners outlive the writer and the tasks it has posted.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/runner.h"
#include "tokenlog/log.h"

namespace tenuto {

class LogWriter {
 public:
  static constexpr size_t kBatchMax = 64;  // turns of one transaction
  static constexpr size_t kQueueMax =
      4096;  // waiting writes; past it `done` gets kExhausted at once

  LogWriter(TokenLog& log, Runner& log_runner, Runner& answers);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Results and codes as those of TokenLog's method of the same name.
  void Commit(TurnCommit commit, std::function<void(Result<int64_t>)> done);
  // Turns of one session, each on the head of the one before, in one transaction of their own. The
  // first verdict that is no success, else the session's id. REQUIRES: at least one.
  void CommitAll(std::vector<TurnCommit> commits, std::function<void(Result<int64_t>)> done);
  void AddPieces(int64_t session, std::vector<PieceRow> pieces,
                 std::function<void(Result<std::vector<int64_t>>)> done);
  void DropPieces(int64_t session, std::vector<int64_t> ids,
                  std::function<void(Result<std::vector<PayloadFileId>>)> done);
  void SetTurnMarks(int64_t session, TurnMarks marks, std::function<void(Status)> done);
  void SetSessionSettings(int64_t session, std::string settings_json,
                          std::function<void(Status)> done);
  void DeleteTurn(int64_t session, TurnId turn, std::function<void(Status)> done);
  void DeleteSession(SessionKey key, std::function<void(Result<std::vector<PayloadFileId>>)> done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tenuto
