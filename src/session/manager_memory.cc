// What is asked of sessions' memory apart from turns: search, what a turn's prompt was.
#include <algorithm>
#include <memory>
#include <utility>

#include "session/manager.h"
#include "session/prepare.h"
#include "session/stored_prompt.h"

namespace tenuto {
namespace {

constexpr size_t kSessionsSearchedMax = 1000;  // of one user, in the order of their names

void Merge(MemoryAnswer& all, MemoryAnswer one, size_t limit) {
  // "injected" before "gated" before "empty".
  if (all.decision.empty() || all.decision == "empty" || one.decision == "injected")
    all.decision = one.decision;
  std::ranges::move(one.hits, std::back_inserter(all.hits));
  std::ranges::stable_sort(all.hits, std::ranges::greater(), &MemoryHit::score);
  if (all.hits.size() > limit) all.hits.resize(limit);
}

Result<MemoryAnswer> SearchOne(const SessionContext& context, RecallMemory& recall,
                               const SessionRow& row, const MemorySearch& search) {
  const int64_t now_unix_ms = context.clock.UnixMs();
  TENUTO_ASSIGN(const SessionOverrides own, OverridesFromJson(row.settings_json));
  const int32_t zone_s =
      EffectiveSettings(context.settings, own).ZoneAt(search.timezone, now_unix_ms);
  return recall.Search(row, OwnerDigest(row.key), search, now_unix_ms, zone_s);
}

Result<MemoryAnswer> SearchAll(const SessionContext& context, RecallMemory& recall,
                               const MemorySearch& search) {
  MemoryAnswer all;
  const auto page = context.log.ListSessions(search.tenant, search.user, "", kSessionsSearchedMax);
  if (!page.ok()) return page.error();
  for (const SessionRow& row : page->sessions) {
    if (row.turns == 0) continue;
    TENUTO_ASSIGN(MemoryAnswer one, SearchOne(context, recall, row, search));
    Merge(all, std::move(one), search.limit);
  }
  if (all.decision.empty()) all.decision = "empty";
  return all;
}

Result<StoredPrompt> PromptOf(const SessionContext& context, const SessionKey& key,
                              const TurnId& turn, const TurnId& without, SessionRow& row) {
  TENUTO_ASSIGN(row, context.log.FindSession(key));
  TENUTO_TRY(CheckVocabulary(context, row));
  return ReadStoredPrompt(context.log, TokenizerOf(context.engine), row, turn, without);
}

}  // namespace

void SessionManager::Search(MemorySearch search, std::function<void(Result<MemoryAnswer>)> done) {
  if (!recall_) {
    context_.core.Post([done = std::move(done)] {
      done(Error(Code::kUnavailable, "this server keeps no index to search"));
    });
    return;
  }
  AnswerFromPool(
      context_,
      [this, search = std::move(search)]() -> Result<MemoryAnswer> {
        if (!search.session) return SearchAll(context_, *recall_, search);
        TENUTO_ASSIGN(const SessionRow row, context_.log.FindSession(*search.session));
        return SearchOne(context_, *recall_, row, search);
      },
      std::move(done));
}

void SessionManager::Explain(const SessionKey& key, TurnId turn,
                             std::function<void(Result<TurnExplanation>)> done) {
  AnswerFromPool(
      context_,
      [this, key, turn = std::move(turn)]() -> Result<TurnExplanation> {
        SessionRow row;
        TENUTO_ASSIGN(const StoredPrompt prompt, PromptOf(context_, key, turn, {}, row));
        return tenuto::Explain(row, prompt);
      },
      std::move(done));
}

void SessionManager::ReadPrompt(const SessionKey& key, TurnId turn, TurnId without,
                                std::function<void(Result<TurnPrompt>)> done) {
  AnswerFromPool(
      context_,
      [this, key, turn = std::move(turn), without = std::move(without)]() -> Result<TurnPrompt> {
        SessionRow row;
        TENUTO_ASSIGN(const StoredPrompt stored, PromptOf(context_, key, turn, without, row));
        TurnPrompt prompt;
        prompt.turn = stored.turn.id;
        prompt.differs = stored.differs;
        if (!without.empty()) {
          // Without that one it is another prompt anyway: was it the same but for it?
          TENUTO_ASSIGN(const StoredPrompt whole, PromptOf(context_, key, turn, {}, row));
          prompt.differs = whole.same ? "without" : whole.differs;
        }
        prompt.tokens = stored.tokens();
        prompt.answer = stored.turn.answer;
        TENUTO_ASSIGN(const ArchivedText text, ArchivedTextOf(stored.turn.items_json));
        prompt.text = text.answer;
        return prompt;
      },
      std::move(done));
}

}  // namespace tenuto
