// A session's own settings, and the quotas that a turn or an import must fit in.
#include <memory>
#include <utility>

#include "base/log.h"
#include "session/manager.h"
#include "session/prepare.h"

namespace tenuto {
namespace {

struct SettingsPlan {
  SessionRow row;
  SessionOverrides overrides;
};

// Blocking. What stays at the front of every window must leave room for a conversation.
Status CheckStays(const SessionContext& context, const SessionRow& row,
                  const SessionOverrides& overrides) {
  TENUTO_ASSIGN(const SessionMarks marks, LoadMarks(context.log, row));
  const SessionSettings holds = EffectiveSettings(context.settings, overrides);
  if (holds.window_tokens >= EffectiveSettings(context.settings, marks.overrides).window_tokens)
    return Ok();
  size_t stays = row.head_tokens.size();
  for (const PinnedTurn& pinned : marks.pins)
    stays += pinned.tokens.size();
  const auto most = static_cast<size_t>(holds.Limits(std::nullopt).stays_tokens());
  if (stays <= most) return Ok();
  return Error(Code::kInvalid,
               "'window.tokens' is too small: the session's system prompt and "
               "pinned turns have " +
                   std::to_string(stays) + " tokens, and at most " + std::to_string(most) +
                   ", 40 % of a window of " + std::to_string(holds.window_tokens) +
                   ", may stay in it for good")
      .At("window.tokens");
}

// Blocking.
Result<SettingsPlan> PlanSettings(const SessionContext& context, const SessionKey& key,
                                  const SettingsPatch& patch) {
  SettingsPlan plan;
  TENUTO_ASSIGN(plan.row, context.log.FindSession(key));
  TENUTO_ASSIGN(auto before, OverridesFromJson(plan.row.settings_json));
  TENUTO_ASSIGN(plan.overrides, PatchSettings(std::move(before), patch, context.settings));
  TENUTO_TRY(CheckStays(context, plan.row, plan.overrides));
  return plan;
}

}  // namespace

SessionSettings SessionManager::SettingsOf(const Session& session) const {
  return EffectiveSettings(context_.settings, session.marks.overrides);
}

void SessionManager::ChangeSettings(const SessionKey& key, const SettingsPatch& patch,
                                    std::function<void(Result<SessionInfo>)> done) {
  InTurn([this, key, patch, done = std::move(done)](const std::function<void()>& next) {
    const auto end = [done, next](Result<SessionInfo> info) {
      done(std::move(info));
      next();
    };
    const auto planned = [this, key, end](Result<SettingsPlan> plan) {
      if (!plan.ok()) return end(std::move(plan).error());
      context_.writer.SetSessionSettings(plan->row.id, OverridesToJson(plan->overrides),
                                         [this, key, plan, end](Status status) {
                                           if (!status) return end(std::move(status).error());
                                           SettingsChanged(plan->row, plan->overrides);
                                           Get(key, end);
                                         });
    };
    AnswerFromPool(
        context_, [this, key, patch] { return PlanSettings(context_, key, patch); }, planned);
  });
}

void SessionManager::SettingsChanged(const SessionRow& row, const SessionOverrides& overrides) {
  expiry_.Note(row.updated_unix_ms, EffectiveSettings(context_.settings, overrides).ttl_s);
  const auto it = sessions_.find(row.key.Full());
  if (it == sessions_.end()) return;
  const SessionPtr session = it->second;
  // A turn that is being prepared may have read the old ones, and adopt them now.
  session->marks_stale = true;
  if (session->busy || !session->loaded || !session->row || session->row->id != row.id) return;
  session->marks.overrides = overrides;
  NoteCutAhead(session);
  CutAhead();
}

Status SessionManager::CheckQuota(const Turn& turn) {
  const Session& session = *turn.session;
  Status fits = CheckSessionQuota(turn.settings, session.key, session.row ? &*session.row : nullptr,
                                  UseOf(turn.request, turn.tokens, turn.first));
  if (!fits) counters_.quota_refusals.Add();
  return fits;
}

// Blocking.
Status SessionManager::CheckTenantQuota(const std::string& tenant, QuotaUse adds) {
  Status fits = tenant_quota_.Check(tenant, adds);
  if (!fits && fits.error().code() == Code::kExhausted) counters_.quota_refusals.Add();
  return fits;
}

// Blocking.
Status SessionManager::CheckImportQuota(const LoadedSession& loaded, const ImportPlan& plan) {
  const QuotaUse adds = UseOf(plan.commits);
  const SessionKey& key = plan.outcome.session;
  Status fits = CheckSessionQuota(EffectiveSettings(context_.settings, loaded.marks.overrides), key,
                                  loaded.row ? &*loaded.row : nullptr, adds);
  if (!fits) {
    counters_.quota_refusals.Add();
    return fits;
  }
  // Thousands of turns at once: what was read a moment ago does not do, before or after.
  tenant_quota_.Forget(key.tenant);
  fits = CheckTenantQuota(key.tenant, adds);
  tenant_quota_.Forget(key.tenant);
  return fits;
}

}  // namespace tenuto
