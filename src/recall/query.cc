#include "recall/query.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace tenuto {
namespace {

// Below about this many turns a session's own counts say little: each term is counted as if this
// many turns of other people's talk had been seen as well.
constexpr double kBackgroundTurns = 50.0;
constexpr double kCommonShare = 0.04;  // a term in more passages than this names nothing
constexpr double kLastUserWeight = 0.5;
constexpr double kLastAnswerWeight = 0.25;
constexpr double kNameWeight = 1.2;
constexpr double kPhraseWeight = 0.65;  // of each of two words that always stand together
constexpr uint32_t kPhraseEntriesMax = 20000;
constexpr size_t kAnswerTermsMax = 8;
constexpr uint32_t kLeaningUnitsMax = 1;  // a message of more words of its own stands by itself
constexpr uint32_t kPointingUnitsMax =
    3;  // ... also where "that" is in it and the archive knows none of them

bool OnlyHiragana(std::string_view text) {
  const std::vector<Character> chars = CharactersOf(text);
  return std::all_of(chars.begin(), chars.end(),
                     [](const Character& c) { return IsHiragana(c.code_point); });
}

// Hiragana are endings and particles: a pair with them says little even where it is rare.
double EndingShare(std::string_view pair) {
  const std::vector<Character> chars = CharactersOf(pair);
  const auto hiragana = std::count_if(chars.begin(), chars.end(),
                                      [](const Character& c) { return IsHiragana(c.code_point); });
  return hiragana == 0 ? 1.0 : hiragana == 1 ? 0.4 : 0.2;
}

double SortWeight(const Term& term) {
  switch (term.sort) {
    case TermSort::kWord:
    case TermSort::kRunWord:
      return 1.0;
    case TermSort::kIdentifier:
      return 1.2;
    case TermSort::kPart:
      return 0.6;
    case TermSort::kNumber:
      return 0.7;
    case TermSort::kPair:
      return OnlyHiragana(term.text) ? 0.25 : 0.7;
    case TermSort::kSingle:
      return 0.35;
    case TermSort::kDate:
      return 1.3;
    case TermSort::kStamp:
      return 0.4;
  }
  return 1.0;
}

// How often other people's turns have a term like this.
double BackgroundShare(const Term& term) {
  switch (term.sort) {
    case TermSort::kNumber:
      return term.text.size() <= 3 ? 0.05 : 0.002;
    case TermSort::kPair:
    case TermSort::kPart:
      return 0.01;
    case TermSort::kSingle:
      return 0.05;
    case TermSort::kStamp:
      return 0.2;
    default:
      return 0.012;
  }
}

class Builder {
 public:
  Builder(const RecallIndex& index, Query& query)
      : query_(query), index_(index), passages_(std::max(1u, index.passages_live())) {}

  // German capitalises every noun, so that a capital tells no name.
  void SetLanguage(Language language) { cased_names_ = language != Language::kDe; }

  // Terms of one text; those that were taken before are not taken again. Returns their units.
  uint32_t Take(std::span<const Term> terms, double weight, bool inherited) {
    std::unordered_set<uint32_t> units;
    uint32_t pairs = 0;  // two of them make a word
    uint32_t last_unit = 0;
    for (const Term& term : terms) {
      const bool faint = term.sort == TermSort::kPair && OnlyHiragana(term.text);
      if (!faint && !units.insert(term.unit).second && term.sort == TermSort::kPair) ++pairs;
      last_unit = std::max(last_unit, term.unit);
      if (!keys_.insert(term.key).second) continue;
      const Postings* postings = index_.Find(term.key);
      if (postings == nullptr) continue;
      query_.terms.push_back(TermOf(term, *postings, weight, inherited));
    }
    unit_base_ += 1 + last_unit;
    return static_cast<uint32_t>(units.size()) + pairs / 2;
  }

  uint32_t KnownUnits() const {
    std::unordered_set<uint32_t> units;
    for (const QueryTerm& term : query_.terms) {
      if (term.postings->df < kCommonShare * passages_ + 3.0 && term.sort != TermSort::kStamp) {
        units.insert(term.unit);
      }
    }
    return static_cast<uint32_t>(units.size());
  }

