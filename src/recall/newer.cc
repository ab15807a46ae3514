#include "recall/newer.h"

#include <algorithm>
#include <map>
#include <set>

namespace tenuto {
namespace {

// A word in more passages than these is no sign of the same matter.
constexpr double kRareShare = 0.001;
constexpr uint32_t kRareMin = 4;
constexpr size_t kSharedMin = 2;

bool Stated(const Term& term) {
  return !term.asked && !term.inside && term.sort != TermSort::kStamp &&
         term.sort != TermSort::kSingle && term.sort != TermSort::kNumber;
}

}  // namespace

uint32_t NewestOnTheSame(Analyser& analyser, const RecallIndex& index, const OlderTurn& older) {
  AnalyseOptions options = index.OptionsAt(older.time);
  options.bytes_max = kNewerBytesMax;
  const Analysed text = analyser.Analyse(older.user, options);
  const auto rare = kRareMin + static_cast<uint32_t>(kRareShare * index.passages_live());
  std::map<uint32_t, std::set<uint32_t>> shared;  // by index into turns(): units that both have
  for (const Term& term : text.terms) {
    const Postings* postings = Stated(term) ? index.Find(term.key) : nullptr;
    if (postings == nullptr || postings->all > rare) continue;
    ForEachPosting(*postings, [&](uint32_t passage, TermCounts counts) {
      const uint32_t turn_at = index.passages()[passage].turn_at;
      if (counts.user > 0 && index.turns()[turn_at].turn > older.turn)
        shared[turn_at].insert(term.unit);
    });
  }
  for (auto turn = shared.rbegin(); turn != shared.rend(); ++turn) {
    const TurnInfo& info = index.turns()[turn->first];
    if (turn->second.size() >= kSharedMin && !info.Is(TurnInfo::kBareQuestion)) return info.turn;
  }
  return 0;
}

void AddNewer(Analyser& analyser, const RecallIndex& index, std::span<const TurnRange> candidates,
              const OlderTurn& older, RecallHit& hit) {
  const uint32_t newest = NewestOnTheSame(analyser, index, older);
  if (newest > 0 && InRanges(candidates, newest) && !std::ranges::count(hit.with, newest))
    hit.with.push_back(newest);
}

}  // namespace tenuto
