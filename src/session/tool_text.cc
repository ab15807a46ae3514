#include "session/tool_text.h"

#include <boost/json.hpp>
#include <map>

namespace tenuto {
namespace {

namespace json = boost::json;

std::string StringOr(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

void AddLine(std::string& text, const std::string& line) {
  if (!text.empty()) text += '\n';
  text += line;
}

}  // namespace

std::string ToolCallsToJson(std::span<const ToolCall> calls) {
  json::array array;
  for (const ToolCall& call : calls)
    array.push_back(json::object{
        {"id", call.id},
        {"type", "function"},
        {"function", json::object{{"name", call.name}, {"arguments", call.arguments}}}});
  return json::serialize(array);
}

std::vector<ToolCall> ToolCallsFromJson(const std::string& text) {
  std::vector<ToolCall> calls;
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_array()) return calls;
  for (const json::value& entry : value.get_array()) {
    if (!entry.is_object()) continue;
    const json::value* function = entry.get_object().if_contains("function");
    if (function == nullptr || !function->is_object()) continue;
    calls.push_back({StringOr(entry.get_object(), "id"), StringOr(function->get_object(), "name"),
                     StringOr(function->get_object(), "arguments")});
  }
  return calls;
}

std::string ToolCallsText(std::span<const ToolCall> calls) {
  std::string text;
  for (const ToolCall& call : calls)
    AddLine(text, "[call " + call.name + " " + call.arguments + "]");
  return text;
}

std::vector<ChatMessage> WithToolsAsText(std::span<const ChatMessage> messages) {
  std::vector<ChatMessage> all;
  std::map<std::string, std::string> names;  // by the call's id
  bool after_result = false;
  for (const ChatMessage& message : messages) {
    ChatMessage printed{message.role, message.content, message.name};
    for (const ToolCall& call : ToolCallsFromJson(message.tool_calls)) {
      names[call.id] = call.name;
      AddLine(printed.content, ToolCallsText(std::span(&call, 1)));
    }
    const bool result = message.role == "tool";
    if (result) {
      printed.role = "user";
      printed.content = "[result of " + names[message.tool_call_id] + "]\n" + message.content;
    }
    if (result && after_result) {
      AddLine(all.back().content, printed.content);
    } else {
      all.push_back(std::move(printed));
    }
    after_result = result;
  }
  return all;
}

}  // namespace tenuto
