#include "tokenlog/writer.h"

#include <deque>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/mutex.h"

namespace tenuto {
namespace {

using CommitDone = std::function<void(Result<int64_t>)>;

struct CommitOp {
  TurnCommit commit;
  CommitDone done;
};

// Any other write: `run` does it on the log runner and gives back what to run on the answer runner.
struct OtherOp {
  bool is_delete = false;
  std::function<Runner::Task(TokenLog&)> run;
  Runner::Task refuse;  // answers kExhausted
};

using Op = std::variant<CommitOp, OtherOp>;

template <typename T>
OtherOp MakeOther(bool is_delete, std::function<Result<T>(TokenLog&)> work,
                  std::function<void(Result<T>)> done) {
  OtherOp op;
  op.is_delete = is_delete;
  op.run = [work = std::move(work), done](TokenLog& log) -> Runner::Task {
    return [done, result = work(log)] { done(result); };
  };
  op.refuse = [done] { done(Error(Code::kExhausted, "too many writes wait for the token log")); };
  return op;
}

}  // namespace

// Shared with the posted tasks, so that a writer may go away before they have run.
struct LogWriter::State {
  State(TokenLog& log_in, Runner& runner_in, Runner& answers_in)
      : log(log_in), runner(runner_in), answers(answers_in) {}

  void Enqueue(std::shared_ptr<State> self, Op op);
  // Takes what belongs into the next transaction: commits up to kBatchMax, or one other write.
  std::deque<Op> Take();
  void RunOne();
  void RunCommits(std::deque<Op> batch);

  TokenLog& log;
  Runner& runner;
  Runner& answers;

