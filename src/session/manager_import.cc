// Turns from elsewhere, on their way from items to the log.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "session/import.h"
#include "session/manager.h"

namespace tenuto {
namespace {

// Between two slices whoever else waits for the pool has a turn.
constexpr size_t kSliceTurns = 64;
constexpr int kLanes = 2;

// The texts of a draft become tokens slice by slice, several at a time: with a real vocabulary that
// is nine tenths of an import.
class Tokenizing : public std::enable_shared_from_this<Tokenizing> {
 public:
  using Done = std::function<void(Result<ImportDraft>)>;

  Tokenizing(const SessionContext& context, ImportDraft draft, Done done)
      : context_(context),
        draft_(std::move(draft)),
        slices_((draft_.turns.size() + kSliceTurns - 1) / kSliceTurns, Ok()),
        done_(std::move(done)) {}

  // `done` comes on the pool.
  void Start() {
    for (int i = 0; i < kLanes; ++i)
      Post();
  }

 private:
  void Post() {
    context_.pool.Post([self = shared_from_this()] { self->Step(); });
  }

  void Step() {
    const size_t slice = next_.fetch_add(1);
    if (slice >= slices_.size() || failed_) {
      if (open_lanes_.fetch_sub(1) == 1) Finish();
      return;
    }
    const size_t begin = slice * kSliceTurns;
    const size_t end = std::min(begin + kSliceTurns, draft_.turns.size());
    slices_[slice] = TokenizeDraft(context_, draft_, begin, end);
    if (!slices_[slice]) failed_ = true;
    Post();
  }

  // Slices begin in order, so the first that failed is the first of all that would have.
  void Finish() {
    for (Status& slice : slices_)
      if (!slice) return done_(std::move(slice).error());
    done_(std::move(draft_));
  }

  const SessionContext& context_;
  ImportDraft draft_;
  std::vector<Status> slices_;
  const Done done_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<int> open_lanes_{kLanes};
};

}  // namespace

void SessionManager::Import(const SessionKey& key, std::vector<ImportItem> items,
                            std::function<void(Result<ImportOutcome>)> done, ImportKey once) {
  const SessionPtr session = FindOrAddSession(key);
  if (session->busy || session->deleting) {
    context_.core.Post([done = std::move(done), key] { done(InUse(key)); });
    return;
  }
  session->busy = true;
  // On the pool; `planned` takes it back to the core.
  const auto planned = [this, session, done = std::move(done)](Result<ImportPlan> plan) {
    auto shared = std::make_shared<Result<ImportPlan>>(std::move(plan));
    context_.core.Post(
        [this, session, shared, done] { CommitImport(session, std::move(*shared), done); });
  };
  context_.pool.Post(
      [this, session, items = std::move(items), planned, once = std::move(once)]() mutable {
        auto loaded = std::make_shared<Result<LoadedSession>>(LoadSession(context_, session->key));
        if (!loaded->ok()) return planned(loaded->error());
        if ((*loaded)->row) {
          const auto before = FindImport(context_.log, *(*loaded)->row, once);
          if (!before) return planned(before.error());
          if (*before) return planned(ImportPlan{{}, **before});
        }
        auto draft = DraftImport((*loaded)->row, std::move(items));
        if (!draft) return planned(std::move(draft).error());
        const auto tokenized = [this, session, loaded, planned, once](Result<ImportDraft> tokens) {
          planned(FinishImport(session->key, **loaded, std::move(tokens), once));
        };
        std::make_shared<Tokenizing>(context_, std::move(*draft), tokenized)->Start();
      });
}

// Blocking.
Result<ImportPlan> SessionManager::FinishImport(const SessionKey& key, const LoadedSession& loaded,
                                                Result<ImportDraft> draft, const ImportKey& once) {
  if (!draft) return std::move(draft).error();
  TENUTO_ASSIGN(ImportPlan plan, PlanImport(context_, key, loaded, std::move(*draft)));
  KeepKey(plan, once);
  TENUTO_TRY(CheckImportQuota(loaded, plan));
  return plan;
}

void SessionManager::CommitImport(const SessionPtr& session, Result<ImportPlan> plan,
                                  std::function<void(Result<ImportOutcome>)> done) {
  if (!plan.ok() || plan->outcome.replayed) {
    done(plan.ok() ? Result<ImportOutcome>(plan->outcome)
                   : Result<ImportOutcome>(std::move(plan).error()));
    ReleaseLease(session);
    return;
  }
  context_.writer.CommitAll(
      std::move(plan->commits), [this, session, outcome = plan->outcome,
                                 done = std::move(done)](const Result<int64_t>& committed) {
        WhenQuiet(session, [this, session, outcome, done, committed] {
          // The log is the truth: the next turn reads it, and finds what stored KV still fits.
          session->loaded = false;
          residency_.Evict(session->resident);
          residency_.Evict(session->spare);
          if (committed.ok()) {
            done(outcome);
          } else {
            done(Error(committed.error()).With("the items could not be stored"));
          }
          ReleaseLease(session);
        });
      });
}

}  // namespace tenuto
