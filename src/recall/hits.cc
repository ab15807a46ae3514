#include "recall/hits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "recall/chance.h"
#include "recall/episodes.h"
#include "recall/newer.h"

namespace tenuto {
namespace {

constexpr uint32_t kEpisodesMax = 1000;
constexpr uint32_t kMatterUnitsMin = 3;  // fewer words say too little of what a message is about
constexpr uint32_t kCloseHitsMax = 12;   // hits whose chance is worked out in full

class HitMaker {
 public:
  explicit HitMaker(const RankedTurns& found)
      : found_(found),
        index_(found.index),
        query_(found.query),
        set_(found.settings),
        match_(found.match),
        episodes_(found.index, found.query, found.evidence) {}

  std::vector<RecallHit> Run(size_t hits_max) {
    ReadSentences();
    std::vector<RecallHit> hits;
    std::vector<uint32_t> taken;  // turns by index
    std::vector<uint32_t> digests;
    const auto has = [&](const std::vector<uint32_t>& all, uint32_t one) {
      return std::find(all.begin(), all.end(), one) != all.end();
    };
    for (const Pooled& turn : found_.best_first) {
      if (hits.size() >= hits_max || turn.score <= 0.0) break;
      const TurnInfo& info = index_.turns()[turn.turn_at];
      if (has(taken, turn.turn_at) || has(digests, info.user_digest)) continue;
      taken.push_back(turn.turn_at);
      digests.push_back(info.user_digest);
      hits.push_back(HitOf(turn, info, hits.size() < kCloseHitsMax));
      const int64_t next = CorrectedBy(index_, turn.turn_at);
      if (MayCome(next) && !has(taken, static_cast<uint32_t>(next)) && hits.size() < hits_max) {
        Pooled correction = turn;
        correction.turn_at = static_cast<uint32_t>(next);
        taken.push_back(correction.turn_at);
        RecallHit hit = hits.back();
        hit.turn = index_.turns()[correction.turn_at].turn;
        hit.tokens = index_.turns()[correction.turn_at].tokens;
        hit.with = {hits.back().turn};
        hit.terms.clear();
        hit.source = true;
        hits.push_back(std::move(hit));
      }
    }
    return hits;
  }

 private:
  using Sentences = std::array<uint32_t, kSentencesMax>;  // terms in each, a bit each

  // Which sentences of the best turns have which of the terms that are not common.
  void ReadSentences() {
    std::vector<uint32_t> passages;
    for (const Pooled& turn : found_.best_first) {
      if (passages.size() >= 2 * kCloseHitsMax) break;
      passages.push_back(turn.passage);
    }
    std::sort(passages.begin(), passages.end());
    for (size_t i = 0; i < query_.terms.size(); ++i) {
      const QueryTerm& term = query_.terms[i];
      if (term.info_user < kStrongInfo) continue;
      strong_ |= uint32_t{1} << i;
      const auto note = [&](uint32_t passage, TermCounts counts) {
        if (counts.sentences == 0) return;
        Sentences& sentences = sentences_[passage];
        for (uint32_t at = 0; at < kSentencesMax; ++at) {
          if ((counts.sentences >> at & 1u) != 0) sentences[at] |= uint32_t{1} << i;
        }
      };
      if (term.dense != nullptr) {
        for (const uint32_t passage : passages) {
          if (const TermCounts* counts = term.dense->At(passage)) note(passage, *counts);
        }
        continue;
      }
      auto wanted = passages.begin();
      ForEachPostingUntil(*term.postings, [&](uint32_t passage, TermCounts counts) {
        while (wanted != passages.end() && *wanted < passage)
          ++wanted;
        if (wanted == passages.end()) return false;
        if (*wanted == passage) note(passage, counts);
        return true;
      });
    }
  }

  // What of the info in the user's words stands in other sentences than most of it. Half of that in
  // the next sentence: people go on about the same.
  double Apart(const Pooled& turn) {
    const auto found = sentences_.find(turn.passage);
    if (turn.source || turn.via_any != 0 || found == sentences_.end()) return 0.0;
    const uint32_t user = found_.evidence.At(turn.passage).user & strong_;
    const auto info_of = [&](uint32_t terms) { return match_.InfoOf(terms, terms).info; };
    const Sentences& sentences = found->second;
    double best = 0.0;
    for (uint32_t at = 0; at < kSentencesMax; ++at) {
      const uint32_t here = user & sentences[at];
      const uint32_t next = at + 1 < kSentencesMax ? user & sentences[at + 1] : 0;
      if (here == 0) continue;
      best = std::max(best, 0.5 * info_of(here) + 0.5 * info_of(here | next));
    }
    return std::max(0.0, info_of(user) - best);
  }

  // With more of them the tail takes off no more than `tail_max`: from there on it only falls.
  uint32_t EpisodesThatCount(double log_strong) const {
    for (uint32_t most = 2; most < kEpisodesMax; ++most) {
      if (LogPoissonTail(std::exp(log_strong), most) - log_strong <= -set_.tail_max) return most;
    }
    return UINT32_MAX;
  }

  void Chance(const Pooled& turn, bool close, RecallHit& hit) {
    const MatchInfo& own = match_.InfoOf(turn.user, turn.any);
    const MatchInfo& via = match_.InfoOf(turn.via_user, turn.via_any);
    const MatchInfo& found = via.info > own.info ? via : own;
    hit.info = found.info;
    hit.units = found.units;
    hit.inherited = found.inherited;
    hit.log_expected = LogExpected(found, close);
    // Its own words match no better than those of some turn would by chance.
    if (turn.since > 0 && (turn.source || LogExpected(own, close) >= 0.0)) hit.since = turn.since;
  }

