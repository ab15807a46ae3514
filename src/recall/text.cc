#include "recall/text.h"

#include <libstemmer.h>
#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/utf8.h"
#include "recall/lex.h"

namespace tenuto {
namespace {

constexpr size_t kWordBytesMax = 64;        // longer ones are no words: hashes, base64
constexpr size_t kHiraganaBytes = 3;        // one character
constexpr size_t kDenseRunBytesMax = 4096;  // of one piece that a dictionary cuts into words

struct StemmerEnd {
  void operator()(sb_stemmer* stemmer) const { sb_stemmer_delete(stemmer); }
};

// A sentence of the clean text.
struct Sentence {
  uint32_t end = 0;
  bool asks = false;
};

bool EndsSentence(std::string_view text, size_t at, size_t& length) {
  const char c = text[at];
  length = 1;
  if (c == '\n' || c == '!' || c == '?') return true;
  if (c == '.') return at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\n';
  length = 3;
  return text.substr(at).starts_with("\u3002");
}

std::vector<Sentence> SentencesOf(std::string_view folded) {
  std::vector<Sentence> sentences;
  size_t begin = 0;
  const auto close = [&](size_t end) {
    const std::string_view text = folded.substr(begin, end - begin);
    if (text.find_first_not_of(" \n.!?") != std::string_view::npos) {
      sentences.push_back({static_cast<uint32_t>(end), IsQuestionSentence(text)});
    }
    begin = end;
  };
  for (size_t at = 0; at < folded.size(); ++at) {
    size_t length = 0;
    if (!EndsSentence(folded, at, length)) continue;
    close(at + length);
    at += length - 1;
  }
  if (begin < folded.size()) close(folded.size());
  return sentences;
}

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}
bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}

// Where parseLedger, parse_ledger, x86Code and HTTPServer come apart; {whole} for a plain word.
std::vector<std::string_view> PartsOf(std::string_view word) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t at = 1; at <= word.size(); ++at) {
    bool cut = at == word.size() || word[at] == '_';
    if (!cut && word[at - 1] != '_') {
      const char before = word[at - 1];
      const char c = word[at];
      const bool next_lower = at + 1 < word.size() && IsLower(word[at + 1]);
      cut = (IsLower(before) && IsUpper(c)) || (IsUpper(before) && IsUpper(c) && next_lower) ||
            (IsDigit(before) != IsDigit(c));
    }
    if (!cut) continue;
    while (begin < at && word[begin] == '_')
      ++begin;
    if (begin < at) parts.push_back(word.substr(begin, at - begin));
    begin = at;
  }
  return parts;
}

}  // namespace

struct TextTools {
  std::array<std::unique_ptr<sb_stemmer, StemmerEnd>, kLanguages> stemmers;
  std::unique_ptr<icu::BreakIterator> words;

  std::string Stem(std::string_view word, Language language) {
    const char* name = StemmerName(language);
    if (name != nullptr) {
      auto& stemmer = stemmers[static_cast<size_t>(language)];
      if (!stemmer) stemmer.reset(sb_stemmer_new(name, nullptr));
      if (stemmer) {
        const std::basic_string<sb_symbol> symbols(word.begin(), word.end());
        const sb_symbol* stem =
            sb_stemmer_stem(stemmer.get(), symbols.data(), static_cast<int>(symbols.size()));
        if (stem != nullptr) {
          const auto length = static_cast<size_t>(sb_stemmer_length(stemmer.get()));
          return WithoutMarks(std::string(stem, stem + length));
        }
      }
    }
    return WithoutMarks(word);
  }

