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
constexpr uint32_t kTogetherMin = 3;    // fewer meetings of two words are chance
constexpr uint32_t kPhraseEntriesMax = 20000;
constexpr size_t kJoinedMax = 4;  // words that may be one elsewhere
constexpr size_t kAnswerTermsMax = 8;
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
  Builder(Analyser& analyser, const RecallIndex& index, Query& query)
      : analyser_(analyser),
        query_(query),
        index_(index),
        passages_(std::max(1u, index.passages_live())) {}

  // German capitalises every noun, so that a capital tells no name.
  void SetLanguage(Language language) { cased_names_ = language != Language::kDe; }

  // Terms of one text; those that were taken before are not taken again. Returns their units.
  uint32_t Take(std::span<const Term> terms, double weight, bool inherited) {
    std::unordered_set<uint32_t> units;
    uint32_t pairs = 0;  // two of them make a word
    uint32_t words = 0;  // of runs, the first of each not counted
    uint32_t last_unit = 0;
    for (const Term& term : terms) {
      const bool faint = term.sort == TermSort::kPair && OnlyHiragana(term.text);
      if (!faint && !units.insert(term.unit).second) {
        pairs += term.sort == TermSort::kPair ? 1 : 0;
        words += term.sort == TermSort::kRunWord ? 1 : 0;
      }
      last_unit = std::max(last_unit, term.unit);
      if (keys_.contains(term.key)) continue;
      TakeForms(term, weight, inherited);
    }
    unit_base_ += 1 + last_unit;
    return static_cast<uint32_t>(units.size()) + pairs / 2 + words;
  }

  // "split kernel state", "lawn mower": words that a turn may have written as one. That says what
  // the first of them says, and more.
  void TakeJoined(std::span<const Term> terms, Language language) {
    for (size_t first = 0; first < terms.size(); ++first) {
      Term whole = terms[first];
      whole.named = false;
      for (size_t at = first + 1; at < std::min(first + kJoinedMax, terms.size()); ++at) {
        if (terms[at].position != terms[at - 1].position + 1 || terms[at].word.empty()) break;
        if (whole.word.empty()) break;
        whole.word += terms[at].word;
        for (const std::string& text : {whole.word, analyser_.Stem(whole.word, language)}) {
          whole.text = text;
          whole.key = KeyOf(whole.sort, text);
          if (index_.Find(whole.key) != nullptr) TakeForms(whole, 1.0, false);
        }
      }
    }
    for (QueryTerm& term : query_.terms)
      term.form = true;
  }

  uint32_t KnownUnits() const {
    std::unordered_set<uint32_t> units;
    for (const QueryTerm& term : query_.terms) {
      if (term.passages < kCommonShare * passages_ + 3.0 && term.sort != TermSort::kStamp) {
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
      size_t next = i + 1;
      while (next + 1 < query_.terms.size() && query_.terms[next].form)
        ++next;
      QueryTerm& second = query_.terms[next];
      if (first.form || second.form) continue;
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
        if (before.position >= term.position || apart > 2) continue;
        // A dictionary's words are words, unless they were seen together often enough to be one.
        const uint32_t fewer = std::min(before.postings->all, term.postings->all);
        if (term.sort == TermSort::kRunWord && fewer < kTogetherMin) continue;
        term.info_after[apart - 1] = InfoAfter(before, term);
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
      if (a.unit != b.unit) return a.unit < b.unit;
      return a.position != b.position ? a.position < b.position : a.form < b.form;
    });
  }

 private:
  struct Counts {  // as in Postings, of all forms of a word
    uint32_t df = 0;
    uint32_t df_user = 0;
    uint32_t all = 0;
  };

  // The term, and what its word is called in turns of other languages, or of none that is clear.
  std::vector<Term> FormsOf(const Term& term) {
    std::vector<Term> forms = {term};
    if (term.word.empty()) return forms;
    for (size_t at = 0; at < kLanguages; ++at) {
      const auto language = static_cast<Language>(at);
      if (!index_.Speaks(language)) continue;
      Term form = term;
      form.text = analyser_.Stem(term.word, language);
      const auto same = [&](const Term& other) { return other.text == form.text; };
      if (std::any_of(forms.begin(), forms.end(), same)) continue;
      form.key = KeyOf(form.sort, form.text);
      forms.push_back(std::move(form));
    }
    return forms;
  }

  // Forms of a word are one word: what is said of how often it occurs is said of all together.
  void TakeForms(const Term& term, double weight, bool inherited) {
    Counts counts;
    const size_t first = query_.terms.size();
    for (const Term& form : FormsOf(term)) {
      if (!keys_.insert(form.key).second) continue;
      const Postings* postings = index_.Find(form.key);
      if (postings == nullptr) continue;
      counts.df += postings->df;
      counts.df_user += postings->df_user;
      counts.all += postings->all;
      QueryTerm found = TermOf(form, weight, inherited);
      found.postings = postings;
      found.form = query_.terms.size() > first;
      query_.terms.push_back(std::move(found));
    }
    for (size_t i = first; i < query_.terms.size(); ++i)
      Count(term, counts, query_.terms[i]);
  }

  QueryTerm TermOf(const Term& term, double weight, bool inherited) const {
    QueryTerm found;
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
    return found;
  }

  void Count(const Term& term, const Counts& counts, QueryTerm& found) const {
    found.passages = counts.df;
    const double df = std::max(1u, counts.df);
    found.idf = std::log1p(std::max(0.0, passages_ - df + 0.5) / (df + 0.5));
    const double background = kBackgroundTurns * BackgroundShare(term);
    const auto info = [&](double count) {
      return std::max(0.0, std::log((passages_ + kBackgroundTurns) / (count + background)));
    };
    const double share = term.sort == TermSort::kPair ? EndingShare(term.text) : 1.0;
    found.info_user = share * info(std::max(1u, counts.df_user));
    found.info_any = share * info(std::max(1u, counts.all));
  }

  static bool Together(const QueryTerm& one, const QueryTerm& other) {
    const uint32_t fewer = std::min(one.postings->all, other.postings->all);
    const uint32_t more = std::max(one.postings->all, other.postings->all);
    if (fewer < kTogetherMin || more > kPhraseEntriesMax) return false;
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
        both += CountBits(a[word] & b[word]);
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

  Analyser& analyser_;
  Query& query_;
  const RecallIndex& index_;
  double passages_;
  bool cased_names_ = true;
  uint32_t unit_base_ = 0;
  std::unordered_set<TermKey> keys_;
};

