#include "recall/newer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_set>

namespace tenuto {
namespace {

// A word in more passages than these is no sign of the same matter.
constexpr double kRareShare = 0.001;
constexpr uint32_t kRareMin = 4;
constexpr uint32_t kBriefTokens = 7;  // a correction in words that no list has is as short
constexpr uint32_t kSeldomTimes = 4;  // in so many more it says a little
constexpr double kClosestInfo = 4.0;  // less is chance: -ln of how many turns would share as much
constexpr size_t kSharedMin = 2;

bool Stated(const Term& term) {
  return !term.asked && !term.inside && term.sort != TermSort::kStamp &&
         term.sort != TermSort::kSingle;
}

// Of the turn right behind, which states: -1 where it does not.
int64_t ShortBehind(const RecallIndex& index, uint32_t turn_at) {
  const uint32_t next = turn_at + 1;
  if (next >= index.turns().size()) return -1;
  const TurnInfo& info = index.turns()[next];
  return info.Is(TurnInfo::kShort) && !info.Is(TurnInfo::kBareQuestion) ? int64_t{next} : -1;
}

std::vector<uint32_t> WithBriefBehind(const RecallIndex& index, int64_t turn_at) {
  const int64_t behind = BriefBehind(index, static_cast<uint32_t>(turn_at));
  std::vector<uint32_t> turns;
  for (const int64_t at : {turn_at, behind}) {
    if (at >= 0) turns.push_back(index.turns()[static_cast<size_t>(at)].turn);
  }
  return turns;
}

}  // namespace

int64_t CorrectedBy(const RecallIndex& index, uint32_t turn_at) {
  const int64_t next = ShortBehind(index, turn_at);
  if (next < 0) return -1;
  return index.turns()[static_cast<size_t>(next)].Is(TurnInfo::kCorrects) ? next : -1;
}

int64_t BriefBehind(const RecallIndex& index, uint32_t turn_at) {
  const int64_t next = ShortBehind(index, turn_at);
  if (next < 0) return -1;
  const TurnInfo& info = index.turns()[static_cast<size_t>(next)];
  const uint32_t tokens = index.passages()[info.first_passage].user_tokens;
  return info.Is(TurnInfo::kCorrects) || (tokens > 0 && tokens <= kBriefTokens) ? next : -1;
}

LaterTurns LaterOnTheSame(Analyser& analyser, const RecallIndex& index, const OlderTurn& older) {
  AnalyseOptions options = index.OptionsAt(older.time);
  options.bytes_max = kNewerBytesMax;
  const Analysed text = analyser.Analyse(older.user, options);
  const double passages = index.passages_live();
  const auto rare = kRareMin + static_cast<uint32_t>(kRareShare * passages);
  struct Shared {
    std::map<uint32_t, double> info;  // of units: -ln of the share of passages that have it
    std::set<uint32_t> rare;          // units
  };
  std::map<uint32_t, Shared> shared;  // by index into turns()
  std::unordered_set<TermKey> seen;
  for (const Term& term : text.terms) {
    const Postings* postings = Stated(term) ? index.Find(term.key) : nullptr;
    if (postings == nullptr || postings->all > kSeldomTimes * rare) continue;
    if (!seen.insert(term.key).second) continue;
    const double info = std::log((passages + 1.0) / postings->all);
    ForEachPosting(*postings, [&](uint32_t passage, TermCounts counts) {
      const uint32_t turn_at = index.passages()[passage].turn_at;
      if (counts.user == 0 || index.turns()[turn_at].turn <= older.turn) return;
      Shared& both = shared[turn_at];
      double& known = both.info[term.unit];
      known = std::max(known, info);
      if (postings->all <= rare && term.sort != TermSort::kNumber) both.rare.insert(term.unit);
    });
  }
  int64_t newest = -1;   // has two or more of the rare words
  int64_t closest = -1;  // shares most: a correction often says what it corrects
  double closest_info = std::log(passages + 1.0) + kClosestInfo;
  for (auto turn = shared.rbegin(); turn != shared.rend(); ++turn) {
    const Shared& both = turn->second;
    if (index.turns()[turn->first].Is(TurnInfo::kBareQuestion)) continue;
    if (newest < 0 && both.rare.size() >= kSharedMin) newest = turn->first;
    if (both.info.size() < kSharedMin) continue;
    double info = 0.0;
    for (const auto& [unit, of_unit] : both.info)
      info += of_unit;
    if (info <= closest_info) continue;
    closest = turn->first;
    closest_info = info;
  }
  LaterTurns later;
  if (newest >= 0) later.newest = WithBriefBehind(index, newest);
  if (closest >= 0 && closest != newest) later.closest = WithBriefBehind(index, closest);
  return later;
}

void AddLater(Analyser& analyser, const RecallIndex& index, std::span<const TurnRange> candidates,
              const OlderTurn& older, RecallHit& hit) {
  const auto may_come = [&](uint32_t turn) {
    return turn > hit.since && InRanges(candidates, turn);
  };
  const auto put = [&](const std::vector<uint32_t>& turns, std::vector<uint32_t>& to) {
    if (turns.empty() || !may_come(turns.front())) return;  // nor what is behind it
    for (const uint32_t turn : turns) {
      const bool there = std::ranges::find(to, turn) != to.end();
      if (!there && may_come(turn)) to.push_back(turn);
    }
  };
  const LaterTurns later = LaterOnTheSame(analyser, index, older);
  put(later.newest, hit.with);
  put(later.closest, hit.also);
}

}  // namespace tenuto
