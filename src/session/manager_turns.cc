// What clients do to single turns of a session: marks, deletion.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "session/manager.h"
#include "session/prepare.h"
#include "session/stored_prompt.h"

namespace tenuto {
namespace {

struct ChangePlan {
  SessionRow row;
  TurnMarks marks;
};

TurnMarks MarksOf(const std::vector<TurnMarks>& all, const TurnId& turn) {
  const auto found = std::ranges::find(all, turn, &TurnMarks::turn);
  TurnMarks marks;
  marks.turn = turn;
  return found == all.end() ? marks : *found;
}

// Blocking.
Status CheckPinFits(const SessionContext& context, const SessionRow& row, const TurnId& turn) {
  TENUTO_ASSIGN(const SessionMarks marks, LoadMarks(context.log, row));
  TENUTO_ASSIGN(const PinnedTurn pinned, ReadPinned(context.log, row, {0, turn}));
  const WindowLimits limits =
      EffectiveSettings(context.settings, marks.overrides).Limits(std::nullopt);
  size_t stays = row.head_tokens.size() + pinned.tokens.size();
  for (const PinnedTurn& other : marks.pins)
    if (other.id != turn) stays += other.tokens.size();
  const auto most = static_cast<size_t>(limits.stays_tokens());
  if (stays <= most) return Ok();
  return Error(Code::kInvalid, "the system prompt (" + std::to_string(row.head_tokens.size()) +
                                   " tokens) and the pinned turns with this one would take " +
                                   std::to_string(stays) + " tokens; at most " +
                                   std::to_string(most) + ", 40 % of the window of " +
                                   std::to_string(limits.tokens) + ", may stay in it for good")
      .At("pinned");
}

// Blocking. A turn's number, from 1; 0: there is none, or it is deleted.
Result<uint64_t> LineOf(TokenLog& log, const SessionRow& row, const TurnId& turn) {
  const auto window = log.ReadWindow(row.id, turn);
  if (!window.ok() && window.error().code() != Code::kNotFound) return window.error();
  if (!window.ok() || window->empty() || window->back().deleted) return uint64_t{0};
  return window->back().window_first + window->size() - 1;
}

// Blocking. Only what was said later can hold instead, so there are no loops.
Status CheckSuperseding(TokenLog& log, const SessionRow& row, const TurnId& older,
                        const TurnId& newer) {
  const auto refused = [](std::string why) {
    return Error(Code::kInvalid, std::move(why)).At("superseded_by");
  };
  if (older == newer) return refused("a turn can't be superseded by itself");
  TENUTO_ASSIGN(const uint64_t newer_line, LineOf(log, row, newer));
  if (newer_line == 0) return refused("the session has no turn " + newer.value);
  TENUTO_ASSIGN(const uint64_t line, LineOf(log, row, older));
  if (newer_line > line) return Ok();
  return refused("turn " + newer.value + " is the session's number " + std::to_string(newer_line) +
                 ", and the one it is to supersede is number " + std::to_string(line) +
                 "; name a later turn");
}

// Blocking. Whether there is such a turn, and what its marks become.
Result<ChangePlan> PlanChange(const SessionContext& context, const SessionKey& key,
                              const TurnId& turn, const TurnChange& change) {
  ChangePlan plan;
  TENUTO_ASSIGN(plan.row, context.log.FindSession(key));
  TENUTO_ASSIGN(const auto all, context.log.ReadTurnMarks(plan.row.id));
  plan.marks = MarksOf(all, turn);
  if (change.pinned && *change.pinned && !plan.marks.pinned)
    TENUTO_TRY(CheckPinFits(context, plan.row, turn));
  if (change.superseded_by && !change.superseded_by->empty())
    TENUTO_TRY(CheckSuperseding(context.log, plan.row, turn, *change.superseded_by));
  plan.marks.pinned = change.pinned.value_or(plan.marks.pinned);
  if (change.recall) plan.marks.recall_off = !*change.recall;
  if (change.superseded_by) plan.marks.superseded_by = *change.superseded_by;
  return plan;
}

struct DeletionPlan {
  SessionRow row;
  TurnDeletion deletion;
  std::vector<int64_t> piece_rows;
};

// Blocking. Whose prompts held the turn, and the KV that may hold something of it: all of the
// session's, since a file is erased only when no piece of it is left.
Result<DeletionPlan> PlanDeletion(const SessionContext& context, const SessionKey& key,
                                  const TurnId& turn) {
  DeletionPlan plan;
  plan.deletion.turn = turn;
  TENUTO_ASSIGN(plan.row, context.log.FindSession(key));
  TENUTO_ASSIGN(plan.deletion.used_by, ReadUsers(context.log, plan.row, turn));
  TENUTO_ASSIGN(const auto pieces, context.log.ReadPieces(plan.row.id));
  for (const PieceRow& piece : pieces)
    plan.piece_rows.push_back(piece.id);
  return plan;
}

}  // namespace

void SessionManager::ChangeTurn(const SessionKey& key, TurnId turn, TurnChange change,
                                std::function<void(Result<TurnState>)> done) {
  InTurn([this, key, turn = std::move(turn), change = std::move(change),
          done = std::move(done)](const std::function<void()>& next) {
    const auto end = [done, next](Result<TurnState> state) {
      done(std::move(state));
      next();
    };
    const auto planned = [this, key, end](Result<ChangePlan> plan) {
      if (!plan.ok()) return end(std::move(plan).error());
      context_.writer.SetTurnMarks(
          plan->row.id, plan->marks, [this, key, marks = plan->marks, end](Status set) {
            if (const auto it = sessions_.find(key.Full()); it != sessions_.end())
              it->second->marks_stale = true;
            if (!set) return end(std::move(set).error());
            end(TurnState{marks.turn, marks.pinned, !marks.recall_off, marks.superseded_by});
          });
    };
    AnswerFromPool(
        context_, [this, key, turn, change] { return PlanChange(context_, key, turn, change); },
        planned);
  });
}

void SessionManager::InTurn(std::function<void(const std::function<void()>& next)> change) {
  changes_.push_back(std::move(change));
  if (changes_.size() == 1) ChangeNext();
}

void SessionManager::ChangeNext() {
  if (changes_.empty()) return;
  const auto change = changes_.front();
  change([this] {
    changes_.pop_front();
    ChangeNext();
  });
}

void SessionManager::DeleteTurn(const SessionKey& key, TurnId turn,
                                std::function<void(Result<TurnDeletion>)> done) {
  const SessionPtr session = FindOrAddSession(key);
  if (session->busy || session->deleting) {
    context_.core.Post([done = std::move(done), key] { done(InUse(key)); });
    return;
  }
  session->busy = true;
  WhenQuiet(session, [this, session, turn = std::move(turn), done = std::move(done)] {
    residency_.Evict(session->resident);
    residency_.Evict(session->spare);
    session->loaded = false;
    context_.pool.Post([this, session, turn, done] {
      auto plan =
          std::make_shared<Result<DeletionPlan>>(PlanDeletion(context_, session->key, turn));
      if (plan->ok()) ForgetIndex((*plan)->row.id);
      context_.core.Post([this, session, plan, done] {
        if (plan->ok())
          return EraseTurn(session, std::move((*plan)->row), (*plan)->deletion,
                           std::move((*plan)->piece_rows), done);
        done(std::move(*plan).error());
        ReleaseLease(session);
      });
    });
  });
}

void SessionManager::EraseTurn(const SessionPtr& session, const SessionRow& row,
                               const TurnDeletion& deletion, std::vector<int64_t> piece_rows,
                               const std::function<void(Result<TurnDeletion>)>& done) {
  const auto erased = [this, session, row, deletion, piece_rows = std::move(piece_rows),
                       done](Status status) mutable {
    if (!status) {
      done(std::move(status).error());
      ReleaseLease(session);
      return;
    }
    tenant_quota_.Forget(session->key.tenant);
    Log(LogLevel::kInfo, "turn.deleted",
        {{"session", session->key.Full()}, {"turn", deletion.turn.value}});
    context_.writer.DropPieces(
        row.id, std::move(piece_rows),
        [this, session, row, deletion, done](Result<std::vector<PayloadFileId>> files) {
          if (files.ok()) RemoveFiles(std::move(*files));
          // Again: a search in between may have indexed the turn once more.
          context_.pool.Post([this, session, row, deletion, done] {
            ForgetIndex(row.id);
            context_.core.Post([this, session, deletion, done] {
              done(deletion);
              ReleaseLease(session);
            });
          });
        });
  };
  context_.writer.DeleteTurn(row.id, deletion.turn, erased);
}

// Blocking. It is built again from the log.
void SessionManager::ForgetIndex(int64_t session_id) {
  if (context_.indexes == nullptr) return;
  if (const Status status = context_.indexes->Rebuild(session_id); !status)
    Log(LogLevel::kWarn, "recall.index_not_removed", {{"detail", status.error().message()}});
}

}  // namespace tenuto
