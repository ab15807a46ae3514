#include "recall/lex.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "base/utf8.h"

namespace tenuto {
namespace {

constexpr size_t kExpansionMax = 4;  // NFKC can make one character into 18

enum class CharClass : uint8_t { kSpace, kLetter, kDigit, kJoiner, kCjk, kDense, kMark };

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool IsDense(uint32_t c) {
  return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) ||
         (c >= 0x1780 && c <= 0x17FF);
}

void AppendCodePoint(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

CharClass AsciiClass(uint32_t c) {
  if (c >= '0' && c <= '9') return CharClass::kDigit;
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharClass::kLetter;
  if (c == '_') return CharClass::kJoiner;
  return c <= ' ' || c == 0x7F ? CharClass::kSpace : CharClass::kMark;
}

CharClass ClassOf(uint32_t c) {
  if (c < 0x80) return AsciiClass(c);
  const auto point = static_cast<UChar32>(c);
  if (u_isdigit(point) != 0) return CharClass::kDigit;
  if (IsCjk(c)) return CharClass::kCjk;
  switch (u_charType(point)) {
    case U_UPPERCASE_LETTER:
    case U_LOWERCASE_LETTER:
    case U_TITLECASE_LETTER:
    case U_MODIFIER_LETTER:
    case U_OTHER_LETTER:
    case U_LETTER_NUMBER:
    case U_NON_SPACING_MARK:
    case U_ENCLOSING_MARK:
    case U_COMBINING_SPACING_MARK:
      return IsDense(c) ? CharClass::kDense : CharClass::kLetter;
    case U_SPACE_SEPARATOR:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_CONTROL_CHAR:
      return CharClass::kSpace;
    default:
      return CharClass::kMark;
  }
}

void AppendFolded(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  AppendCodePoint(out,
                  static_cast<uint32_t>(u_foldCase(static_cast<UChar32>(c), U_FOLD_CASE_DEFAULT)));
}

// Zero-width, bidirectional, soft hyphen, tags, variation selectors: what no reader sees.
bool IsInvisible(uint32_t c) {
  const auto point = static_cast<UChar32>(c);
  return u_hasBinaryProperty(point, UCHAR_DEFAULT_IGNORABLE_CODE_POINT) != 0 ||
         u_charType(point) == U_FORMAT_CHAR;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text), chars_(CharactersOf(text)) {
    classes_.reserve(chars_.size());
    for (const Character& c : chars_)
      classes_.push_back(ClassOf(c.code_point));
  }

  std::vector<Piece> Run() {
    while (at_ < chars_.size()) {
      switch (classes_[at_]) {
        case CharClass::kSpace:
        case CharClass::kJoiner:
          ++at_;
          break;
        case CharClass::kMark:
          Emit(LexKind::kMark, at_ + 1);
          break;
        case CharClass::kCjk:
          Emit(LexKind::kCjk, EndOf(CharClass::kCjk));
          break;
        case CharClass::kDense:
          Emit(LexKind::kDense, EndOf(CharClass::kDense));
          break;
        case CharClass::kLetter:
        case CharClass::kDigit:
          Word();
          break;
      }
    }
    return std::move(pieces_);
  }

 private:
  size_t EndOf(CharClass wanted) const {
    size_t end = at_;
    while (end < classes_.size() && classes_[end] == wanted)
      ++end;
    return end;
  }

  uint32_t ByteAt(size_t index) const {
    return index < chars_.size() ? chars_[index].begin : static_cast<uint32_t>(text_.size());
  }

  bool Is(size_t index, CharClass wanted) const {
    return index < classes_.size() && classes_[index] == wanted;
  }

  void Emit(LexKind kind, size_t end) {
    Piece piece{kind, ByteAt(at_), ByteAt(end), {}};
    for (size_t i = at_; i < end; ++i)
      AppendFolded(piece.folded, chars_[i].code_point);
    pieces_.push_back(std::move(piece));
    at_ = end;
  }

  // Three digits behind a separator and no fourth: a group of thousands.
  bool GroupAt(size_t index) const {
    if (index >= chars_.size()) return false;
    const uint32_t c = chars_[index].code_point;
    if (c != ',' && c != '.' && c != '\'') return false;
    for (size_t i = 1; i <= 3; ++i) {
      if (!Is(index + i, CharClass::kDigit)) return false;
    }
    return !Is(index + 4, CharClass::kDigit) && !Is(index + 4, CharClass::kLetter);
  }

  void Number(size_t end) {
    Piece piece{LexKind::kNumber, ByteAt(at_), 0, {}};
    if (end - at_ <= 3) {
      while (GroupAt(end))
        end += 4;
    }
    for (size_t i = at_; i < end; ++i) {
      if (classes_[i] != CharClass::kDigit) continue;
      piece.folded += static_cast<char>(
          '0' + u_charDigitValue(static_cast<UChar32>(chars_[i].code_point)) % 10);
    }
    piece.end = ByteAt(end);
    pieces_.push_back(std::move(piece));
    at_ = end;
  }

  void Word() {
    size_t end = EndOf(CharClass::kDigit);
    if (end > at_ && !Is(end, CharClass::kLetter) && !Is(end, CharClass::kJoiner)) {
      Number(end);
      return;
    }
    while (end < classes_.size() &&
           (Is(end, CharClass::kLetter) || Is(end, CharClass::kDigit) ||
            (Is(end, CharClass::kJoiner) &&
             (Is(end + 1, CharClass::kLetter) || Is(end + 1, CharClass::kDigit))))) {
      ++end;
    }
    Emit(LexKind::kWord, std::max(end, at_ + 1));
  }

  std::string_view text_;
  std::vector<Character> chars_;
  std::vector<CharClass> classes_;
  std::vector<Piece> pieces_;
  size_t at_ = 0;
};

}  // namespace

