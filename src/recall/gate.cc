#include "recall/gate.h"

#include <algorithm>

namespace tenuto {
namespace {

class Gate {
 public:
  Gate(const Ranking& ranking, const GateSettings& settings) : ranking_(ranking), set_(settings) {}

  GateResult Run() {
    if (ranking_.hits.empty()) return result_;
    result_.decision = RecallDecision::kGated;
    for (const RecallHit& hit : ranking_.hits)
      result_.verdicts.push_back({hit, Why(hit), false});
    TakeWhatRanksAbove();
    for (size_t i = 0; i < ranking_.hits.size(); ++i)
      Admit(i);
    // What may correct these takes no room from them.
    for (size_t i = 0; i < ranking_.hits.size(); ++i)
      if (result_.verdicts[i].injected) BringAll(ranking_.hits[i].also);
    std::sort(result_.injected.begin(), result_.injected.end());
    if (!result_.injected.empty()) result_.decision = RecallDecision::kInjected;
    return result_;
  }

 private:
  RecallWhy Why(const RecallHit& hit) const {
    const Cues& cues = ranking_.cues;
    if (set_.force) return RecallWhy::kForced;
    if (cues.chat) return RecallWhy::kSmallTalk;
    if (AsksForItsDay(hit)) return RecallWhy::kMatches;
    if (hit.units == 0) {
      if (!cues.question) return RecallWhy::kInheritedOnly;
      if (!cues.anaphoric && !SaysNothingItself()) return RecallWhy::kSmallTalk;
    }
    double limit = set_.log_expected_max - set_.log_apart * hit.apart;
    if (cues.task) limit += set_.log_task;
    const uint32_t with_day = hit.units + (hit.dated ? 0 : 1);
    if ((hit.dated || hit.said_then) && with_day > 1 && 2 * with_day >= ranking_.own_units) {
      limit += set_.log_dated;
    } else if (hit.dated && cues.question) {
      limit += set_.log_day;
    }
    if (hit.proper && hit.units > 1) limit += set_.log_proper;
    if (hit.named_matter && cues.question) limit += set_.log_named_matter;
    if (hit.identifier) limit += set_.log_identifier;
    if (ranking_.asked_before) limit += set_.log_asked_before;
    if (cues.personal) limit += set_.log_personal;
    if (HasTheOneWord(hit)) limit += set_.log_one_word;
    if (hit.inherited > 0) limit += set_.log_inherited;
    if (hit.log_expected > limit) return RecallWhy::kChance;
    const double window = hit.inherited > 0 ? ranking_.window_info : ranking_.window_own_info;
    if (hit.info < window && !hit.window_lacks_name) return RecallWhy::kInWindow;
    if (hit.score < set_.share_of_best * ranking_.hits.front().score) {
      return RecallWhy::kFarBelowBest;
    }
    return RecallWhy::kMatches;
  }

  // Where something is quoted at all, what answers better is quoted as well: chance says how
  // surprising a match is, the score which turn the message means.
  void TakeWhatRanksAbove() {
    bool below = false;
    for (auto verdict = result_.verdicts.rbegin(); verdict != result_.verdicts.rend(); ++verdict) {
      if (verdict->why == RecallWhy::kMatches) below = true;
      const bool doubted =
          verdict->why == RecallWhy::kChance || verdict->why == RecallWhy::kInWindow;
      if (below && doubted) verdict->why = RecallWhy::kRanksAbove;
    }
  }

  // "Since when?", in whatever words: what can it be about but what was said last, or "you".
  bool SaysNothingItself() const {
    return ranking_.own_units <= kLeaningUnitsMax && !ranking_.cues.addresses;
  }

  // "Who is my dentist?", "How much is the rent?": there is no second word that could be shared.
  bool HasTheOneWord(const RecallHit& hit) const {
    const Cues& cues = ranking_.cues;
    const bool fits = cues.personal || cues.asks_assistant || hit.number;
    return cues.question && fits && hit.units == 1 && ranking_.own_known <= 1 &&
           ranking_.own_units <= 2;
  }

  // "What happened yesterday?": the day is all that is asked by, beside one word at most.
  bool AsksForItsDay(const RecallHit& hit) const {
    return ranking_.cues.question && hit.said_then && hit.units == 0 && ranking_.own_units <= 2;
  }

  bool Has(uint32_t turn) const {
    return std::find(result_.injected.begin(), result_.injected.end(), turn) !=
           result_.injected.end();
  }

  void Admit(size_t at) {
    RecallVerdict& verdict = result_.verdicts[at];
    if (!StandsForItself(verdict.why)) return;
    if (Has(verdict.hit.turn)) {
      verdict.injected = true;
      return;
    }
    if (!HasRoom(set_, verdict.hit, admitted_)) {
      verdict.why = RecallWhy::kOverLimit;
      return;
    }
    if (result_.tokens + verdict.hit.tokens > set_.tokens_max) {
      verdict.why = RecallWhy::kOverBudget;
      return;
    }
    ++admitted_;
    verdict.injected = true;
    Put(verdict.hit.turn, verdict.hit.tokens);
    BringAll(ranking_.hits[at].with);
  }

  // An old fact never goes in without the newest, nor that without what corrects it.
  void BringAll(const std::vector<uint32_t>& turns) {
    for (const uint32_t turn : turns) {
      if (!Has(turn)) Bring(turn);
    }
  }

  void Put(uint32_t turn, uint32_t tokens) {
    result_.injected.push_back(turn);
    result_.tokens += tokens;
  }

  void Bring(uint32_t turn) {
    for (RecallVerdict& verdict : result_.verdicts) {
      if (verdict.hit.turn != turn) continue;
      verdict.injected = true;
      if (!StandsForItself(verdict.why)) verdict.why = RecallWhy::kCorrection;
      Put(turn, verdict.hit.tokens);
      const std::vector<uint32_t> with = verdict.hit.with;
      BringAll(with);
      return;
    }
    RecallHit hit;
    hit.turn = turn;
    result_.verdicts.push_back({hit, RecallWhy::kCorrection, true});
    Put(turn, 0);
  }

  const Ranking& ranking_;
  const GateSettings& set_;
  GateResult result_;
  uint32_t admitted_ = 0;
};

}  // namespace

std::string_view RecallWhyName(RecallWhy why) {
  switch (why) {
    case RecallWhy::kMatches:
      return "matches";
    case RecallWhy::kRanksAbove:
      return "ranks_above";
    case RecallWhy::kCorrection:
      return "correction";
    case RecallWhy::kForced:
      return "forced";
    case RecallWhy::kChance:
      return "chance";
    case RecallWhy::kSmallTalk:
      return "small_talk";
    case RecallWhy::kInheritedOnly:
      return "inherited_only";
    case RecallWhy::kInWindow:
      return "in_window";
    case RecallWhy::kFarBelowBest:
      return "far_below_best";
    case RecallWhy::kOverLimit:
      return "over_limit";
    case RecallWhy::kOverBudget:
      return "over_budget";
  }
  return "unknown";
}

bool StandsForItself(RecallWhy why) {
  return why == RecallWhy::kMatches || why == RecallWhy::kRanksAbove || why == RecallWhy::kForced;
}

bool HasRoom(const GateSettings& settings, const RecallHit& hit, uint32_t admitted) {
  return admitted < (hit.again ? 2 : 1) * settings.hits_max;
}

GateResult ApplyGate(const Ranking& ranking, const GateSettings& settings) {
  return Gate(ranking, settings).Run();
}

}  // namespace tenuto
