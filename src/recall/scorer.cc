#include "recall/scorer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/check.h"
#include "recall/chance.h"
#include "recall/episodes.h"
#include "recall/matched.h"

namespace tenuto {
namespace {

constexpr size_t kPoolMax = 200;            // turns that are looked at closely
constexpr uint32_t kLongMedianTokens = 60;  // from here on turns are long
constexpr uint32_t kVeryShortTokens = 12;
constexpr double kAskedBefore = 0.2;  // factor of an earlier asking: it is no evidence
constexpr double kOwnMatch = 0.1;
constexpr uint32_t kBriefTokens = 7;  // a correction in words that no list has is as short
constexpr uint32_t kEpisodesMax = 1000;
constexpr uint32_t kMatterUnitsMin = 3;  // fewer words say too little of what a message is about
constexpr uint32_t kCloseHitsMax = 12;   // hits whose chance is worked out in full

bool InRanges(std::span<const TurnRange> ranges, uint32_t turn) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), turn,
      [](uint32_t wanted, const TurnRange& range) { return wanted < range.begin; });
  return after != ranges.begin() && turn < std::prev(after)->end;
}

struct Pooled {
  uint32_t turn_at = 0;
  uint32_t passage = 0;  // its best one
  double score = 0.0;
  uint32_t user = 0;
  uint32_t any = 0;
  bool source = false;
  bool again = false;
  uint32_t via_user = 0;  // terms of the answer made from recall that points here
  uint32_t via_any = 0;
};

}  // namespace

// One call of Rank.
class RankRun {
 public:
  RankRun(RecallScorer& scorer, const RecallIndex& index, const Query& query,
          const RecallScope& scope)
      : evidence_(scorer.evidence_),
        index_(index),
        query_(query),
        scope_(scope),
        set_(scorer.settings_),
        match_(query),
        episodes_(index, query, evidence_) {
    answer_weight_ = query.cues.asks_assistant ? 1.0 : set_.answer;
    asked_weight_ = query.cues.asks_assistant ? 1.0 : set_.asked;
  }

  Ranking Run(size_t hits_max) {
    Score();
    Ranking ranking;
    ranking.own_units = query_.own_units;
    ranking.own_known = query_.own_known;
    ranking.cues = query_.cues;
    Pool(ranking);
    Judge();
    ranking.asked_before = FollowSources();
    Order();
    Diversify();
    ReadSentences();
    Emit(hits_max, ranking);
    evidence_.Clear();
    return ranking;
  }

 private:
  void Score() {
    Bm25 bm25;
    bm25.k1 = set_.k1;
    bm25.b = index_.MedianUserTokens() >= kLongMedianTokens ? set_.b_long : set_.b;
    bm25.average = index_.AverageTokens(answer_weight_);
    bm25.answer = answer_weight_;
    bm25.asked = asked_weight_;
    bm25.tool = set_.tool;
    passages_ = {PassagesOf(scope_.candidates), PassagesOf(scope_.window)};
    evidence_.Collect(index_, query_, bm25, passages_, kPoolMax);
  }

  // Passages of the turns in a range; ranges in ascending order give ascending ones.
  std::vector<TurnRange> PassagesOf(std::span<const TurnRange> ranges) const {
    const auto& turns = index_.turns();
    const auto passage_of = [&](uint32_t number) {
      const auto turn = std::lower_bound(
          turns.begin(), turns.end(), number,
          [](const TurnInfo& info, uint32_t wanted) { return info.turn < wanted; });
      return turn == turns.end() ? static_cast<uint32_t>(index_.passages().size())
                                 : turn->first_passage;
    };
    std::vector<TurnRange> found;
    for (const TurnRange& range : ranges)
      found.push_back({passage_of(range.begin), passage_of(range.end)});
    return found;
  }