// Days that the message names are also days on which something was said; `today` is no news.
void AddStamps(Moment now, std::vector<Term>& terms) {
  const std::string today = DayText(DayOf(now));
  std::vector<Term> stamps;
  for (const Term& term : terms) {
    if (term.sort != TermSort::kDate || term.text.size() < 10 || term.text == today) continue;
    Term stamp = term;
    stamp.sort = TermSort::kStamp;
    stamp.key = KeyOf(TermSort::kStamp, stamp.text);
    stamps.push_back(std::move(stamp));
  }
  terms.insert(terms.end(), stamps.begin(), stamps.end());
}

}  // namespace

Query BuildQuery(Analyser& analyser, const RecallIndex& index, const Question& question) {
  AnalyseOptions options = index.OptionsAt(question.time);
  options.bytes_max = kQueryBytesMax;
  options.keep_words = true;
  index.TrimDense();
  Query query;
  Analysed own = analyser.Analyse(question.text, options);
  query.cues = CuesOf(own.folded);
  query.digest = RecallIndex::DigestOf(own);
  AddStamps(question.time, own.terms);
  Builder builder(analyser, index, query);
  builder.SetLanguage(own.language);
  builder.TakeJoined(own.terms, own.language);
  query.own_units = builder.Take(own.terms, 1.0, false);
  query.own_known = builder.KnownUnits();

  // What was said last matters as far as the message names little itself.
  const bool points = query.cues.anaphoric && query.own_known == 0;
  const bool leans =
      query.own_known < 2 && query.own_units <= (points ? kPointingUnitsMax : kLeaningUnitsMax);
  if (leans && !query.cues.chat && !query.cues.task) {
    options.keep_words = false;
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