  Mutex mutex;
  std::deque<Op> queue TENUTO_GUARDED_BY(mutex);
  bool commits_went_last TENUTO_GUARDED_BY(mutex) = false;
};

void LogWriter::State::Enqueue(std::shared_ptr<State> self, Op op) {
  {
    const MutexLock lock(mutex);
    if (queue.size() < kQueueMax) {
      queue.push_back(std::move(op));
      // One task for each write: a task that finds its own write done already takes another, or
      // does nothing. So a runner that drains has run every write that was posted.
      runner.Post([self = std::move(self)] { self->RunOne(); });
      return;
    }
  }
  if (auto* other = std::get_if<OtherOp>(&op)) {
    answers.Post(std::move(other->refuse));
    return;
  }
  answers.Post([done = std::move(std::get<CommitOp>(op).done)] {
    done(Error(Code::kExhausted, "too many turns wait for the token log"));
  });
}

std::deque<Op> LogWriter::State::Take() {
  const MutexLock lock(mutex);
  std::deque<Op> batch;
  if (queue.empty()) return batch;
  // People wait for commits, nobody for pieces: commits go first, but every other turn belongs to
  // the front.
  const bool front_is_commit = std::holds_alternative<CommitOp>(queue.front());
  if (front_is_commit || !commits_went_last) {
    std::deque<Op> rest;
    bool open = true;
    for (Op& op : queue) {
      const bool is_commit = std::holds_alternative<CommitOp>(op);
      if (!is_commit && std::get<OtherOp>(op).is_delete) open = false;
      if (is_commit && open && batch.size() < kBatchMax)
        batch.push_back(std::move(op));
      else
        rest.push_back(std::move(op));
    }
    queue = std::move(rest);
  }
  commits_went_last = !batch.empty();
  if (batch.empty()) {
    batch.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  return batch;
}

void LogWriter::State::RunOne() {
  std::deque<Op> batch = Take();
  if (batch.empty()) return;
  if (auto* other = std::get_if<OtherOp>(&batch.front()))
    answers.Post(other->run(log));
  else
    RunCommits(std::move(batch));
  // After the answers are on their way: nobody waits for it but the next write.
  if (const Status settled = log.Settle(); !settled)
    Log(LogLevel::kWarn, "tokenlog.settle_failed",
        {{"code", CodeName(settled.error().code())}, {"error", settled.error().message()}});
}

void LogWriter::State::RunCommits(std::deque<Op> batch) {
  std::vector<TurnCommit> commits;
  std::vector<CommitDone> dones;
  commits.reserve(batch.size());
  for (Op& op : batch) {
    commits.push_back(std::move(std::get<CommitOp>(op).commit));
    dones.push_back(std::move(std::get<CommitOp>(op).done));
  }
  std::vector<Result<int64_t>> verdicts = log.Commit(commits);
  for (size_t i = 0; i < dones.size(); ++i)
    answers.Post([done = std::move(dones[i]), verdict = std::move(verdicts[i])] { done(verdict); });
}

LogWriter::LogWriter(TokenLog& log, Runner& log_runner, Runner& answers)
    : state_(std::make_shared<State>(log, log_runner, answers)) {}

LogWriter::~LogWriter() = default;

void LogWriter::Commit(TurnCommit commit, CommitDone done) {
  state_->Enqueue(state_, CommitOp{std::move(commit), std::move(done)});
}

void LogWriter::CommitAll(std::vector<TurnCommit> commits, CommitDone done) {
  // Like a delete: no other commit may pass it.
  state_->Enqueue(state_, MakeOther<int64_t>(
                              true,
                              [commits = std::move(commits)](TokenLog& log) {
                                std::vector<Result<int64_t>> verdicts = log.Commit(commits);
                                for (Result<int64_t>& verdict : verdicts)
                                  if (!verdict.ok()) return std::move(verdict);
                                return std::move(verdicts.back());
                              },
                              std::move(done)));
}

void LogWriter::AddPieces(int64_t session, std::vector<PieceRow> pieces,
                          std::function<void(Result<std::vector<int64_t>>)> done) {
  state_->Enqueue(state_, MakeOther<std::vector<int64_t>>(
                              false,
                              [session, pieces = std::move(pieces)](TokenLog& log) {
                                return log.AddPieces(session, pieces);
                              },
                              std::move(done)));
}

void LogWriter::DropPieces(int64_t session, std::vector<int64_t> ids,
                           std::function<void(Result<std::vector<PayloadFileId>>)> done) {
  state_->Enqueue(state_, MakeOther<std::vector<PayloadFileId>>(
                              false,
                              [session, ids = std::move(ids)](TokenLog& log) {
                                return log.DropPieces(session, ids);
                              },
                              std::move(done)));
}

void LogWriter::SetTurnMarks(int64_t session, TurnMarks marks, std::function<void(Status)> done) {
  state_->Enqueue(state_, MakeOther<Unit>(
                              false,
                              [session, marks = std::move(marks)](TokenLog& log) {
                                return log.SetTurnMarks(session, marks);
                              },
                              std::move(done)));
}

void LogWriter::SetSessionSettings(int64_t session, std::string settings_json,
                                   std::function<void(Status)> done) {
  state_->Enqueue(state_, MakeOther<Unit>(
                              false,
                              [session, json = std::move(settings_json)](TokenLog& log) {
                                return log.SetSessionSettings(session, json);
                              },
                              std::move(done)));
}

void LogWriter::DeleteTurn(int64_t session, TurnId turn, std::function<void(Status)> done) {
  state_->Enqueue(state_, MakeOther<Unit>(
                              true,
                              [session, turn = std::move(turn)](TokenLog& log) {
                                return log.DeleteTurn(session, turn);
                              },
                              std::move(done)));
}

void LogWriter::DeleteSession(SessionKey key,
                              std::function<void(Result<std::vector<PayloadFileId>>)> done) {
  state_->Enqueue(
      state_, MakeOther<std::vector<PayloadFileId>>(
                  true, [key = std::move(key)](TokenLog& log) { return log.DeleteSession(key); },
                  std::move(done)));
}

}  // namespace tenuto
