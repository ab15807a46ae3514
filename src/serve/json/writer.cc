#include "serve/json/writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/utf8.h"

namespace tenuto {
namespace {

// Bytes of a string that are copied as they are: all but control characters (DEL is one), quote,
// backslash and non-ASCII.
constexpr std::array<bool, 256> MakePlain() {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < 0x7f; ++c)
    plain[c] = c != '"' && c != '\\';
  return plain;
}
constexpr std::array<bool, 256> kPlain = MakePlain();

unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

constexpr char kHex[] = "0123456789abcdef";

void AppendUnicodeEscape(std::string& out, uint32_t code_point) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4)
    out += kHex[(code_point >> shift) & 15];
}

void AppendEscape(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    default:
      AppendUnicodeEscape(out, c);
  }
}

// Control characters beyond ASCII and line separators: JSON may hold them raw, but a terminal that
// shows it could act on them.
bool IsControl(std::string_view character) {
  if (character.size() > 3) return false;
  const uint32_t code_point = CodePointOf(character);
  return code_point < 0xa0 || code_point == 0x2028 || code_point == 0x2029;
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 2);
  out += '"';
  size_t i = 0;
  while (i < text.size()) {
    size_t run = i;
    while (run < text.size() && kPlain[ByteAt(text, run)])
      ++run;
    out.append(text, i, run - i);
    i = run;
    if (i == text.size()) break;
    if (ByteAt(text, i) < 0x80) {
      AppendEscape(out, ByteAt(text, i));
      ++i;
      continue;
    }
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) {
      out += kReplacementCharacter;
      ++i;
    } else {
      const std::string_view character = text.substr(i, length);
      if (IsControl(character)) {
        AppendUnicodeEscape(out, CodePointOf(character));
      } else {
        out += character;
      }
      i += length;
    }
  }
  out += '"';
}

std::string JsonString(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}

void JsonWriter::Separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  out_ += '{';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  out_ += '}';
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  out_ += '[';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  out_ += ']';
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  Separate();
  AppendJsonString(out_, name);
  out_ += ':';
  comma_ = false;  // its value follows without one
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  AppendJsonString(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  char digits[24];
  out_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  Separate();
  char digits[24];
  out_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  char digits[40];
  out_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

}  // namespace tenuto
