#include "recall/excerpt.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recall/dates.h"
#include "recall/text.h"

namespace tenuto {
namespace {

constexpr size_t kTermsMax = 64;  // a bit each
constexpr uint32_t kWordBytesMax = 32;
constexpr size_t kEndingBytesMax = 5;  // of a word, behind its stem
constexpr size_t kEndingBytesMaxWide = 12;

enum class Border : uint8_t { kInside, kWord, kSentence };

// The smallest thing that is quoted or not: a word, a mark, a character of a script without spaces.
struct Atom {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t words_before = 0;
  Border border = Border::kInside;  // what begins here
};

struct Found {
  uint32_t atom = 0;
  uint32_t term = 0;
};

// Half-open range of atoms [first, last).
struct Span {
  size_t first = 0;
  size_t last = 0;
};

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool IsWide(std::string_view text) {
  return !text.empty() && static_cast<unsigned char>(text.front()) >= 0x80;
}

// Stemmers cut endings and change at most the last letter of what they keep: happy, happi.
bool HasStem(std::string_view word, std::string_view stem) {
  const auto differs = std::mismatch(word.begin(), word.end(), stem.begin(), stem.end());
  const auto same = static_cast<size_t>(differs.first - word.begin());
  const size_t ending = IsWide(stem) ? kEndingBytesMaxWide : kEndingBytesMax;
  if (same == stem.size()) return same > 0 && word.size() <= same + ending;
  return stem.size() >= 4 && same + 1 == stem.size() && word.size() <= stem.size() + 2;
}

// Takes the text as it is, not cleaned, because ranges of it are wanted: the lexer takes what is no
// UTF-8 for marks of one byte, and an invisible character inside a word only costs that word.
class Cutter {
 public:
  Cutter(std::string_view text, std::span<const std::string> terms)
      : text_(text), terms_(terms.first(std::min(terms.size(), kTermsMax))) {}

  TextRange Choose(uint32_t words_max) {
    words_max_ = words_max;
    const std::vector<Piece> pieces = LexText(text_);
    Take(pieces);
    const Span all = {0, atoms_.size()};
    if (atoms_.empty() || words_max == 0) return {};
    if (Fits(all) && text_.size() <= BytesMax()) return {0, static_cast<uint32_t>(text_.size())};
    TakeDates(pieces);
    const Span span = Around(Densest());
    return {atoms_[span.first].begin, atoms_[span.last - 1].end};
  }

 private:
  void Take(std::span<const Piece> pieces) {
    uint32_t before = 0;
    for (const Piece& piece : pieces) {
      const bool spaced = piece.begin == 0 || IsSpace(text_[piece.begin - 1]);
      const bool begins = begins_sentence_ || BreaksLine(before, piece.begin);
      const Border border = begins                         ? Border::kSentence
                            : piece.kind != LexKind::kMark ? Border::kWord
                            : spaced                       ? Border::kWord
                                                           : Border::kInside;
      before = piece.end;
      begins_sentence_ = false;
      switch (piece.kind) {
        case LexKind::kWord:
        case LexKind::kNumber:
          TakeWord(piece, border);
          break;
        case LexKind::kCjk:
        case LexKind::kDense:
          TakeRun(piece, border);
          break;
        case LexKind::kMark:
          atoms_.push_back({piece.begin, piece.end, words_, border});
          begins_sentence_ = EndsSentence(piece);
          break;
      }
    }
    begins_sentence_ = false;
  }

  bool BreaksLine(uint32_t from, uint32_t to) const {
    return text_.substr(from, to - from).find('\n') != std::string_view::npos;
  }

  bool EndsSentence(const Piece& mark) const {
    const std::string_view text = text_.substr(mark.begin, mark.end - mark.begin);
    if (text == "." || text == "!" || text == "?") {
      return mark.end == text_.size() || IsSpace(text_[mark.end]);
    }
    return text == "\u3002" || text == "\uff01" || text == "\uff1f";
  }

  void TakeWord(const Piece& piece, Border border) {
    const auto atom = static_cast<uint32_t>(atoms_.size());
    uint32_t begin = piece.begin;
    // What is too long for a word (base64, a hash) counts as several and can be cut into.
    while (piece.end - begin > kWordBytesMax) {
      const std::string_view rest = text_.substr(begin, piece.end - begin);
      const auto end = begin + static_cast<uint32_t>(ClipUtf8(rest, kExcerptWordBytes).size());
      atoms_.push_back({begin, end, words_++, std::exchange(border, Border::kInside)});
      begin = end;
    }
    atoms_.push_back({begin, piece.end, words_++, border});
    for (const uint32_t term : TermsOf(piece))
      found_.push_back({atom, term});
  }

  const std::vector<uint32_t>& TermsOf(const Piece& piece) {
    const auto [entry, fresh] = known_.try_emplace(piece.folded);
    if (!fresh) return entry->second;
    std::string word = WithoutMarks(piece.folded);
    std::erase(word, '_');
    const size_t zeros = piece.kind == LexKind::kNumber ? word.find_first_not_of('0') : 0;
    if (zeros != std::string::npos) word.erase(0, zeros);
    for (uint32_t i = 0; i < terms_.size(); ++i) {
      const bool fits =
          piece.kind == LexKind::kNumber ? word == terms_[i] : HasStem(word, terms_[i]);
      if (fits) entry->second.push_back(i);
    }
    return entry->second;
  }