  bool IsRare(const Term& term) const {
    const Postings* postings = index_.Find(term.key);
    return postings != nullptr && postings->all <= 0.02 * passages_ + 3.0;
  }

  void Unpack() {
    for (QueryTerm& term : query_.terms)
      term.dense = index_.Dense(term.key, *term.postings);
  }

  // "sports cabinet": two words that the session has only together say no more than one.
  void JoinPhrases() {
    for (size_t i = 0; i + 1 < query_.terms.size(); ++i) {
      QueryTerm& first = query_.terms[i];
      QueryTerm& second = query_.terms[i + 1];
      if (first.sort != TermSort::kWord || second.sort != TermSort::kWord) continue;
      if (second.position != first.position + 1 || second.inherited != first.inherited) continue;
      if (first.unit == second.unit || !Together(first, second)) continue;
      const uint32_t from = second.unit;
      for (QueryTerm& term : query_.terms) {
        if (term.unit == from) term.unit = first.unit;
      }
      first.weight *= kPhraseWeight;
      second.weight *= kPhraseWeight;
      uint32_t& units = first.inherited ? query_.inherited_units : query_.own_units;
      units -= units > 1 ? 1 : 0;
    }
  }

  // Which terms of a run say little beside the one before them.
  void LinkRuns() {
    for (QueryTerm& term : query_.terms) {
      if (term.sort != TermSort::kPair && term.sort != TermSort::kRunWord) continue;
      for (const QueryTerm& before : query_.terms) {
        const uint32_t apart = term.position - before.position;
        if (before.unit != term.unit || before.sort != term.sort) continue;
        if (before.position < term.position && apart <= 2) {
          term.info_after[apart - 1] = InfoAfter(before, term);
        }
      }
    }
  }

  // What is kept is in the order of the text.
  void KeepRarest() {
    auto& terms = query_.terms;
    const auto value = [](const QueryTerm& term) { return term.weight * term.idf; };
    std::stable_sort(terms.begin(), terms.end(),
                     [&](const auto& a, const auto& b) { return value(a) > value(b); });
    if (terms.size() > kQueryTermsMax) terms.resize(kQueryTermsMax);
    std::stable_sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) {
      return a.unit != b.unit ? a.unit < b.unit : a.position < b.position;
    });
  }

 private:
  QueryTerm TermOf(const Term& term, const Postings& postings, double weight,
                   bool inherited) const {
    QueryTerm found;
    found.postings = &postings;
    found.key = term.key;
    found.text = term.text;
    found.sort = term.sort;
    // Syllables of Thai stand beside its words: alone they say something, together nothing more.
    if (term.sort == TermSort::kPair && !IsCjk(CharactersOf(term.text).front().code_point)) {
      found.sort = TermSort::kSingle;
    }
    found.inherited = inherited;
    found.inside = term.inside;
    found.unit = unit_base_ + term.unit;
    found.position = term.position;
    found.named = term.named && !inherited;
    found.proper = found.named && cased_names_;
    found.weight = weight * SortWeight(term) * (found.named ? kNameWeight : 1.0);
    const double df = std::max(1u, postings.df);
    found.idf = std::log1p(std::max(0.0, passages_ - df + 0.5) / (df + 0.5));
    const double background = kBackgroundTurns * BackgroundShare(term);
    const auto info = [&](double count) {
      return std::max(0.0, std::log((passages_ + kBackgroundTurns) / (count + background)));
    };
    const double share = term.sort == TermSort::kPair ? EndingShare(term.text) : 1.0;
    found.info_user = share * info(std::max(1u, postings.df_user));
    found.info_any = share * info(std::max(1u, postings.all));
    return found;
  }

  static bool Together(const QueryTerm& one, const QueryTerm& other) {
    const uint32_t fewer = std::min(one.postings->all, other.postings->all);
    const uint32_t more = std::max(one.postings->all, other.postings->all);
    if (fewer < 3 || more > kPhraseEntriesMax) return false;
    return Both(one, other) * 5 >= fewer * 4;
  }

  // -ln of the chance that a passage with `before` has `term`; unbounded for common terms, whose
  // own info is low anyway.
  static double InfoAfter(const QueryTerm& before, const QueryTerm& term) {
    if (std::max(before.postings->all, term.postings->all) > kPhraseEntriesMax) return 1e9;
    return std::log((before.postings->all + 1.0) / (Both(before, term) + 1.0));
  }

  // Passages that have both.
  static uint32_t Both(const QueryTerm& one, const QueryTerm& other) {
    uint32_t both = 0;
    if (one.dense != nullptr && other.dense != nullptr) {
      const auto a = one.dense->bits();
      const auto b = other.dense->bits();
      for (size_t word = 0; word < std::min(a.size(), b.size()); ++word)
        both += static_cast<uint32_t>(__builtin_popcountll(a[word] & b[word]));
      return both;
    }
    if (one.dense != nullptr) return Both(other, one);
    if (other.dense != nullptr) {
      ForEachPosting(*one.postings, [&](uint32_t passage, TermCounts) {
        if (other.dense->At(passage) != nullptr) ++both;
      });
      return both;
    }
    std::vector<uint32_t> passages;
    passages.reserve(one.postings->all);
    ForEachPosting(*one.postings,
                   [&](uint32_t passage, TermCounts) { passages.push_back(passage); });
    ForEachPosting(*other.postings, [&](uint32_t passage, TermCounts) {
      if (std::binary_search(passages.begin(), passages.end(), passage)) ++both;
    });
    return both;
  }

  Query& query_;
  const RecallIndex& index_;
  double passages_;
  bool cased_names_ = true;
  uint32_t unit_base_ = 0;
  std::unordered_set<TermKey> keys_;
};