bool IsHan(uint32_t c) {
  return (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x3FFFF) || c == 0x3005;
}

bool IsHiragana(uint32_t c) {
  return c >= 0x3041 && c <= 0x309F;
}

bool IsCjk(uint32_t c) {
  return IsHan(c) || IsHiragana(c) || (c >= 0x30A1 && c <= 0x30FF && c != 0x30FB) ||
         (c >= 0x31F0 && c <= 0x31FF) || (c >= 0xAC00 && c <= 0xD7A3);
}

std::vector<Character> CharactersOf(std::string_view text) {
  std::vector<Character> found;
  found.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const auto begin = static_cast<uint32_t>(at);
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      found.push_back({byte, begin});
      ++at;
      continue;
    }
    const size_t length = Utf8Length(text.substr(at));
    found.push_back({length == 0 ? 0xFFFDu : CodePointOf(text.substr(at, length)), begin});
    at += std::max<size_t>(length, 1);
  }
  return found;
}

std::vector<Piece> LexText(std::string_view clean) {
  return Lexer(clean).Run();
}

std::string_view ClipUtf8(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && IsUtf8Continuation(text[end]))
    --end;
  return text.substr(0, end);
}

std::string FoldCase(std::string_view clean) {
  std::string out;
  out.reserve(clean.size());
  for (const Character& c : CharactersOf(clean))
    AppendFolded(out, c.code_point);
  return out;
}

std::string WithoutMarks(std::string_view word) {
  if (IsAscii(word)) return std::string(word);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  std::string decomposed;
  if (U_SUCCESS(status)) {
    icu::StringByteSink<std::string> sink(&decomposed);
    nfd->normalizeUTF8(0, icu::StringPiece(word.data(), static_cast<int32_t>(word.size())), sink,
                       nullptr, status);
  }
  if (U_FAILURE(status)) return std::string(word);
  std::string out;
  for (const Character& c : CharactersOf(decomposed)) {
    if (u_charType(static_cast<UChar32>(c.code_point)) != U_NON_SPACING_MARK) {
      AppendCodePoint(out, c.code_point);
    }
  }
  return out;
}

std::string CleanText(std::string_view text, size_t bytes_max) {
  text = ClipUtf8(text, bytes_max);
  std::string whole;
  if (IsAscii(text)) {
    whole = text;
    for (char& c : whole) {
      if ((c >= 0 && c < ' ' && c != '\n') || c == 0x7F) c = ' ';
    }
    return whole;
  }
  AppendLastUtf8(text, whole);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfkc = icu::Normalizer2::getNFKCInstance(status);
  std::string normal;
  if (U_SUCCESS(status)) {
    icu::StringByteSink<std::string> sink(&normal);
    nfkc->normalizeUTF8(0, icu::StringPiece(whole.data(), static_cast<int32_t>(whole.size())), sink,
                        nullptr, status);
  }
  if (U_FAILURE(status)) normal = whole;
  std::string out;
  out.reserve(normal.size());
  const std::vector<Character> chars = CharactersOf(normal);
  for (size_t i = 0; i < chars.size(); ++i) {
    const Character& c = chars[i];
    if (c.code_point >= 0x80 && IsInvisible(c.code_point)) continue;
    if (c.code_point == 0x2019) {
      out += '\'';
    } else if (c.code_point == 0x0E4D && i + 1 < chars.size() &&
               chars[i + 1].code_point == 0x0E32) {
      AppendCodePoint(out, 0x0E33);  // NFKC took SARA AM apart; dictionaries have it whole
      ++i;
    } else if (c.code_point != '\n' && (c.code_point < ' ' || c.code_point == 0x7F)) {
      out += ' ';
    } else {
      AppendCodePoint(out, c.code_point);
    }
  }
  return std::string(ClipUtf8(out, kExpansionMax * bytes_max));
}

}  // namespace tenuto
