#include "base/ids.h"

#include <array>
#include <vector>

#include "base/check.h"

namespace tenuto {
namespace {

bool IsPartChar(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

Status CheckPart(std::string_view part) {
  if (part.empty()) return Error(Code::kInvalid, "session id has an empty part");
  if (part.size() > kSessionPartBytesMax)
    return Error(Code::kInvalid, "session id has a part longer than 128 characters");
  for (const char c : part)
    if (!IsPartChar(c))
      return Error(Code::kInvalid, "session id may hold only letters, digits, '_', '.' and '-'");
  if (part.front() == '.') return Error(Code::kInvalid, "a session id part may not start with '.'");
  if (part.find("..") != std::string_view::npos)
    return Error(Code::kInvalid, "session id may not hold '..'");
  return Ok();
}

}  // namespace

std::string SessionKey::Full() const {
  return tenant + "::" + user + "::" + agent + "::" + session;
}

std::string SessionKey::Short() const {
  if (tenant != "default" || agent != "default") return Full();
  return user == "me" ? session : user + "::" + session;
}

Result<SessionKey> ParseSessionKey(std::string_view text) {
  // The longest legal name, before anything is split: a 10 MB header is refused at once.
  if (text.size() > 4 * kSessionPartBytesMax + 6)
    return Error(Code::kInvalid, "session id is longer than four parts of 128 characters");
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t next = text.find("::", at);
    parts.push_back(text.substr(at, next == std::string_view::npos ? next : next - at));
    if (next == std::string_view::npos) break;
    at = next + 2;
  }
  for (const auto part : parts)
    TENUTO_TRY(CheckPart(part));
  SessionKey key;
  switch (parts.size()) {
    case 1:
      key.session = parts[0];
      return key;
    case 2:
      key.user = parts[0];
      key.session = parts[1];
      return key;
    case 4:
      key.tenant = parts[0];
      key.user = parts[1];
      key.agent = parts[2];
      key.session = parts[3];
      return key;
    default:
      return Error(Code::kInvalid, "session id has " + std::to_string(parts.size()) +
                                       " parts; use 'x', 'user::x' or 'tenant::user::agent::x'");
  }
}

TurnId MakeTurnId(int64_t unix_ms, std::string_view entropy) {
  TENUTO_CHECK(entropy.size() >= 10);
  static constexpr char kAlphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  std::array<unsigned char, 16> bytes{};
  for (size_t i = 0; i < 6; ++i)
    bytes[i] = static_cast<unsigned char>(static_cast<uint64_t>(unix_ms) >> (40 - 8 * i));
  for (size_t i = 0; i < 10; ++i)
    bytes[6 + i] = static_cast<unsigned char>(entropy[i]);
  // 128 bits as 26 digits of 5 bits; the first digit carries the two zero bits in front.
  std::string text(26, '0');
  unsigned bits = 0;
  uint32_t held = 0;
  size_t at = 26;
  for (size_t i = 16; i-- > 0;) {
    held |= static_cast<uint32_t>(bytes[i]) << bits;
    bits += 8;
    while (bits >= 5) {
      text[--at] = kAlphabet[held & 31];
      held >>= 5;
      bits -= 5;
    }
  }
  if (at > 0) text[--at] = kAlphabet[held & 31];
  return TurnId{text};
}

}  // namespace tenuto