  // The best turns among the candidates, and what the window has.
  void Pool(Ranking& ranking) {
    uint32_t own = 0;  // terms of the message itself, a bit each
    for (size_t i = 0; i < query_.terms.size(); ++i) {
      if (!query_.terms[i].inherited) own |= uint32_t{1} << i;
    }
    for (const TurnRange& range : passages_.window) {
      for (uint32_t passage = range.begin; passage < range.end; ++passage) {
        const auto& cell = evidence_.At(passage);
        if (cell.any == 0 || OnlyAsks(passage)) continue;
        window_.emplace_back(cell.user, cell.any);
        ranking.window_info =
            std::max(ranking.window_info, match_.InfoOf(cell.user, cell.any).info);
        ranking.window_own_info =
            std::max(ranking.window_own_info, match_.InfoOf(cell.user & own, cell.any & own).info);
      }
    }
    std::vector<std::pair<float, uint32_t>> order(evidence_.best().begin(), evidence_.best().end());
    std::ranges::sort(order, {}, &std::pair<float, uint32_t>::second);
    for (const auto& [score, passage] : order) {
      const auto& cell = evidence_.At(passage);
      const uint32_t turn_at = index_.passages()[passage].turn_at;
      if (pool_.empty() || pool_.back().turn_at != turn_at) {
        pool_.emplace_back();
        pool_.back().turn_at = turn_at;
      }
      Pooled& turn = pool_.back();
      if (score > turn.score) {
        turn.score = score;
        turn.passage = passage;
      }
      turn.user |= cell.user;
      turn.any |= cell.any;
    }
  }

  // Factors that no single term has.
  void Judge() {
    if (index_.MedianUserTokens() <= kVeryShortTokens) Smooth();
    const double all = std::max(1u, query_.own_units + query_.inherited_units);
    std::vector<uint32_t> names;  // of each its forms, a bit each
    for (size_t i = 0; i < query_.terms.size(); ++i) {
      if (!query_.terms[i].named) continue;
      if (!query_.terms[i].form || names.empty()) names.push_back(0);
      names.back() |= uint32_t{1} << i;
    }
    for (Pooled& turn : pool_) {
      const TurnInfo& info = index_.turns()[turn.turn_at];
      const bool asks = query_.cues.asks_assistant;
      if (info.Is(TurnInfo::kBareQuestion) && !asks) turn.score *= set_.bare_question;
      if (query_.cues.wants_number && info.Is(TurnInfo::kHasNumber)) turn.score *= set_.number;
      if (!names.empty()) {
        const auto has = std::count_if(names.begin(), names.end(),
                                       [&](uint32_t forms) { return (turn.any & forms) != 0; });
        const double share = static_cast<double>(has) / static_cast<double>(names.size());
        turn.score *= set_.other_name + (1.0 - set_.other_name) * share;
      }
      const MatchInfo& found = match_.InfoOf(turn.user, turn.any);
      turn.score *= 1.0 + set_.coverage * (found.units + found.inherited) / all;
    }
  }

  void Smooth() {
    std::vector<double> scores(pool_.size());
    for (size_t i = 0; i < pool_.size(); ++i) {
      scores[i] = pool_[i].score;
      if (i > 0 && pool_[i - 1].turn_at + 1 == pool_[i].turn_at) {
        scores[i] += set_.smoothing * pool_[i - 1].score;
      }
      if (i + 1 < pool_.size() && pool_[i].turn_at + 1 == pool_[i + 1].turn_at) {
        scores[i] += set_.smoothing * pool_[i + 1].score;
      }
    }
    for (size_t i = 0; i < pool_.size(); ++i)
      pool_[i].score = scores[i];
  }

  // Who asked for something a moment ago did not say it.
  bool OnlyAsks(uint32_t passage) const {
    return index_.turns()[index_.passages()[passage].turn_at].Is(TurnInfo::kBareQuestion);
  }