  // Byte offsets at which the words of a run end, by ICU's dictionary; {size} where it has none.
  std::vector<size_t> WordEnds(std::string_view run) {
    std::vector<size_t> ends;
    UErrorCode status = U_ZERO_ERROR;
    if (!words) {
      words.reset(icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), status));
    }
    if (words && U_SUCCESS(status)) {
      const auto text = icu::UnicodeString::fromUTF8(
          icu::StringPiece(run.data(), static_cast<int32_t>(run.size())));
      words->setText(text);
      size_t bytes = 0;
      int32_t before = 0;
      words->first();
      for (int32_t end = words->next(); end != icu::BreakIterator::DONE; end = words->next()) {
        std::string part;
        text.tempSubStringBetween(before, end).toUTF8String(part);
        bytes += part.size();
        ends.push_back(std::min(bytes, run.size()));
        before = end;
      }
    }
    if (ends.empty() || ends.back() != run.size()) ends.push_back(run.size());
    return ends;
  }
};

namespace {

// One text on its way to terms.
class Walk {
 public:
  Walk(TextTools& tools, std::string_view text, const AnalyseOptions& options)
      : tools_(tools), options_(options), clean_(CleanText(text, options.bytes_max)) {
    out_.folded = FoldCase(clean_);
    pieces_ = LexText(clean_);
    // Folding may change lengths, so sentences are found where the pieces are.
    sentences_ = SentencesOf(clean_);
    out_.sentences = static_cast<uint32_t>(sentences_.size());
    out_.asking = static_cast<uint32_t>(std::count_if(
        sentences_.begin(), sentences_.end(), [](const Sentence& one) { return one.asks; }));
  }

  Analysed Run() {
    TakeDates();
    out_.language = DetectLanguage(pieces_, options_.fallback);
    LexKind before = LexKind::kMark;
    for (const Piece& piece : pieces_) {
      // Thai has no full stop: a space ends what was said.
      if (piece.kind == LexKind::kDense && before == LexKind::kDense) ++spaces_;
      before = piece.kind;
      if (piece.kind == LexKind::kMark) continue;
      StartAt(piece.begin);
      switch (piece.kind) {
        case LexKind::kWord:
          Word(piece);
          break;
        case LexKind::kNumber:
          Number(piece);
          break;
        case LexKind::kCjk:
          Cjk(piece.folded);
          break;
        case LexKind::kDense:
          Dense(std::string_view(piece.folded));
          break;
        case LexKind::kMark:
          break;
      }
    }
    return std::move(out_);
  }

 private:
  void StartAt(uint32_t begin) {
    while (sentence_ < sentences_.size() && sentences_[sentence_].end <= begin)
      ++sentence_;
    asked_ = sentence_ < sentences_.size() && sentences_[sentence_].asks;
  }

  void Add(TermSort sort, std::string text, std::string word = {}) {
    if (text.empty() || text.size() > kWordBytesMax) return;
    Term term;
    term.word = std::move(word);
    term.key = KeyOf(sort, text);
    term.sort = sort;
    term.asked = asked_;
    term.inside = inside_;
    term.edge = edge_;
    term.named = named_;
    term.unit = out_.units;
    term.position = out_.tokens - 1;
    term.sentence = static_cast<uint32_t>(sentence_) + spaces_;
    term.text = std::move(text);
    out_.terms.push_back(std::move(term));
  }

  // Days become terms and leave the text, so that "3 May" is not also a 3 and a word.
  void TakeDates() {
    const std::vector<DateMention> dates = FindDates(clean_, pieces_, options_.now);
    if (dates.empty()) return;
    for (const DateMention& date : dates) {
      StartAt(date.begin);
      ++out_.units;
      ++out_.tokens;
      const Day full = LatestYear(date.day, DayOf(options_.now));
      Add(TermSort::kDate, DayText({0, full.month, full.day}));
      if (full.year > 0) Add(TermSort::kDate, DayText(full));
      std::fill(clean_.begin() + date.begin, clean_.begin() + date.end, ' ');
    }
    sentence_ = 0;
    first_word_ = true;
    pieces_ = LexText(clean_);
  }

