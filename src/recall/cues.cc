#include <algorithm>
#include <initializer_list>

#include "recall/language.h"
#include "recall/phrases.h"

namespace tenuto {
namespace {

// ASCII, Latin and Cyrillic letters take at most two bytes; scripts without spaces take three.
bool HasSpaces(std::string_view phrase) {
  return static_cast<unsigned char>(phrase.front()) < 0xE0;
}

bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z');
}

// Phrases as the clean text would have them. Those of scripts with spaces match whole words only.
class Phrases {
 public:
  Phrases(std::initializer_list<std::string_view> tables) {
    for (const std::string_view table : tables) {
      const std::string clean = CleanText(table, table.size());
      std::string_view left = clean;
      while (!left.empty()) {
        const size_t end = std::min(left.find('|'), left.size());
        if (end > 0) phrases_.emplace_back(left.substr(0, end));
        left.remove_prefix(std::min(end + 1, left.size()));
      }
    }
  }

  // Bytes of the longest phrase at the front of `text`.
  size_t LongestAt(std::string_view text) const {
    size_t longest = 0;
    for (const std::string& phrase : phrases_) {
      if (phrase.size() <= longest || !text.starts_with(phrase)) continue;
      const bool ends = phrase.size() == text.size() || !IsWordByte(text[phrase.size()]);
      if (ends || !HasSpaces(phrase)) longest = phrase.size();
    }
    return longest;
  }

  bool In(std::string_view text) const {
    return std::any_of(phrases_.begin(), phrases_.end(),
                       [&](const std::string& phrase) { return Contains(text, phrase); });
  }

  bool EndOf(std::string_view text) const {
    return std::any_of(phrases_.begin(), phrases_.end(),
                       [&](const std::string& phrase) { return text.ends_with(phrase); });
  }

 private:
  static bool Contains(std::string_view text, std::string_view phrase) {
    for (size_t at = text.find(phrase); at != std::string_view::npos;
         at = text.find(phrase, at + 1)) {
      if (!HasSpaces(phrase)) return true;
      const size_t after = at + phrase.size();
      const bool starts = at == 0 || !IsWordByte(phrase.front()) || !IsWordByte(text[at - 1]);
      if (starts && (after == text.size() || !IsWordByte(text[after]))) return true;
    }
    return false;
  }

  std::vector<std::string> phrases_;
};

size_t WordBytes(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && IsWordByte(text[end]))
    ++end;
  return end;
}

