// Calls of tools and their results, which an import may bring, as text: for a chat template, which
// knows neither, and for the index. Pure. Not the tools of a request: those are not done yet.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "chat/message.h"

namespace tenuto {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON as the model wrote it
};

// ChatMessage::tool_calls: [{"id","type":"function","function":{"name","arguments"}}], as OpenAI
// has it. Anything else in a text gives no call.
std::string ToolCallsToJson(std::span<const ToolCall> calls);
std::vector<ToolCall> ToolCallsFromJson(const std::string& json);

// "[call NAME ARGUMENTS]", a line each.
std::string ToolCallsText(std::span<const ToolCall> calls);

// The messages as every template can print them: a call as text of the assistant, behind what it
// said; results that follow each other as one message of the user, "[result of NAME]" before each.
std::vector<ChatMessage> WithToolsAsText(std::span<const ChatMessage> messages);

}  // namespace tenuto