  // Capitalised inside a sentence. In German that is every noun; those too are what it is about.
  bool IsNamed(const Piece& piece) {
    const bool first = std::exchange(first_word_, false);
    if (first) return false;
    const std::string_view rest = std::string_view(clean_).substr(piece.begin);
    const size_t length = Utf8Length(rest);
    return length > 0 && u_isupper(static_cast<UChar32>(CodePointOf(rest.substr(0, length)))) != 0;
  }

  void Word(const Piece& piece) {
    ++out_.tokens;
    named_ = IsNamed(piece);
    const std::string_view as_written =
        std::string_view(clean_).substr(piece.begin, piece.end - piece.begin);
    const std::vector<std::string_view> parts = PartsOf(as_written);
    if (parts.size() > 1) {
      ++out_.units;
      named_ = true;
      std::string whole;
      std::copy_if(piece.folded.begin(), piece.folded.end(), std::back_inserter(whole),
                   [](char c) { return c != '_'; });
      if (HasDigit(whole)) out_.has_number = true;
      Add(TermSort::kIdentifier, std::move(whole));
      for (const std::string_view part : parts) {
        const std::string folded = FoldCase(part);
        if (folded.size() > 1) Add(TermSort::kPart, PartStem(folded));
      }
      return;
    }
    if (piece.folded.size() < 2 || IsStopWord(piece.folded)) return;
    ++out_.units;
    Add(TermSort::kWord, tools_.Stem(piece.folded, out_.language),
        options_.keep_words ? piece.folded : std::string());
  }

  static bool HasDigit(std::string_view text) {
    return std::any_of(text.begin(), text.end(), IsDigit);
  }

  // Parts of identifiers are English, whatever the text around them is.
  std::string PartStem(const std::string& folded) {
    if (HasDigit(folded)) return folded;
    return tools_.Stem(folded, out_.language == Language::kUnknown ? Language::kEn : out_.language);
  }

  void Number(const Piece& piece) {
    ++out_.tokens;
    ++out_.units;
    out_.has_number = true;
    const size_t zeros = piece.folded.find_first_not_of('0');
    Add(TermSort::kNumber, zeros == std::string::npos ? "0" : piece.folded.substr(zeros));
  }

  void Cjk(std::string_view run) {
    const std::vector<Character> chars = CharactersOf(run);
    size_t begin = 0;
    size_t i = 0;
    while (i < chars.size()) {
      const size_t at = chars[i].begin;
      const size_t stop = StopPrefixBytes(run.substr(at));
      if (stop == 0 || (stop == kHiraganaBytes && InsideHiragana(chars, i))) {
        ++i;
        continue;
      }
      Pairs(run.substr(begin, at - begin));
      ++out_.tokens;
      begin = at + stop;
      while (i < chars.size() && chars[i].begin < begin)
        ++i;
    }
    Pairs(run.substr(begin));
  }

  // A particle stands beside other scripts; between Hiragana it is more likely part of a word.
  static bool InsideHiragana(std::span<const Character> chars, size_t i) {
    if (!IsHiragana(chars[i].code_point)) return false;
    const bool before = i == 0 || IsHiragana(chars[i - 1].code_point);
    const bool after = i + 1 == chars.size() || IsHiragana(chars[i + 1].code_point);
    return before && after && chars.size() > 1;
  }

  // What stands between stop words: overlapping pairs, and each Han character by itself.
  void Pairs(std::string_view run) {
    const std::vector<Character> chars = CharactersOf(run);
    if (chars.empty()) return;
    ++out_.units;
    for (size_t i = 0; i < chars.size(); ++i) {
      ++out_.tokens;
      if (i + 1 < chars.size()) Add(TermSort::kPair, Slice(run, chars, i, 2));
      if (IsHan(chars[i].code_point) || chars.size() == 1) {
        inside_ = chars.size() > 1;
        edge_ = i == 0 || i + 1 == chars.size();
        Add(TermSort::kSingle, Slice(run, chars, i, 1));
        inside_ = edge_ = false;
      }
    }
  }

