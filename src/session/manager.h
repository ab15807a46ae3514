// Takes turns through a session: lease, preparation, restore, run, commit, and the storing of KV
// behind the answer. Also requests without a session, which leave nothing. When a turn may start is
// decided above, in schedule/. Everything here runs on the core runner and never blocks; see
// context.h for what blocks where. Destroy it only after the runners of its context have stopped.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/buffer_pool.h"
#include "session/context.h"
#include "session/counters.h"
#include "session/expiry.h"
#include "session/import.h"
#include "session/quota.h"
#include "session/residency.h"
#include "session/turn.h"
#include "session/turn_types.h"

namespace tenuto {

struct RestoreResult;

// What the scheduler wants to hear. All on the core runner, never from within a call it made.
struct TurnEvents {
  std::function<void(TurnPtr)> on_ready;      // prepared: may be admitted
  std::function<void(TurnPtr)> on_preempted;  // off the engine again, prepared: may be admitted
  std::function<void(TurnPtr)> on_finished;   // sink.on_done was called; room may have become free
  std::function<void()> on_room;  // something idle can be evicted that could not be before
};

class SessionManager {
 public:
  explicit SessionManager(SessionContext context);
  ~SessionManager();
  SessionManager(const SessionManager&) = delete;
  SessionManager& operator=(const SessionManager&) = delete;

  void SetEvents(TurnEvents events) { events_ = std::move(events); }
  const SessionContext& context() const { return context_; }

  // The turn waits for its session's lease and is prepared. Ends in on_ready or on_finished.
  void Begin(const TurnPtr& turn);
  // What a turn that waits would compute if it were admitted now, as far as that is known: prompt
  // tokens without KV, and its answer, of which no more than the reserve counts. At least 1.
  int64_t TokensToCompute(const Turn& turn) const;
  // Gives a ready turn its sequence and cells. False: no room now. May evict idle ones.
  bool Admit(const TurnPtr& turn);
  // REQUIRES: admitted. Ends in on_finished or on_preempted.
  void Run(const TurnPtr& turn);
  // At any time: the turn ends as soon as it can. With `stopping` it is the server that ends it.
  void Cancel(const TurnPtr& turn, bool stopping);
  // The turn does not run and ends with `why`. REQUIRES: it was not admitted yet.
  void Refuse(const TurnPtr& turn, Error why);
  // Takes a running turn off the engine; it comes back by on_preempted.
  void Preempt(const TurnPtr& turn);

  Residency& residency() { return residency_; }
  void List(const std::string& tenant, const std::string& user, const std::string& after,
            size_t limit, std::function<void(Result<SessionListing>)> done);
  void Get(const SessionKey& key, std::function<void(Result<SessionInfo>)> done);
  // kNotFound: no such session, or `after` names no turn of it.
  void GetTurns(const SessionKey& key, TurnPageRequest page,
                std::function<void(Result<TurnPage>)> done);
  // The next turns of a line, so few that they may lie in memory. What is committed meanwhile is of
  // a later line. kNotFound: no such session, or not that line any more.
  void ReadLine(const SessionKey& key, LineCursor from, std::function<void(Result<LinePage>)> done);
  // Adds turns without running the model. kConflict while a turn holds the lease; else as
  // PlanImport and the log say. All or, where another writer came in between, a part of them.
  void Import(const SessionKey& key, std::vector<ImportItem> items,
              std::function<void(Result<ImportOutcome>)> done, ImportKey once = {});
  // kNotFound: no such session. Of a user: sessions without archived turns are searched as well.
  void Search(MemorySearch search, std::function<void(Result<MemoryAnswer>)> done);
  // kNotFound: no such session or turn.
  void Explain(const SessionKey& key, TurnId turn,
               std::function<void(Result<TurnExplanation>)> done);
  // The prompt of a turn, without what it held of turn `without` (empty: all). kNotFound likewise;
  // kInvalid: `without` was not in it.
  void ReadPrompt(const SessionKey& key, TurnId turn, TurnId without,
                  std::function<void(Result<TurnPrompt>)> done);
  // kInvalid: pinned turns and the system prompt would pass 40 % of the window. Takes effect with
  // the next cut (pins), the next turn (the others).
  void ChangeTurn(const SessionKey& key, TurnId turn, TurnChange change,
                  std::function<void(Result<TurnState>)> done);
  // The turn's items and tokens go, from the window as well. kConflict while a turn holds the
  // lease.
  void DeleteTurn(const SessionKey& key, TurnId turn,
                  std::function<void(Result<TurnDeletion>)> done);
  // kConflict while a turn holds the lease.
  void Delete(const SessionKey& key, std::function<void(Status)> done);
  // In effect with the next turn. kInvalid as PatchSettings, or what stays in the window for good
  // would fill it. kNotFound.
  void ChangeSettings(const SessionKey& key, const SettingsPatch& patch,
                      std::function<void(Result<SessionInfo>)> done);
  // One pass over sessions that nobody used for long: deletes those whose time to live is over, a
  // bounded number, none with a turn in progress. True: there may be more to do at once.
  void SweepExpired(std::function<void(bool)> done);

