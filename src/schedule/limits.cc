#include "schedule/limits.h"

#include <algorithm>
#include <utility>

namespace tenuto {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

struct LimitName {
  const char* field;  // of the refusal
  const char* label;
};
constexpr std::array<LimitName, 4> kNames = {{
    {"queue", "limit=\"queue\""},
    {"limit.tenant_turns_queued", "limit=\"tenant_turns_queued\""},
    {"limit.tenant_tokens_per_minute", "limit=\"tenant_tokens_per_minute\""},
    {"limit.queue_timeout", "limit=\"queue_timeout\""},
}};

size_t IndexOf(const TurnRequest& request) {
  return static_cast<size_t>(request.priority);
}

}  // namespace

TurnLimits::TurnLimits(const TurnLimitSettings& settings, const Admission& admission, Clock& clock,
                       Metrics& metrics)
    : settings_([&settings] {
        TurnLimitSettings s = settings;
        if (s.tenant_turns_queued_max == 0)
          s.tenant_turns_queued_max = std::max<size_t>(1, s.turns_queued_max / 2);
        return s;
      }()),
      admission_(admission),
      clock_(clock),
      budget_(settings.tenant_tokens_per_minute) {
  static_assert(kNames.size() == kLimits);
  for (size_t i = 0; i < kNames.size(); ++i)
    refused_[i] = &metrics.GetCounter("tenuto_turns_refused_total", "Turns refused, by limit",
                                      kNames[i].label);
  const char* const help = "Turns that wait for a place in the engine, by priority";
  queued_ = {&metrics.GetGauge("tenuto_turns_queued", help, "priority=\"interactive\""),
             &metrics.GetGauge("tenuto_turns_queued", help, "priority=\"batch\"")};
}

Error TurnLimits::Refused(Limit limit, const std::string& why, int64_t seconds) {
  refused_[limit]->Add();
  return Error(Code::kExhausted, why + "; try again in " + std::to_string(seconds) + " s")
      .At(kNames[limit].field)
      .RetryAfter(seconds);
}

size_t TurnLimits::WaitingOf(const std::string& tenant) const {
  const auto open = open_tenants_.find(tenant);
  return open == open_tenants_.end() ? 0 : open->second - admission_.admitted(tenant);
}

Status TurnLimits::Accept(const TurnRequest& request) {
  const std::string tenant = FlowOf(request).tenant;
  const AdmissionPace& pace = admission_.pace();
  const int64_t now_ns = clock_.MonotonicNs();
  // While a place is free it need not be queued.
  const auto places = static_cast<size_t>(admission_.turns_running_max());
  if (open_all_ >= settings_.turns_queued_max + places)
    return Refused(kQueue, "too many turns are waiting", pace.SecondsFor(1, now_ns));
  if (const size_t waiting = WaitingOf(tenant); waiting >= settings_.tenant_turns_queued_max)
    return Refused(kTenantQueue,
                   "tenant " + tenant + " has " + std::to_string(waiting) +
                       " turns waiting, as many as it may (tenant-turns-queued)",
                   // Tenants take turns.
                   pace.SecondsFor(open_tenants_.size(), now_ns));
  // What a key stands for may be answered already, which costs nothing; if not, see Charge.
  if (request.idempotency_key.empty()) TENUTO_TRY(CheckBudget(tenant));
  ++open_all_;
  ++open_[IndexOf(request)];
  ++open_tenants_[tenant];
  return Ok();
}

Status TurnLimits::CheckBudget(const std::string& tenant) {
  const int64_t wait_ns = budget_.WaitNs(tenant, clock_.MonotonicNs());
  if (wait_ns == 0) return Ok();
  return Refused(kTenantTokens,
                 "tenant " + tenant + " has used up its " +
                     std::to_string(settings_.tenant_tokens_per_minute) +
                     " tokens a minute (tenant-tokens-per-minute)",
                 wait_ns / kSecondNs + 1);
}

Status TurnLimits::Charge(Turn& turn, int64_t tokens) {
  const std::string tenant = FlowOf(turn.request).tenant;
  TENUTO_TRY(CheckBudget(tenant));
  turn.charged_tokens = tokens;
  budget_.Charge(tenant, tokens, clock_.MonotonicNs());
  return Ok();
}

Error TurnLimits::TimedOut() {
  return Refused(kTimeout,
                 "the turn waited " + std::to_string(settings_.queue_timeout_s) +
                     " s for a place, as long as it may (queue-timeout)",
                 admission_.pace().SecondsFor(admission_.waiting() + 1, clock_.MonotonicNs()));
}

void TurnLimits::Ended(const Turn& turn) {
  const std::string tenant = FlowOf(turn.request).tenant;
  budget_.Charge(tenant, TokensComputed(turn) - turn.charged_tokens, clock_.MonotonicNs());
  --open_all_;
  --open_[IndexOf(turn.request)];
  if (--open_tenants_.at(tenant) == 0) open_tenants_.erase(tenant);
  CountQueued();
}

void TurnLimits::CountQueued() {
  for (const TurnPriority priority : {TurnPriority::kInteractive, TurnPriority::kBatch}) {
    const auto i = static_cast<size_t>(priority);
    queued_[i]->Set(static_cast<int64_t>(open_[i] - admission_.running(priority)));
  }
}

}  // namespace tenuto