  double LogExpected(const MatchInfo& found, bool close) {
    const double passages = std::max(1u, index_.passages_live());
    const uint32_t units = found.units + found.inherited;
    const uint32_t all =
        std::max(units, query_.own_units + (found.inherited > 0 ? query_.inherited_units : 0u));
    const double log_passages = std::log(passages);
    double log_mean = log_passages - found.info;
    const bool together = __builtin_popcount(found.strong) > 1;
    const double log_strong = log_passages - found.strong_info;
    const bool counts = close && together && log_strong < 0.0;
    const uint32_t episodes =
        counts ? episodes_.Count(found.strong, EpisodesThatCount(log_strong)) : 1;
    if (episodes > 1) {
      const double tail = LogPoissonTail(std::exp(log_strong), episodes);
      log_mean += std::clamp(tail - log_strong, -set_.tail_max, 0.0);
    }
    // Words of one episode come together by themselves, and few turns are few episodes.
    const double few = units > 1 ? std::log1p(set_.few_turns / passages) : 0.0;
    return log_mean + LogChoose(all, units) + few;
  }

  // A candidate.
  bool MayCome(int64_t turn_at) const {
    return turn_at >= 0 && InRanges(found_.scope.candidates, TurnOf(turn_at));
  }

  uint32_t TurnOf(int64_t turn_at) const {
    return index_.turns()[static_cast<size_t>(turn_at)].turn;
  }

  // A newer turn about the same: it shares words of the query, and corrects or scores not much
  // worse.
  int64_t NewerThan(const Pooled& older) {
    const Pooled* best = nullptr;
    for (const Pooled& turn : found_.best_first) {
      if (turn.turn_at <= older.turn_at) continue;
      const TurnInfo& info = index_.turns()[turn.turn_at];
      if (info.Is(TurnInfo::kBareQuestion)) continue;
      const bool corrects = info.Is(TurnInfo::kCorrects);
      if (turn.score < (corrects ? set_.correcting : set_.newer) * older.score) continue;
      const uint32_t both = older.user & turn.user;
      const MatchInfo& shared = match_.InfoOf(both, both);
      if (corrects ? shared.info < kStrongInfo : shared.units + shared.inherited < 2) continue;
      const bool best_corrects =
          best != nullptr && index_.turns()[best->turn_at].Is(TurnInfo::kCorrects);
      if (best == nullptr || (corrects && !best_corrects) ||
          (corrects == best_corrects && turn.score > best->score)) {
        best = &turn;
      }
    }
    return best == nullptr ? -1 : int64_t{best->turn_at};
  }

  RecallHit HitOf(const Pooled& turn, const TurnInfo& info, bool close) {
    RecallHit hit;
    hit.turn = info.turn;
    hit.score = turn.score;
    hit.tokens = info.tokens;
    hit.source = turn.source;
    hit.again = turn.again;
    hit.number = query_.cues.wants_number && info.Is(TurnInfo::kHasNumber);
    for (size_t i = 0; i < query_.terms.size(); ++i) {
      if ((turn.any >> i & 1u) == 0) continue;
      hit.terms.push_back(query_.terms[i].text);
      if (query_.terms[i].sort == TermSort::kDate) hit.dated = true;
      if (query_.terms[i].sort == TermSort::kStamp) hit.said_then = true;
      if (query_.terms[i].proper) hit.proper = true;
      if (query_.terms[i].sort == TermSort::kIdentifier) hit.identifier = true;
    }
    Chance(turn, close, hit);
    Names(turn, hit);
    hit.apart = close ? Apart(turn) : 0.0;
    if (close) {
      const int64_t brief = BriefBehind(index_, turn.turn_at);
      if (MayCome(brief) && TurnOf(brief) > hit.since) hit.with.push_back(TurnOf(brief));
      const int64_t newer = NewerThan(turn);
      if (MayCome(newer)) hit.with.push_back(TurnOf(newer));
    }
    return hit;
  }

  // What the names of the message say: whom or what it is about.
  void Names(const Pooled& turn, RecallHit& hit) {
    uint32_t here = 0;
    for (size_t i = 0; i < query_.terms.size(); ++i) {
      const QueryTerm& term = query_.terms[i];
      if (!term.proper || term.sort == TermSort::kPart) continue;
      here |= turn.user & uint32_t{1} << i;
    }
    if (here == 0) return;
    hit.window_lacks_name = std::ranges::none_of(found_.window, [&](const MatchedTerms& cell) {
      return (cell.any & here) != 0 && match_.InfoOf(cell.user, cell.any).info >= hit.info;
    });
    hit.named_matter = RestIsSaid(turn, hit);
  }

  // Whether some other turn states all that a hit lacks of the message: then it asks about such
  // things as are told here.
  bool RestIsSaid(const Pooled& hit, const RecallHit& found) {
    if (query_.own_units < kMatterUnitsMin) return false;
    return std::ranges::any_of(found_.best_first, [&](const Pooled& turn) {
      if (index_.turns()[turn.turn_at].Is(TurnInfo::kBareQuestion)) return false;
      const uint32_t rest = turn.user & ~hit.any;
      return found.units + match_.InfoOf(rest, rest).units >= query_.own_units;
    });
  }

  const RankedTurns& found_;
  const RecallIndex& index_;
  const Query& query_;
  const ScorerSettings& set_;
  Matcher& match_;
  EpisodeCounts episodes_;
  uint32_t strong_ = 0;
  std::unordered_map<uint32_t, Sentences> sentences_;  // by passage
};

}  // namespace

std::vector<RecallHit> HitsOf(const RankedTurns& ranked, size_t hits_max) {
  return HitMaker(ranked).Run(hits_max);
}

}  // namespace tenuto
