// Limits on turns that wait, and on what a tenant may compute. Refusals are kExhausted with
// RetryAfter, At "queue" or "limit.NAME", NAME being the setting. Knows how many turns of whom are
// open; belongs to the core runner.
//
// tenant-turns-running is not here: a turn over it waits (admission.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/limits.h"
#include "base/metrics.h"
#include "base/result.h"
#include "io/clock.h"
#include "schedule/admission.h"
#include "schedule/token_budget.h"

namespace tenuto {

struct TurnLimitSettings {
  size_t turns_queued_max = kTurnQueueMax;
  size_t tenant_turns_queued_max = 0;    // 0: half of turns_queued_max
  int64_t tenant_tokens_per_minute = 0;  // 0: no limit
  int64_t queue_timeout_s = 0;           // 0: no limit
};

class TurnLimits {
 public:
  // All outlive it.
  TurnLimits(const TurnLimitSettings& settings, const Admission& admission, Clock& clock,
             Metrics& metrics);

  // A new turn. Ok: it is open from now on.
  Status Accept(const TurnRequest& request);
  // It is ready and will compute so many tokens, which its tenant is charged.
  Status Charge(Turn& turn, int64_t tokens);
  // It waited for the queue-timeout.
  Error TimedOut();
  // It has ended. Its tenant is charged with what it did compute.
  void Ended(const Turn& turn);

  // Sets the gauges of turns that wait; after each change of Admission.
  void CountQueued();

 private:
  enum Limit { kQueue, kTenantQueue, kTenantTokens, kTimeout, kLimits };

  Error Refused(Limit limit, const std::string& why, int64_t seconds);
  Status CheckBudget(const std::string& tenant);
  size_t WaitingOf(const std::string& tenant) const;

  const TurnLimitSettings settings_;
  const Admission& admission_;
  Clock& clock_;
  std::array<Counter*, kLimits> refused_;
  std::array<Gauge*, 2> queued_;  // by priority
  TokenBudget budget_;
  size_t open_all_ = 0;
  std::array<size_t, 2> open_{};                // by priority
  std::map<std::string, size_t> open_tenants_;  // by tenant
};

}  // namespace tenuto