  void TakeRun(const Piece& piece, Border border) {
    const std::string_view run = text_.substr(piece.begin, piece.end - piece.begin);
    for (const Character& c : CharactersOf(run)) {
      const bool mark = u_charType(static_cast<UChar32>(c.code_point)) == U_NON_SPACING_MARK;
      if (c.begin > 0 && mark) continue;  // stays with the character that it is over or under
      if (c.begin > 0) atoms_.back().end = piece.begin + c.begin;
      atoms_.push_back(
          {piece.begin + c.begin, piece.end, words_++, c.begin == 0 ? border : Border::kWord});
      for (uint32_t i = 0; i < terms_.size(); ++i) {
        if (terms_[i].empty() || !run.substr(c.begin).starts_with(terms_[i])) continue;
        found_.push_back({static_cast<uint32_t>(atoms_.size() - 1), i});
      }
    }
  }

  // Days are terms in a spelling of their own.
  void TakeDates(std::span<const Piece> pieces) {
    for (const DateMention& date : FindDates(text_, pieces, Moment())) {
      const std::string full = DayText(date.day);
      const std::string short_text = DayText({0, date.day.month, date.day.day});
      const auto atom =
          std::lower_bound(atoms_.begin(), atoms_.end(), date.begin,
                           [](const Atom& one, uint32_t begin) { return one.begin < begin; });
      if (atom == atoms_.end()) continue;
      for (uint32_t i = 0; i < terms_.size(); ++i) {
        if (terms_[i] != full && terms_[i] != short_text) continue;
        found_.push_back({static_cast<uint32_t>(atom - atoms_.begin()), i});
      }
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.atom < b.atom; });
  }

  uint64_t BytesMax() const { return uint64_t{words_max_} * kExcerptWordBytes; }

  bool Fits(Span span) const {
    const uint32_t words_end = span.last < atoms_.size() ? atoms_[span.last].words_before : words_;
    const Atom& first = atoms_[span.first];
    return words_end - first.words_before <= words_max_ &&
           atoms_[span.last - 1].end - first.begin <= BytesMax();
  }

  // The shortest span with the most different terms that fits, the first of equals.
  Span Densest() const {
    Span best = {0, 1};
    size_t best_terms = 0;
    std::vector<uint32_t> counts(terms_.size());
    size_t terms = 0;
    size_t left = 0;
    for (const Found& right : found_) {
      terms += counts[right.term]++ == 0 ? 1 : 0;
      const size_t last = right.atom + 1;
      while (found_[left].atom < right.atom &&
             (counts[found_[left].term] > 1 || !Fits({found_[left].atom, last}))) {
        terms -= --counts[found_[left].term] == 0 ? 1 : 0;
        ++left;
      }
      const Span span = {found_[left].atom, last};
      const bool shorter = span.last - span.first < best.last - best.first;
      if (terms > best_terms || (terms == best_terms && shorter)) {
        best = span;
        best_terms = terms;
      }
    }
    return best;
  }

  size_t SentenceBegin(size_t atom) const {
    while (atom > 0 && atoms_[atom].border != Border::kSentence)
      --atom;
    return atom;
  }
  size_t SentenceEnd(size_t atom) const {
    ++atom;
    while (atom < atoms_.size() && atoms_[atom].border != Border::kSentence)
      ++atom;
    return atom;
  }

  // As many whole sentences as fit; where not even the first does, as many words.
  Span Around(Span core) const {
    Span span = {SentenceBegin(core.first), SentenceEnd(core.last - 1)};
    if (!Fits(span)) return Words(core, span);
    bool after = span.last < atoms_.size();
    bool before = span.first > 0;
    while (after || before) {
      if (after) {  // what follows explains more often than what went before
        const Span wider = {span.first, SentenceEnd(span.last)};
        after = Fits(wider);
        if (after) span = wider;
        after = after && span.last < atoms_.size();
      }
      if (before) {
        const Span wider = {SentenceBegin(span.first - 1), span.last};
        before = Fits(wider);
        if (before) span = wider;
        before = before && span.first > 0;
      }
    }
    return span;
  }

  // `core` in the middle of what fits of `sentences`, from the first one's start if that can be.
  Span Words(Span core, Span sentences) const {
    Span span = core;
    const bool from_start = Fits({sentences.first, core.last});
    if (from_start) span.first = sentences.first;
    bool grows = true;
    while (grows) {
      grows = false;
      if (span.last < sentences.last && Fits({span.first, span.last + 1})) {
        ++span.last;
        grows = true;
      }
      if (span.first > sentences.first && Fits({span.first - 1, span.last})) {
        --span.first;
        grows = true;
      }
    }
    Span trimmed = span;
    while (trimmed.first < core.first && atoms_[trimmed.first].border == Border::kInside)
      ++trimmed.first;
    while (trimmed.last > core.last && trimmed.last < atoms_.size() &&
           atoms_[trimmed.last].border == Border::kInside) {
      --trimmed.last;
    }
    // Where there is no border to either side the text has no words: characters have to do.
    const bool begins = atoms_[trimmed.first].border != Border::kInside;
    const bool ends =
        trimmed.last == atoms_.size() || atoms_[trimmed.last].border != Border::kInside;
    return {begins ? trimmed.first : span.first, ends ? trimmed.last : span.last};
  }

  std::string_view text_;
  std::span<const std::string> terms_;
  std::vector<Atom> atoms_;
  std::vector<Found> found_;  // in the order of the text
  std::unordered_map<std::string, std::vector<uint32_t>> known_;
  uint32_t words_ = 0;
  uint32_t words_max_ = 0;
  bool begins_sentence_ = true;
};

}  // namespace

TextRange ChooseExcerpt(std::string_view text, std::span<const std::string> terms,
                        uint32_t words_max) {
  return Cutter(ClipUtf8(text, kTurnTextBytesMax), terms).Choose(words_max);
}

}  // namespace tenuto