  // Told by the scheduler: nothing runs or waits (any more). Idle time is used for cuts ahead.
  void SetIdle(bool idle);
  // Calls back when no KV is being stored or computed ahead any more.
  void WhenSettled(std::function<void()> done);
  // Leases, pins and promises add up: for tests and for debugging. REQUIRES: nothing runs.
  bool CheckIdle() const;

 private:
  // Lease and preparation (manager.cc).
  SessionPtr FindOrAddSession(const SessionKey& key);
  void StartPreparing(const TurnPtr& turn);
  void PreparedOn(const TurnPtr& turn, Result<Prepared> prepared);
  Status Plan(const TurnPtr& turn, Prepared prepared);
  void AdoptLoaded(Session& session, LoadedSession loaded);
  void AdoptMarks(Session& session, SessionMarks marks);
  void ReleaseLease(const SessionPtr& session);
  void Finish(const TurnPtr& turn, Result<TurnOutcome> outcome);
  void ForgetIdleSessions();
  void WhenQuiet(const SessionPtr& session, std::function<void()> task);
  void OverlayLive(SessionInfo& info) const;
  Result<ImportPlan> FinishImport(const SessionKey& key, const LoadedSession& loaded,
                                  Result<ImportDraft> draft, const ImportKey& once);
  void CommitImport(const SessionPtr& session, Result<ImportPlan> plan,
                    std::function<void(Result<ImportOutcome>)> done);
  // Read, changed and written one after the other: two changes at once lose nothing.
  void InTurn(std::function<void(const std::function<void()>& next)> change);
  void ChangeNext();
  void EraseTurn(const SessionPtr& session, const SessionRow& row, const TurnDeletion& deletion,
                 std::vector<int64_t> piece_rows,
                 const std::function<void(Result<TurnDeletion>)>& done);
  void ForgetIndex(int64_t session_id);
  void RemoveIndex(int64_t session_id);
  // `unchanged_since`: only if it was last updated then, else kConflict.
  void DeleteIf(const SessionKey& key, std::optional<int64_t> unchanged_since,
                std::function<void(Status)> done);
  static Error InUse(const SessionKey& key);
  void DeletedOn(const SessionPtr& session, Result<std::vector<PayloadFileId>> files,
                 const std::function<void(Status)>& done);

  // True, and the turn is finished: its client is gone, the server stops, or it is refused.
  bool EndedEarly(const TurnPtr& turn);
  static Error EarlyEnd(const Turn& turn);  // why

  // Settings and limits (manager_settings.cc).
  SessionSettings SettingsOf(const Session& session) const;
  Status CheckQuota(const Turn& turn);
  Status CheckImportQuota(const LoadedSession& loaded, const ImportPlan& plan);
  Status CheckTenantQuota(const std::string& tenant, QuotaUse adds);
  void SettingsChanged(const SessionRow& row, const SessionOverrides& overrides);
  void AdoptSweep(const ExpiryPage& page);
  void DeleteDue(std::shared_ptr<ExpiryPage> page, size_t next, std::function<void(bool)> done);