// Nothing is left of the message once small talk and stop words are taken out of it.
bool IsChat(std::string_view folded) {
  constexpr size_t kChatBytesMax = 160;
  if (folded.size() > kChatBytesMax) return false;
  static const Phrases kChat({phrases::kChat, phrases::kDenseChat});
  static const Phrases kWeak({phrases::kWeakChat});
  const bool asks = folded.find('?') != std::string_view::npos;
  bool any = false;
  while (!folded.empty()) {
    if (!IsWordByte(folded.front())) {
      folded.remove_prefix(1);
      continue;
    }
    size_t length = kChat.LongestAt(folded);
    if (length > 0 && (!asks || kWeak.LongestAt(folded) != length)) any = true;
    if (length == 0) length = StopPrefixBytes(folded);
    if (length == 0) {
      length = WordBytes(folded);
      // Punctuation of scripts without spaces is three bytes long and no word.
      if (folded.starts_with("\u3002") || folded.starts_with("\u3001")) {
        length = 3;
      } else if (!IsStopWord(folded.substr(0, length))) {
        return false;
      }
    }
    folded.remove_prefix(length);
  }
  return any;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

constexpr size_t kLookedAtBytes = 2048;  // cues stand near the front, or in short messages

const Phrases& QuestionWords() {
  static const Phrases kQuestionWords({phrases::kQuestionWords});
  return kQuestionWords;
}

// Words of a text, characters where there are no spaces; and whether a question word is among the
// first `looked_at`, or the last.
struct Counted {
  size_t words = 0;
  bool asks = false;
  bool asks_last = false;
};
Counted CountWords(std::string_view folded, size_t looked_at) {
  Counted counted;
  while (!folded.empty()) {
    size_t length = WordBytes(folded);
    if (length > 0 && !HasSpaces(folded)) length = 3;
    if (length > 0) {
      counted.asks_last = QuestionWords().LongestAt(folded.substr(0, length)) == length;
      counted.asks = counted.asks || (counted.asks_last && counted.words < looked_at);
      ++counted.words;
    }
    folded.remove_prefix(std::min(std::max<size_t>(1, length), folded.size()));
  }
  return counted;
}

// "It cost 300 dollars, can you believe it?" states, and asks for no more than a nod.
bool StatesBeforeItsTag(std::string_view sentence) {
  static const Phrases kDense({phrases::kDenseQuestions});
  constexpr size_t kTagWordsMax = 4;
  constexpr size_t kStatedWordsMin = 4;
  constexpr size_t kOpeningWords = 2;  // "with what", "at which"
  const size_t comma = sentence.rfind(',');
  if (comma == std::string_view::npos) return false;
  const std::string folded = FoldCase(sentence.substr(0, comma));
  const std::string tag = FoldCase(sentence.substr(comma + 1));
  const std::string_view stated = Trimmed(folded);
  if (QuestionWords().LongestAt(stated) > 0 || kDense.In(stated)) return false;
  const Counted before = CountWords(stated, kOpeningWords);
  const Counted after = CountWords(tag, kTagWordsMax);
  const bool asks = before.asks || before.asks_last || after.asks;
  return !asks && before.words >= kStatedWordsMin && after.words <= kTagWordsMax;
}

}  // namespace

bool IsQuestionSentence(std::string_view folded) {
  static const Phrases kEnds({phrases::kDenseQuestionEnds});
  folded = Trimmed(folded);
  while (folded.ends_with("\u3002"))
    folded.remove_suffix(3);
  if (folded.empty()) return false;
  const bool asks = folded.back() == '?' || folded.ends_with("\u061f") || kEnds.EndOf(folded);
  return asks && !StatesBeforeItsTag(folded);
}

bool Corrects(std::string_view folded) {
  static const Phrases kCorrects({phrases::kCorrects, phrases::kDenseCorrects});
  return kCorrects.In(ClipUtf8(folded, kLookedAtBytes));
}

Cues CuesOf(std::string_view folded) {
  static const Phrases kDenseQuestions({phrases::kDenseQuestions});
  static const Phrases kAnaphora({phrases::kAnaphora});
  static const Phrases kGoesOn({phrases::kGoesOn});
  static const Phrases kTask({phrases::kTask, phrases::kDenseTask});
  static const Phrases kAsks({phrases::kAsksAssistant, phrases::kDenseAsksAssistant});
  static const Phrases kPersonal({phrases::kPersonal});
  static const Phrases kAddresses({phrases::kAddresses});
  static const Phrases kNumber({phrases::kWantsNumber, phrases::kDenseWantsNumber});
  const std::string_view text = Trimmed(ClipUtf8(folded, kLookedAtBytes));
  Cues cues;
  cues.question = IsQuestionSentence(text) || text.find('?') != std::string_view::npos ||
                  QuestionWords().LongestAt(text) > 0 || kDenseQuestions.In(text);
  cues.corrects = Corrects(text);
  cues.chat = IsChat(text);
  cues.anaphoric = kAnaphora.In(text) || kGoesOn.LongestAt(text) > 0;
  cues.task = kTask.In(text);
  cues.asks_assistant = kAsks.In(text);
  cues.personal = kPersonal.In(text);
  cues.addresses = kAddresses.In(text);
  cues.wants_number = kNumber.In(text);
  return cues;
}

}  // namespace tenuto