  // An answer that was made from recall stands for the turns it came from.
  // Returns whether the same question was asked before.
  bool FollowSources() {
    std::map<uint32_t, Pooled> added;
    bool asked_before = false;
    for (Pooled& turn : pool_) {
      const TurnInfo& info = index_.turns()[turn.turn_at];
      if (!info.Is(TurnInfo::kBareQuestion)) continue;
      const auto sources = index_.RecalledBy(turn.turn_at);
      const bool same = info.user_digest == query_.digest;  // the same question, asked before
      asked_before = asked_before || same;
      const double score = turn.score;
      if (same || !sources.empty()) turn.score *= kAskedBefore;
      for (const uint32_t number : sources) {
        const int64_t at = index_.TurnAt(number);
        if (at < 0 || !InRanges(scope_.candidates, number)) continue;
        Pooled source = turn;
        source.turn_at = static_cast<uint32_t>(at);
        source.source = true;
        source.again = same;
        source.score = query_.cues.asks_assistant ? score : score / set_.bare_question;
        source.via_user = turn.user;
        source.via_any = turn.any;
        Pooled& kept = added.try_emplace(source.turn_at, source).first->second;
        const bool again = kept.again || source.again;
        if (kept.score < source.score) kept = source;
        kept.again = again;
      }
    }
    for (Pooled& turn : pool_) {
      const auto found = added.find(turn.turn_at);
      if (found == added.end()) continue;
      // Of several sources those that match by themselves come first.
      const double own = turn.score;
      turn.score = std::max(own, found->second.score) + kOwnMatch * own;
      turn.again = found->second.again;
      turn.via_user = found->second.via_user;
      turn.via_any = found->second.via_any;
      added.erase(found);
    }
    for (const auto& [at, turn] : added)
      pool_.push_back(turn);
    return asked_before;
  }

  void Order() {
    std::sort(pool_.begin(), pool_.end(), [](const Pooled& a, const Pooled& b) {
      return a.score != b.score ? a.score > b.score : a.turn_at > b.turn_at;
    });
  }

  // The tenth turn that says the same words again is worth less than the first that says others.
  void Diversify() {
    std::unordered_map<uint32_t, uint32_t> seen;
    for (Pooled& turn : pool_)
      turn.score *= std::pow(set_.same_again, seen[turn.any]++);
    Order();
  }

  using Sentences = std::array<uint32_t, kSentencesMax>;  // terms in each, a bit each

