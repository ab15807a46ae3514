#include "recall/scorer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/check.h"
#include "recall/hits.h"
#include "recall/matched.h"

namespace tenuto {
namespace {

constexpr size_t kPoolMax = 200;            // turns that are looked at closely
constexpr uint32_t kLongMedianTokens = 60;  // from here on turns are long
constexpr uint32_t kVeryShortTokens = 12;
constexpr double kAskedBefore = 0.2;  // factor of an earlier asking: it is no evidence
constexpr double kOwnMatch = 0.1;

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
        match_(query) {
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
    ranking.hits =
        HitsOf({index_, query_, scope_, set_, evidence_, match_, pool_, window_}, hits_max);
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
        window_.push_back({cell.user, cell.any});
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
        // Of another question it only says that one of them answered that.
        if (!same) source.score /= static_cast<double>(sources.size());
        source.since = std::ranges::max(sources);
        source.via_user = turn.user;
        source.via_any = turn.any;
        Pooled& kept = added.try_emplace(source.turn_at, source).first->second;
        const bool again = kept.again || source.again;
        const uint32_t since = std::max(kept.since, source.since);
        if (kept.score < source.score) kept = source;
        kept.again = again;
        kept.since = since;
      }
    }
    for (Pooled& turn : pool_) {
      const auto found = added.find(turn.turn_at);
      if (found == added.end()) continue;
      // Of several sources those that match by themselves come first.
      const double own = turn.score;
      turn.score = std::max(own, found->second.score) + kOwnMatch * own;
      turn.again = found->second.again;
      turn.since = found->second.since;
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
  std::vector<MatchedTerms> window_;  // of what it states
};

Ranking RecallScorer::Rank(const RecallIndex& index, const Query& query, const RecallScope& scope,
                           size_t hits_max) {
  TENUTO_CHECK(query.terms.size() <= kQueryTermsMax);
  return RankRun(*this, index, query, scope).Run(hits_max);
}

}  // namespace tenuto
