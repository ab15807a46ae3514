// What the layer knows of languages: stop words, which language a text is in, and the small phrases
// that say what a message wants (a question, thanks, a correction). Tables and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recall/lex.h"

namespace tenuto {

// Languages with a stemmer. kUnknown: no stemming.
enum class Language : uint8_t {
  kUnknown = 0,
  kEn,
  kDe,
  kFr,
  kEs,
  kIt,
  kPt,
  kNl,
  kSv,
  kRu,
  kAr,
};
inline constexpr size_t kLanguages = 11;

// Snowball's name of the language's stemmer, nullptr for kUnknown.
const char* StemmerName(Language language);

// A word that carries no content in one of the languages. `folded` is case folded.
bool IsStopWord(std::string_view folded);

// Bytes of the longest stop word of Chinese, Japanese or Thai at the front of `text`, 0 for none.
size_t StopPrefixBytes(std::string_view text);
// The whole of a word of a script without spaces is a stop word.
bool IsDenseStopWord(std::string_view word);

// The language that most stop words speak for: at least one hit, and more than for any other;
// `fallback` where that is not clear.
Language DetectLanguage(std::span<const Piece> pieces, Language fallback);

// What a message, or what a user wrote in a turn, wants.
struct Cues {
  bool question = false;   // asks something
  bool anaphoric = false;  // leans on what was said before: "that", "there", "and since when?"
  bool chat = false;       // greeting, thanks, praise, talk about the assistant itself
  bool task = false;       // a piece of work that needs no memory: translate, how much is 3 x 4
  bool asks_assistant = false;  // what did YOU say, recommend
  bool personal = false;        // about the speaker: "my", "we"
  bool addresses = false;       // speaks to the assistant: "you"
  bool wants_number = false;    // how much, how many, which code
  bool corrects = false;        // "no wait", "correction", "not ... but", "from now on"
};

// `folded` is the case folded clean text.
Cues CuesOf(std::string_view folded);

// The one cue that turns of the archive are looked at for.
bool Corrects(std::string_view folded);

// A sentence that asks: ends in a question mark, or in a particle that makes a question.
bool IsQuestionSentence(std::string_view folded);

}  // namespace tenuto