  // What is quoted in the prompt (turn_recall.cc).
  void Recall(const TurnPtr& turn);
  int32_t RecallRoom(const Turn& turn, const SessionWindow& window) const;
  void ChosenOn(const TurnPtr& turn, Result<RecallChoice> choice, bool strip);
  void RecalledNothing(const TurnPtr& turn, const char* decision);
  void Recalled(const TurnPtr& turn);
  void IndexBehind(const SessionPtr& session);

  // Admission and run (turn_run.cc).
  bool AdmitAnonymous(const TurnPtr& turn, TokenPos end);
  void RestoreSession(const TurnPtr& turn);
  void RestoredOn(const TurnPtr& turn, TokenPos live, RestoreResult result);
  void CopyPrefixThenStart(const TurnPtr& turn);
  void StartAfterShared(const TurnPtr& turn, TokenPos shared);
  void Start(const TurnPtr& turn, TokenPos begin);
  RunListener ListenerFor(const TurnPtr& turn);
  void RunDone(const TurnPtr& turn, Result<RunResult> result);
  void EndWithoutCommit(const TurnPtr& turn, TokenPos kv_end, Result<TurnOutcome> outcome);
  void Unpin(Turn& turn);
  void Unpin(Resident& resident);
  void EndPreempted(const TurnPtr& turn, TokenPos kv_end);
  std::vector<TokenId> WindowOf(const Turn& turn) const;
  int32_t WindowSize(const Turn& turn) const;
  TokenPos KeptKv(const Turn& turn) const;
  int32_t MaxNewTokens(const Turn& turn) const;
  struct PromptKv {
    TokenPos known = 0;  // tokens of the prompt that were computed once: a session's history, or
                         // what is live of a request without one
    TokenPos reused = 0;
    TokenPos restored = 0;
  };
  void AccountPrompt(Turn& turn, const PromptKv& kv, const std::vector<KvReason>& lost);

  // Commit and settling (turn_commit.cc, settle.cc).
  void Commit(const TurnPtr& turn, RunResult result);
  void Committed(const TurnPtr& turn, const RunResult& result, Result<int64_t> committed);
  void FillOutcome(Turn& turn, const RunResult& result);
  void AdoptCut(Turn& turn);
  void SettlingEnded();
  void SettleKv(const SessionPtr& session);
  void ExportedOn(const SessionPtr& session, Result<std::vector<ExportedPiece>> exported);
  void PiecesStored(const SessionPtr& session, Result<std::vector<PieceRow>> rows);
  void RowsAdded(const SessionPtr& session, std::vector<PieceRow> rows,
                 Result<std::vector<int64_t>> ids);
  void Settled(const SessionPtr& session);
  void DropStaleRows(const SessionPtr& session);
  void RemoveFiles(std::vector<PayloadFileId> files);

  // Ahead of a cut (cut_ahead.cc).
  void NoteCutAhead(const SessionPtr& session);
  void CutAhead();
  void StartCutAhead(const SessionPtr& session);
  void CutAheadDone(const SessionPtr& session, const Result<RunResult>& result);
  TokenPos TakeCutAhead(Turn& turn, TokenPos end);

  SessionContext context_;
  TurnEvents events_;
  Residency residency_;
  std::shared_ptr<BufferPool> buffers_;
  std::optional<RecallMemory> recall_;  // none: nothing is recalled
  TenantQuota tenant_quota_;
  SessionCounters counters_;
  std::map<std::string, SessionPtr> sessions_;  // by SessionKey::Full
  std::list<AnonymousPtr> anonymous_;
  // See InTurn.
  std::deque<std::function<void(const std::function<void()>& next)>> changes_;
  std::list<SessionPtr> cuts_ahead_;  // sessions that a cut is near for
  SessionPtr cutting_ahead_;          // the one that is computed now
  ExpiryState expiry_;
  bool idle_ = false;
  int32_t settling_ = 0;  // sessions whose KV is stored or computed ahead
  std::vector<std::function<void()>> when_settled_;
};

}  // namespace tenuto
