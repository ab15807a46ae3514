#include "session/expiry.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "session/manager.h"
#include "session/session_settings.h"

namespace tenuto {
namespace {

// So often at least all idle sessions are looked at again: the clock may have been set back.
constexpr int64_t kStartAgainMs = 3'600'000;
constexpr int64_t kBusyAgainMs = 60'000;

int64_t DueTime(int64_t updated_unix_ms, uint64_t ttl_s) {
  return updated_unix_ms + static_cast<int64_t>(ttl_s) * 1000;
}

}  // namespace

void ExpiryState::Note(int64_t updated_unix_ms, uint64_t ttl_s) {
  if (ttl_s == 0) return;
  shortest_ttl_s = shortest_ttl_s == 0 ? ttl_s : std::min(shortest_ttl_s, ttl_s);
  next_due_unix_ms = std::min(next_due_unix_ms, DueTime(updated_unix_ms, ttl_s));
}

bool ExpiryState::BeginPass(int64_t now_unix_ms) {
  if (sweeping || (all_known && shortest_ttl_s == 0)) return false;
  if (now_unix_ms >= next_due_unix_ms) {
    reached = {};
    next_due_unix_ms = now_unix_ms + kStartAgainMs;
  }
  return true;
}

int64_t ExpiryState::IdleBefore(int64_t now_unix_ms) const {
  // Those of this very moment stay in front of the place that is reached.
  if (!all_known) return now_unix_ms;
  return now_unix_ms - static_cast<int64_t>(shortest_ttl_s) * 1000 + 1;
}

ExpiryPage JudgeIdle(const SessionSettings& server, const ExpiryState& before,
                     const std::vector<SessionRow>& rows, int64_t now_unix_ms) {
  ExpiryPage page;
  page.state = before;
  page.more = rows.size() >= kSweepRowsMax;
  for (const SessionRow& row : rows) {
    if (page.due.size() == kSweepDeletesMax) {
      page.more = true;
      return page;
    }
    page.state.reached = {row.updated_unix_ms, row.id};
    const auto own = OverridesFromJson(row.settings_json);
    if (!own.ok()) continue;  // perhaps it was to live longer
    const uint64_t ttl_s = EffectiveSettings(server, *own).ttl_s;
    if (ttl_s > 0 && DueTime(row.updated_unix_ms, ttl_s) <= now_unix_ms) {
      page.due.push_back({row.key, row.updated_unix_ms});
    } else {
      page.state.Note(row.updated_unix_ms, ttl_s);
    }
  }
  page.state.all_known = page.state.all_known || !page.more;
  return page;
}

void SessionManager::SweepExpired(std::function<void(bool)> done) {
  const int64_t now_ms = context_.clock.UnixMs();
  if (!expiry_.BeginPass(now_ms)) {
    context_.core.Post([done = std::move(done)] { done(false); });
    return;
  }
  expiry_.sweeping = true;
  context_.pool.Post([this, state = expiry_, now_ms, done = std::move(done)] {
    auto page = std::make_shared<ExpiryPage>();
    page->state = state;
    const auto rows =
        context_.log.ListIdleSessions(state.IdleBefore(now_ms), kSweepRowsMax, state.reached);
    if (rows.ok()) {
      *page = JudgeIdle(context_.settings, state, *rows, now_ms);
    } else {
      Log(LogLevel::kWarn, "sweep.failed", {{"detail", rows.error().message()}});
    }
    context_.core.Post([this, page, done] {
      AdoptSweep(*page);
      DeleteDue(page, 0, done);
    });
  });
}

// Settings may have been changed while the page was read.
void SessionManager::AdoptSweep(const ExpiryPage& page) {
  const ExpiryState changed = std::exchange(expiry_, page.state);
  expiry_.next_due_unix_ms = std::min(expiry_.next_due_unix_ms, changed.next_due_unix_ms);
  if (changed.shortest_ttl_s > 0)
    expiry_.shortest_ttl_s = expiry_.shortest_ttl_s == 0
                                 ? changed.shortest_ttl_s
                                 : std::min(expiry_.shortest_ttl_s, changed.shortest_ttl_s);
}

void SessionManager::DeleteDue(std::shared_ptr<ExpiryPage> page, size_t next,
                               std::function<void(bool)> done) {
  if (next == page->due.size()) {
    expiry_.sweeping = false;
    done(page->more);
    return;
  }
  const ExpiryPage::Due& due = page->due[next];
  DeleteIf(due.key, due.updated_unix_ms, [this, page, next, done](const Status& status) {
    const SessionKey& key = page->due[next].key;
    if (status.ok()) {
      counters_.sessions_expired.Add();
      Log(LogLevel::kInfo, "session.expired", {{"session", key.Full()}});
    } else if (status.error().code() != Code::kNotFound) {
      // In use, or the disk failed: looked at again.
      expiry_.next_due_unix_ms =
          std::min(expiry_.next_due_unix_ms, context_.clock.UnixMs() + kBusyAgainMs);
    }
    DeleteDue(page, next + 1, done);
  });
}

}  // namespace tenuto
