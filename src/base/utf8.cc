#include "base/utf8.h"

namespace tenuto {
namespace {

// What may follow a lead byte. The second byte's range keeps out overlong forms, surrogates and
// what is past U+10FFFF.
struct Lead {
  uint8_t length = 0;  // bytes of the character; 0: no character begins so
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

struct Part {
  size_t bytes = 0;
  enum class Kind : uint8_t { kCharacter, kInvalid, kUnfinished } kind = Kind::kCharacter;
};

// REQUIRES: bytes not empty.
Part NextPart(std::string_view bytes) {
  const Lead lead = LeadOf(static_cast<uint8_t>(bytes[0]));
  if (lead.length == 0) return {1, Part::Kind::kInvalid};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {i, Part::Kind::kUnfinished};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t high = i == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte < low || byte > high) return {i, Part::Kind::kInvalid};
  }
  return {lead.length, Part::Kind::kCharacter};
}

}  // namespace

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const Part part = NextPart(text);
  return part.kind == Part::Kind::kCharacter ? part.bytes : 0;
}

uint32_t CodePointOf(std::string_view character) {
  const auto lead = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return lead;
  uint32_t value = lead & (0x7Fu >> character.size());
  for (const char byte : character.substr(1))
    value = value << 6 | (static_cast<uint8_t>(byte) & 0x3Fu);
  return value;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

size_t AppendWholeUtf8(std::string_view bytes, std::string& out) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Part part = NextPart(bytes.substr(at));
    if (part.kind == Part::Kind::kUnfinished) break;
    if (part.kind == Part::Kind::kCharacter) {
      out.append(bytes.substr(at, part.bytes));
    } else {
      out.append(kReplacementCharacter);
    }
    at += part.bytes;
  }
  return at;
}

void AppendLastUtf8(std::string_view bytes, std::string& out) {
  if (AppendWholeUtf8(bytes, out) < bytes.size()) out.append(kReplacementCharacter);
}

}  // namespace tenuto
