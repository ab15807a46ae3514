#include "serve/json/writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace tenuto {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of a string that are copied as they are: all but control characters, quote, backslash and
// non-ASCII.
constexpr std::array<bool, 256> MakePlain() {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < 0x7f; ++c)
    plain[c] = c != '"' && c != '\\';
  plain[0x7f] = true;
  return plain;
}
constexpr std::array<bool, 256> kPlain = MakePlain();

unsigned char ByteAt(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Length of the well-formed UTF-8 sequence at `i`, 0 when there is none (RFC 3629: no overlongs, no
// surrogates).
size_t SequenceAt(std::string_view text, size_t i) {
  const unsigned char lead = ByteAt(text, i);
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    const unsigned char next = ByteAt(text, i + k);
    if (next < low || next > high) return 0;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

void AppendEscape(std::string& out, unsigned char c) {
  static constexpr char kHex[] = "0123456789abcdef";
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
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
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
    const size_t length = SequenceAt(text, i);
    if (length == 0) {
      out += kReplacement;
      ++i;
    } else {
      out.append(text, i, length);
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

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = ByteAt(text, i) < 0x80 ? 1 : SequenceAt(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
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
