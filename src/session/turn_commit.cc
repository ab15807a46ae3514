// The commit of a turn, and what its answer says.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "session/items.h"
#include "session/manager.h"
#include "tokenlog/checks.h"

namespace tenuto {
namespace {

std::string FinishText(const Turn& turn, FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
    case FinishReason::kPreempted:
      return turn.stopping ? "shutdown" : "cancelled";
  }
  return "stop";
}

}  // namespace

// The cut is history now: stored KV of what lies behind it is of no use any more.
void SessionManager::AdoptCut(Turn& turn) {
  Session& session = *turn.session;
  const auto stale =
      CutChain(session.chain, KeptKv(turn), session.owner, context_.engine.info().fingerprint);
  session.stale_rows.insert(session.stale_rows.end(), stale.begin(), stale.end());
  if (session.chain.pieces.empty()) session.file = PayloadFileId{};
  counters_.turns_archived.Add(static_cast<uint64_t>(turn.outcome.trimmed_turns));
  session.window = *std::exchange(turn.cut, std::nullopt);
}

void SessionManager::FillOutcome(Turn& turn, const RunResult& result) {
  TurnOutcome& outcome = turn.outcome;
  outcome.text = turn.text;
  outcome.tokens = result.answer;
  outcome.finish_reason = FinishText(turn, result.reason);
  outcome.stop_string = result.stop_string;
  outcome.completion_tokens = static_cast<int32_t>(result.answer.size());
  outcome.times.prefill += static_cast<double>(result.times.prefill_ns) * 1e-6;
  outcome.times.decode += static_cast<double>(result.times.decode_ns) * 1e-6;
  const SessionWindow* history = turn.history();
  outcome.window_turns = history ? static_cast<int32_t>(history->turns()) + 1 : 1;
  outcome.archived_turns = history ? static_cast<int32_t>(history->archived_turns()) : 0;
  outcome.window_tokens = outcome.prompt_tokens + outcome.completion_tokens;
  outcome.window_limit = turn.settings.window_tokens;
  counters_.answer_tokens.Add(static_cast<uint64_t>(outcome.completion_tokens));
}

void SessionManager::Commit(const TurnPtr& turn, RunResult result) {
  turn->phase = TurnPhase::kCommitting;
  turn->commit_started_ns = context_.clock.MonotonicNs();
  const Session& session = *turn->session;
  TurnCommit commit;
  commit.key = session.key;
  if (session.row) commit.expected_head = session.row->head;
  commit.lease_epoch = context_.lease_epoch;
  commit.vocabulary = context_.engine.info().vocabulary;
  commit.system_json = ItemsToJson(SystemItems(turn->request.messages));
  if (turn->first) commit.head_tokens = HeadOf(turn->tokens, result.answer);
  TurnRow& row = commit.turn;
  row.id = turn->outcome.turn;
  row.parent = commit.expected_head;
  row.prompt = turn->tokens.suffix;
  row.answer = result.answer;
  row.window_first = turn->history()->first();
  row.close_tokens = turn->tokens.close_tokens;
  row.recall_json = RecordToJson(turn->recalled);
  row.items_json = TurnItemsJson(turn->request, turn->text, turn->zone_s);
  row.params_json = ParamsWithSeed(turn->request.params_json, turn->outcome.seed);
  row.finish_reason = turn->outcome.finish_reason;
  row.incomplete = turn->outcome.incomplete;
  row.idempotency_key = turn->request.idempotency_key;
  if (!row.idempotency_key.empty())
    row.outcome_json = OutcomeToJson(turn->outcome, turn->request_digest);
  row.created_unix_ms = turn->created_unix_ms;
  row.completed_unix_ms = context_.clock.UnixMs();
  turn->commit_bytes = TurnBytes(row) + (turn->first ? SystemBytes(commit) : 0);
  context_.writer.Commit(std::move(commit),
                         [this, turn, result = std::move(result)](Result<int64_t> committed) {
                           Committed(turn, result, std::move(committed));
                         });
}

void SessionManager::Committed(const TurnPtr& turn, const RunResult& result,
                               Result<int64_t> committed) {
  const SessionPtr session = turn->session;
  const int64_t now_ns = context_.clock.MonotonicNs();
  const int64_t commit_ns = now_ns - turn->commit_started_ns;
  counters_.commit_seconds.Observe(static_cast<double>(commit_ns) * 1e-9);
  turn->outcome.times.commit = static_cast<double>(commit_ns) * 1e-6;
  if (!committed.ok()) {
    // What the log holds is the truth: read it again with the next turn, and drop KV of tokens it
    // may not have.
    const bool pinned = turn->pinned;
    Unpin(*turn);
    if (pinned) residency_.Evict(session->resident);
    session->loaded = false;
    Log(LogLevel::kError, "turn.commit_failed",
        {{"turn", turn->outcome.turn.value},
         {"code", CodeName(committed.error().code())},
         {"detail", committed.error().message()}});
    Finish(turn, std::move(committed).error().With("the turn could not be stored"));
    return;
  }
  if (!session->row) {
    session->row.emplace();
    session->row->key = session->key;
    session->row->created_unix_ms = turn->created_unix_ms;
    session->row->system_json = ItemsToJson(SystemItems(turn->request.messages));
    session->row->vocabulary = context_.engine.info().vocabulary;
  }
  SessionRow& row = *session->row;
  row.id = *committed;
  row.head = turn->outcome.turn;
  row.lease_epoch = context_.lease_epoch;
  row.updated_unix_ms = context_.clock.UnixMs();
  ++row.turns;
  row.bytes += turn->commit_bytes;
  session->loaded = true;
  if (turn->cut) AdoptCut(*turn);
  if (turn->first) session->window.SetHead(HeadOf(turn->tokens, result.answer));
  session->window.Append(turn->tokens.suffix, result.answer, turn->tokens.close_tokens, turn->span);
  session->window.SetMark(turn->recalled.mark);
  row.tokens += turn->tokens.suffix.size() + result.answer.size();
  if (turn->pinned) residency_.Settle(session->resident, result.kv_end);
  Unpin(*turn);
  // The answer first: storing KV is off the response path.
  Finish(turn, turn->outcome);
  SettleKv(session);
  IndexBehind(session);
  NoteCutAhead(session);
}

}  // namespace tenuto
