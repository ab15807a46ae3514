#include "session/quota.h"

#include <utility>

#include "tokenlog/checks.h"

namespace tenuto {
namespace {

constexpr int64_t kKnownForNs = 1'000'000'000;
constexpr size_t kTenantsKnownMax = 1024;

struct Limit {
  const char* name;  // the quota's
  const char* unit;
  uint64_t most = 0;  // 0: none
  uint64_t used = 0;
  uint64_t adds = 0;
};

Status Check(const Limit& limit, const std::string& whose, const std::string& what_to_do) {
  if (limit.most == 0 || (limit.used <= limit.most && limit.adds <= limit.most - limit.used))
    return Ok();
  return Error(Code::kExhausted, whose + " holds " + std::to_string(limit.used) + " " + limit.unit +
                                     ", and this would add " + std::to_string(limit.adds) +
                                     "; at most " + std::to_string(limit.most) + " are allowed (" +
                                     limit.name + "). " + what_to_do)
      .At("quota." + std::string(limit.name));
}

}  // namespace

QuotaUse UseOf(const TurnRequest& request, const TurnTokens& tokens, bool first) {
  QuotaUse use{.turns = 1,
               .bytes = sizeof(TokenId) * tokens.suffix.size() + request.text.size(),
               .sessions = first ? uint64_t{1} : 0};
  for (const ChatMessage& message : request.messages)
    use.bytes += message.content.size();
  return use;
}

QuotaUse UseOf(const std::vector<TurnCommit>& commits) {
  QuotaUse use;
  use.turns = commits.size();
  use.sessions = !commits.empty() && commits.front().expected_head.empty() ? 1 : 0;
  for (const TurnCommit& commit : commits)
    use.bytes += TurnBytes(commit.turn) + (commit.expected_head.empty() ? SystemBytes(commit) : 0);
  return use;
}

Status CheckSessionQuota(const SessionSettings& settings, const SessionKey& key,
                         const SessionRow* row, QuotaUse adds) {
  const std::string whose = "session " + key.Short();
  const Limit turns{"turns_max", "turns", settings.quotas.session_turns_max,
                    row != nullptr ? row->turns : 0, adds.turns};
  // A deleted turn keeps its number in the line.
  TENUTO_TRY(Check(turns, whose, "Go on in another session, delete this one, or raise the limit"));
  const Limit bytes{"bytes_max", "bytes", settings.quotas.session_bytes_max,
                    row != nullptr ? row->bytes : 0, adds.bytes};
  return Check(bytes, whose, "Delete turns of it or the session, or raise the limit");
}

Status TenantQuota::Check(const std::string& tenant, QuotaUse adds) {
  if (quotas_.tenant_turns_max == 0 && quotas_.tenant_bytes_max == 0 &&
      quotas_.tenant_sessions_max == 0)
    return Ok();
  TENUTO_ASSIGN(const TenantTotals totals, Totals(tenant));
  const std::string whose = "tenant " + tenant;
  const std::string what_to_do = "Delete turns or sessions of it, or raise the server's limit";
  const Limit turns{"tenant_turns_max", "turns", quotas_.tenant_turns_max, totals.turns,
                    adds.turns};
  TENUTO_TRY(tenuto::Check(turns, whose, what_to_do));
  const Limit bytes{"tenant_bytes_max", "bytes", quotas_.tenant_bytes_max, totals.bytes,
                    adds.bytes};
  TENUTO_TRY(tenuto::Check(bytes, whose, what_to_do));
  if (adds.sessions == 0) return Ok();
  const Limit sessions{"tenant_sessions_max", "sessions", quotas_.tenant_sessions_max,
                       totals.sessions, adds.sessions};
  return tenuto::Check(sessions, whose,
                       "Go on in one of them, delete one, or raise the server's limit");
}

Result<TenantTotals> TenantQuota::Totals(const std::string& tenant) {
  const int64_t now_ns = clock_.MonotonicNs();
  {
    const MutexLock lock(mutex_);
    const auto known = known_.find(tenant);
    if (known != known_.end() && now_ns - known->second.read_ns < kKnownForNs)
      return known->second.totals;
  }
  TENUTO_ASSIGN(TenantTotals totals, log_.TenantUse(tenant));
  const MutexLock lock(mutex_);
  if (known_.size() >= kTenantsKnownMax) known_.clear();
  known_[tenant] = {totals, now_ns};
  return totals;
}

void TenantQuota::Forget(const std::string& tenant) {
  const MutexLock lock(mutex_);
  known_.erase(tenant);
}

}  // namespace tenuto