  // Which sentences of the best turns have which of the terms that are not common.
  void ReadSentences() {
    std::vector<uint32_t> passages;
    for (const Pooled& turn : pool_) {
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
    const uint32_t user = evidence_.At(turn.passage).user & strong_;
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
    MatchInfo found = match_.InfoOf(turn.user, turn.any);
    const MatchInfo via = match_.InfoOf(turn.via_user, turn.via_any);
    if (via.info > found.info) found = via;
    hit.info = found.info;
    hit.units = found.units;
    hit.inherited = found.inherited;
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
    hit.log_expected = log_mean + LogChoose(all, units) + few;
  }

  // A short turn right behind that takes something back.
  int64_t CorrectedBy(uint32_t turn_at) const {
    const uint32_t next = turn_at + 1;
    if (next >= index_.turns().size()) return -1;
    const TurnInfo& info = index_.turns()[next];
    const bool fits = info.Is(TurnInfo::kCorrects) && info.Is(TurnInfo::kShort) &&
                      !info.Is(TurnInfo::kBareQuestion);
    return fits && InRanges(scope_.candidates, info.turn) ? int64_t{next} : -1;
  }

  // A few words said right behind go with it, whatever the language: "no, the other one".
  int64_t BriefAfter(uint32_t turn_at) const {
    const uint32_t next = turn_at + 1;
    if (next >= index_.turns().size()) return -1;
    const TurnInfo& info = index_.turns()[next];
    const PassageInfo& passage = index_.passages()[info.first_passage];
    const bool brief = passage.user_tokens > 0 && passage.user_tokens <= kBriefTokens &&
                       !info.Is(TurnInfo::kBareQuestion) && info.Is(TurnInfo::kShort);
    return brief && InRanges(scope_.candidates, info.turn) ? int64_t{next} : -1;
  }

  // A newer turn about the same: it shares words of the query, and corrects or scores not much
  // worse.
  int64_t NewerThan(const Pooled& older) {
    const Pooled* best = nullptr;
    for (const Pooled& turn : pool_) {
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

  void Emit(size_t hits_max, Ranking& ranking) {
    std::vector<uint32_t> taken;  // turns by index
    std::vector<uint32_t> digests;
    const auto has = [&](const std::vector<uint32_t>& all, uint32_t one) {
      return std::find(all.begin(), all.end(), one) != all.end();
    };
    for (const Pooled& turn : pool_) {
      if (ranking.hits.size() >= hits_max || turn.score <= 0.0) break;
      const TurnInfo& info = index_.turns()[turn.turn_at];
      if (has(taken, turn.turn_at) || has(digests, info.user_digest)) continue;
      taken.push_back(turn.turn_at);
      digests.push_back(info.user_digest);
      ranking.hits.push_back(HitOf(turn, info, ranking.hits.size() < kCloseHitsMax));
      const int64_t next = CorrectedBy(turn.turn_at);
      if (next >= 0 && !has(taken, static_cast<uint32_t>(next)) && ranking.hits.size() < hits_max) {
        Pooled correction = turn;
        correction.turn_at = static_cast<uint32_t>(next);
        taken.push_back(correction.turn_at);
        RecallHit hit = ranking.hits.back();
        hit.turn = index_.turns()[correction.turn_at].turn;
        hit.tokens = index_.turns()[correction.turn_at].tokens;
        hit.with = {ranking.hits.back().turn};
        hit.terms.clear();
        hit.source = true;
        ranking.hits.push_back(std::move(hit));
      }
    }
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
      const int64_t next = CorrectedBy(turn.turn_at);
      const int64_t newer = NewerThan(turn);
      for (const int64_t at : {next >= 0 ? next : BriefAfter(turn.turn_at), newer}) {
        if (at >= 0) hit.with.push_back(index_.turns()[static_cast<size_t>(at)].turn);
      }
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
    hit.window_lacks_name = std::ranges::none_of(window_, [&](const auto& cell) {
      return (cell.second & here) != 0 && match_.InfoOf(cell.first, cell.second).info >= hit.info;
    });
    hit.named_matter = RestIsSaid(turn, hit);
  }

  // Whether some other turn states all that a hit lacks of the message: then it asks about such
  // things as are told here.
  bool RestIsSaid(const Pooled& hit, const RecallHit& found) {
    if (query_.own_units < kMatterUnitsMin) return false;
    return std::ranges::any_of(pool_, [&](const Pooled& turn) {
      if (index_.turns()[turn.turn_at].Is(TurnInfo::kBareQuestion)) return false;
      const uint32_t rest = turn.user & ~hit.any;
      return found.units + match_.InfoOf(rest, rest).units >= query_.own_units;
    });
  }

  PassageEvidence& evidence_;
  const RecallIndex& index_;
  const Query& query_;
  const RecallScope& scope_;
  const ScorerSettings& set_;
  double answer_weight_ = 0.0;
  double asked_weight_ = 0.0;
  Matcher match_;
  std::vector<Pooled> pool_;
  PassageScope passages_;
  EpisodeCounts episodes_;
  std::vector<std::pair<uint32_t, uint32_t>> window_;  // terms of what it states, as in Pooled
  uint32_t strong_ = 0;
  std::unordered_map<uint32_t, Sentences> sentences_;  // by passage
};

Ranking RecallScorer::Rank(const RecallIndex& index, const Query& query, const RecallScope& scope,
                           size_t hits_max) {
  TENUTO_CHECK(query.terms.size() <= kQueryTermsMax);
  return RankRun(*this, index, query, scope).Run(hits_max);
}

}  // namespace tenuto
