#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "base/limits.h"
#include "serve/requests/fields.h"
#include "serve/requests/parts.h"
#include "serve/requests/read.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr size_t kNameBytesMax = 256;

// Members of a message that OpenAI knows and we don't do yet, with the values that ask for nothing.
constexpr std::array<std::pair<std::string_view, Inert>, 9> kMessageFields = {{
    {"tool_calls", Inert::kEmpty},
    {"tool_call_id", Inert::kNever},
    {"function_call", Inert::kNever},
    {"refusal", Inert::kEmpty},
    {"audio", Inert::kNever},
    {"reasoning_content", Inert::kEmpty},
    {"annotations", Inert::kEmpty},
    {"prefix", Inert::kFalse},
    {"images", Inert::kEmpty},
}};

Status CheckMessageFields(const json::object& message, const std::string& where, bool strict,
                          std::vector<std::string>& ignored) {
  for (const auto& member : message) {
    const std::string_view name = member.key();
    if (name == "role" || name == "content" || name == "name") continue;
    const std::string path = where + "." + std::string(name.substr(0, 64));
    const auto known = std::find_if(kMessageFields.begin(), kMessageFields.end(),
                                    [&](const auto& field) { return field.first == name; });
    if (known != kMessageFields.end()) {
      if (!IsInert(member.value(), known->second)) {
        return Error(Code::kInvalid, "field '" + path + "' is not supported yet").At(path);
      }
    } else {
      TENUTO_TRY(IgnoreField(path, strict, ignored));
    }
  }
  return Ok();
}

Result<std::string> ReadRole(const json::object& message, const std::string& where) {
  const json::value* role = Member(message, "role");
  if (role == nullptr || !role->is_string()) {
    return InvalidAt(where + ".role", "must be a string");
  }
  const std::string_view name = role->get_string();
  if (name == "developer") return std::string("system");
  if (name == "system" || name == "user" || name == "assistant") return std::string(name);
  if (name == "tool" || name == "function") {
    return Error(Code::kInvalid,
                 "role '" + std::string(name) + "' in '" + where + "' is not supported yet")
        .At(where + ".role");
  }
  return InvalidAt(where + ".role", "must be system, developer, user or assistant");
}

// Text parts are joined by line breaks, as llama-server does.
Result<std::string> JoinParts(const json::array& parts, const std::string& where, bool strict,
                              std::vector<std::string>& ignored) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string at = where + Index(i);
    if (!parts[i].is_object()) return InvalidAt(at, "must be an object with a type");
    const json::object& part = parts[i].get_object();
    const json::value* type = Member(part, "type");
    if (type == nullptr || !type->is_string()) {
      return InvalidAt(at + ".type", "must be a string");
    }
    const std::string_view name = type->get_string();
    if (name != "text" && name != "input_text") {
      return Error(Code::kInvalid, "content of type '" + std::string(name.substr(0, 32)) +
                                       "' is not supported yet; only text is")
          .At(at + ".type");
    }
    const json::value* piece = Member(part, "text");
    if (piece == nullptr || !piece->is_string()) {
      return InvalidAt(at + ".text", "must be a string");
    }
    for (const auto& member : part) {
      const std::string_view other = member.key();
      if (other != "type" && other != "text")
        TENUTO_TRY(IgnoreField(at + "." + std::string(other.substr(0, 64)), strict, ignored));
    }
    if (i > 0) text += '\n';
    text += std::string_view(piece->get_string());
  }
  return text;
}

Result<std::string> ReadContent(const json::object& message, const std::string& where, bool strict,
                                std::vector<std::string>& ignored) {
  const json::value* content = Member(message, "content");
  if (content == nullptr) return InvalidAt(where, "is missing");
  if (content->is_string()) return std::string(content->get_string());
  if (content->is_array()) return JoinParts(content->get_array(), where, strict, ignored);
  return InvalidAt(where, "must be a string or an array of parts");
}

Result<ChatMessage> ReadMessage(const json::value& value, const std::string& where, bool strict,
                                std::vector<std::string>& ignored) {
  if (!value.is_object()) return InvalidAt(where, "must be an object");
  const json::object& message = value.get_object();
  TENUTO_TRY(CheckMessageFields(message, where, strict, ignored));
  ChatMessage result;
  TENUTO_ASSIGN(result.role, ReadRole(message, where));
  TENUTO_ASSIGN(result.content, ReadContent(message, where + ".content", strict, ignored));
  // An answer may have been empty; a question or an instruction may not.
  if (result.content.empty() && result.role != "assistant") {
    return InvalidAt(where + ".content", "must not be empty");
  }
  if (const json::value* name = Member(message, "name")) {
    if (!name->is_string() || name->get_string().size() > kNameBytesMax) {
      return InvalidAt(where + ".name",
                       "must be a string of at most " + std::to_string(kNameBytesMax) + " bytes");
    }
    result.name = name->get_string();
  }
  return result;
}

}  // namespace

Result<std::vector<ChatMessage>> ReadMessages(const json::object& object, bool strict,
                                              std::vector<std::string>& ignored) {
  const json::value* value = Member(object, "messages");
  if (value == nullptr) return InvalidAt("messages", "is missing");
  if (!value->is_array()) return InvalidAt("messages", "must be an array");
  const json::array& array = value->get_array();
  if (array.empty()) return InvalidAt("messages", "must not be empty");
  if (array.size() > kMessagesMax) {
    return InvalidAt("messages", "holds more than " + std::to_string(kMessagesMax) + " messages");
  }
  std::vector<ChatMessage> messages;
  messages.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    TENUTO_ASSIGN(ChatMessage message,
                  ReadMessage(array[i], "messages" + Index(i), strict, ignored));
    messages.push_back(std::move(message));
  }
  const bool asks = std::any_of(messages.begin(), messages.end(),
                                [](const ChatMessage& m) { return m.role == "user"; });
  if (!asks) return InvalidAt("messages", "must hold at least one message of role user");
  if (messages.back().role == "assistant") {
    return InvalidAt("messages",
                     "must not end with an assistant message; continuing one is not supported yet");
  }
  return messages;
}

}  // namespace tenuto
