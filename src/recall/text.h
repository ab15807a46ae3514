// From a text to the terms that the index holds and a query asks for: NFKC and case folding, word
// breaks (ICU's dictionary for Thai), stems where the language is clear, pairs for Chinese,
// Japanese and Korean, identifiers whole and split, numbers and days in one spelling, no stop
// words.
//
// An Analyser is thread-compatible: one thread at a time. The same text, moment and fallback give
// the same terms. Whoever changes what comes out raises `kAnalyserVersion`: indexes are rebuilt.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "recall/dates.h"
#include "recall/language.h"

namespace tenuto {

inline constexpr uint32_t kAnalyserVersion = 5;
inline constexpr size_t kQueryBytesMax = 100 * kKiB;
inline constexpr size_t kTurnTextBytesMax = 1 * kMiB;

enum class TermSort : uint8_t {
  kWord,
  kIdentifier,  // the whole of parseLedger
  kPart,        // a word inside an identifier
  kNumber,
  kRunWord,  // a word of a script without spaces, by a dictionary
  kPair,     // two characters of a script without spaces
  kSingle,   // one Han character
  kDate,     // a day named in the text
  kStamp,    // the day on which it was said
};

// What terms are called inside an index: 36 bits of a hash of sort class and text.
using TermKey = uint64_t;
inline constexpr uint64_t kTermKeyMask = (uint64_t{1} << 36) - 1;

struct Term {
  TermKey key = 0;
  TermSort sort = TermSort::kWord;
  bool asked = false;     // stands in a sentence that asks
  bool inside = false;    // a single character that pairs have as well
  bool edge = false;      // ... the first or last of its run: perhaps a word of its own
  bool named = false;     // capitalised where only names are, or an identifier
  uint32_t unit = 0;      // terms of one word, identifier, run or day share it
  uint32_t position = 0;  // in tokens
  uint32_t sentence = 0;
  std::string text;
  std::string word;  // kWord with AnalyseOptions::keep_words: as written, case folded
};

struct Analysed {
  std::vector<Term> terms;
  Language language = Language::kUnknown;
  uint32_t tokens = 0;  // words, numbers and characters, stop words included
  uint32_t units = 0;
  uint32_t sentences = 0;
  uint32_t asking = 0;      // sentences that ask
  bool has_number = false;  // a number that is no day
  std::string folded;       // the clean text, case folded
};

struct AnalyseOptions {
  size_t bytes_max = kTurnTextBytesMax;
  Moment now;
  Language fallback = Language::kUnknown;  // where the text does not say
  bool keep_words = false;
};

struct TextTools;  // stemmers and break iterators

class Analyser {
 public:
  Analyser();
  ~Analyser();
  Analyser(Analyser&&) noexcept;
  Analyser& operator=(Analyser&&) noexcept;

  Analysed Analyse(std::string_view text, const AnalyseOptions& options);
  // A kWord term's text for a word of that language; `word` as Term::word.
  std::string Stem(std::string_view word, Language language);

 private:
  std::unique_ptr<TextTools> tools_;
};

TermKey KeyOf(TermSort sort, std::string_view text);
// The term of the day on which something was said.
Term StampTerm(Moment said);

}  // namespace tenuto