  static std::string Slice(std::string_view run, std::span<const Character> chars, size_t first,
                           size_t count) {
    const size_t end = first + count < chars.size() ? chars[first + count].begin : run.size();
    return std::string(run.substr(chars[first].begin, end - chars[first].begin));
  }

  // Words by the dictionary; names that it does not know fall apart differently in different
  // surroundings, so pairs of syllables stand beside them.
  void Dense(std::string_view run) {
    while (!run.empty()) {
      const std::string_view head = ClipUtf8(run, kDenseRunBytesMax);
      DenseWords(head);
      run.remove_prefix(head.size());
    }
  }

  void DenseWords(std::string_view run) {
    size_t begin = 0;
    std::string before;  // the last syllable of the content word right before
    for (const size_t end : tools_.WordEnds(run)) {
      const std::string_view word = run.substr(begin, end - begin);
      begin = end;
      ++out_.tokens;
      if (word.empty() || IsDenseStopWord(word)) {
        before.clear();
        continue;
      }
      if (before.empty()) ++out_.units;
      const std::vector<std::string> syllables = SyllablesOf(word);
      if (syllables.size() > 1) Add(TermSort::kRunWord, std::string(word));
      for (const std::string& syllable : syllables) {
        if (!before.empty()) Add(TermSort::kPair, before + syllable);
        before = syllable;
      }
    }
  }

  // A base character with the marks over and under it.
  static std::vector<std::string> SyllablesOf(std::string_view word) {
    std::vector<std::string> found;
    const std::vector<Character> chars = CharactersOf(word);
    for (size_t i = 0; i < chars.size(); ++i) {
      const auto type = u_charType(static_cast<UChar32>(chars[i].code_point));
      const std::string one = Slice(word, chars, i, 1);
      if (type == U_NON_SPACING_MARK && !found.empty()) {
        found.back() += one;
      } else {
        found.push_back(one);
      }
    }
    return found;
  }

  TextTools& tools_;
  const AnalyseOptions& options_;
  std::string clean_;
  std::vector<Piece> pieces_;
  std::vector<Sentence> sentences_;
  Analysed out_;
  size_t sentence_ = 0;
  uint32_t spaces_ = 0;  // sentences that no mark ended
  bool asked_ = false;
  bool inside_ = false;
  bool edge_ = false;
  bool named_ = false;
  bool first_word_ = true;  // of its sentence
};

}  // namespace

Analyser::Analyser() : tools_(std::make_unique<TextTools>()) {}
Analyser::~Analyser() = default;
Analyser::Analyser(Analyser&&) noexcept = default;
Analyser& Analyser::operator=(Analyser&&) noexcept = default;

Analysed Analyser::Analyse(std::string_view text, const AnalyseOptions& options) {
  return Walk(*tools_, text, options).Run();
}

std::string Analyser::Stem(std::string_view word, Language language) {
  return tools_->Stem(word, language);
}

// FNV-1a with a last mix (splitmix64): short keys, well spread, the same on every machine.
TermKey KeyOf(TermSort sort, std::string_view text) {
  // Words, identifiers and their parts meet: "ledger", parseLedger; days and stamps do not.
  const bool is_word = sort == TermSort::kIdentifier || sort == TermSort::kPart ||
                       sort == TermSort::kPair || sort == TermSort::kSingle ||
                       sort == TermSort::kRunWord;
  const TermSort sort_class = is_word ? TermSort::kWord : sort;
  uint64_t hash = 0xcbf29ce484222325u ^ static_cast<uint64_t>(sort_class);
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  hash ^= hash >> 30;
  hash *= 0xbf58476d1ce4e5b9u;
  hash ^= hash >> 27;
  hash *= 0x94d049bb133111ebu;
  hash ^= hash >> 31;
  return hash & kTermKeyMask;
}

Term StampTerm(Moment said) {
  Term term;
  term.sort = TermSort::kStamp;
  term.text = DayText(DayOf(said));
  term.key = KeyOf(TermSort::kStamp, term.text);
  return term;
}

}  // namespace tenuto
