// Whether a session or a tenant has room for more turns. Refusals are kExhausted, `At` the quota
// as "quota.turns_max", with use, limit and what to do.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "io/clock.h"
#include "session/context.h"
#include "session/turn_types.h"
#include "session/window.h"
#include "tokenlog/log.h"

namespace tenuto {

// What a turn or an import adds. Of a turn the answer is not known before it runs: it may take a
// session past its bytes once.
struct QuotaUse {
  uint64_t turns = 0;
  uint64_t bytes = 0;
  uint64_t sessions = 0;
};

// `first`: the session is not there yet.
QuotaUse UseOf(const TurnRequest& request, const TurnTokens& tokens, bool first);
// All that an import adds.
QuotaUse UseOf(const std::vector<TurnCommit>& commits);

// `row` is null for a session that is not there yet. Pure.
Status CheckSessionQuota(const SessionSettings& settings, const SessionKey& key,
                         const SessionRow* row, QuotaUse adds);

// A tenant's totals, read from the log at most once a second: turns that start within it may pass
// the quota together. Thread-safe; the log and the clock outlive it.
class TenantQuota {
 public:
  TenantQuota(TokenLog& log, Clock& clock, const Quotas& quotas)
      : log_(log), clock_(clock), quotas_(quotas) {}

  // Blocking. Errors of the log too.
  Status Check(const std::string& tenant, QuotaUse adds);
  // Something of the tenant was deleted or added at once: the next Check reads the log.
  void Forget(const std::string& tenant);

 private:
  struct Known {
    TenantTotals totals;
    int64_t read_ns = 0;
  };
  Result<TenantTotals> Totals(const std::string& tenant);

  TokenLog& log_;
  Clock& clock_;
  const Quotas quotas_;
  Mutex mutex_;
  std::map<std::string, Known> known_ TENUTO_GUARDED_BY(mutex_);
};

}  // namespace tenuto