// Days that the message names are also days on which something was said.
void AddStamps(std::vector<Term>& terms) {
  std::vector<Term> stamps;
  for (const Term& term : terms) {
    if (term.sort != TermSort::kDate || term.text.size() < 10) continue;
    Term stamp = term;
    stamp.sort = TermSort::kStamp;
    stamp.key = KeyOf(TermSort::kStamp, stamp.text);
    stamps.push_back(std::move(stamp));
  }
  terms.insert(terms.end(), stamps.begin(), stamps.end());
}

}  // namespace

Query BuildQuery(Analyser& analyser, const RecallIndex& index, const Question& question) {
  AnalyseOptions options;
  options.bytes_max = kQueryBytesMax;
  options.now = question.time;
  options.fallback = index.MainLanguage();
  index.TrimDense();
  Query query;
  Analysed own = analyser.Analyse(question.text, options);
  query.cues = CuesOf(own.folded);
  query.digest = RecallIndex::DigestOf(own);
  AddStamps(own.terms);
  Builder builder(index, query);
  builder.SetLanguage(own.language);
  query.own_units = builder.Take(own.terms, 1.0, false);
  query.own_known = builder.KnownUnits();

  // What was said last matters as far as the message names little itself.
  const bool points = query.cues.anaphoric && query.own_known == 0;
  const bool leans =
      query.own_known < 2 && query.own_units <= (points ? kPointingUnitsMax : kLeaningUnitsMax);
  if (leans && !query.cues.chat && !query.cues.task) {
    const Analysed user = analyser.Analyse(question.last_user, options);
    Analysed answer = analyser.Analyse(question.last_answer, options);
    std::erase_if(answer.terms, [&](const Term& term) { return !builder.IsRare(term); });
    if (answer.terms.size() > kAnswerTermsMax) {
      std::stable_sort(answer.terms.begin(), answer.terms.end(), [&](const Term& a, const Term& b) {
        return index.Find(a.key)->all < index.Find(b.key)->all;
      });
      answer.terms.resize(kAnswerTermsMax);
    }
    query.inherited_units += builder.Take(user.terms, kLastUserWeight, true);
    query.inherited_units += builder.Take(answer.terms, kLastAnswerWeight, true);
  }
  builder.KeepRarest();
  builder.Unpack();
  builder.JoinPhrases();
  builder.LinkRuns();
  return query;
}

}  // namespace tenuto
