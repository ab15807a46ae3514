// A chat message as templates see it: role and text.
#pragma once

#include <string>
#include <vector>

namespace tenuto {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" ("developer" is mapped to "system" before it
                     // gets here)
  std::string content;  // UTF-8
  std::string
      name;  // optional name of the speaker; templates here do not print it, the log keeps it
  // Of an import only. What an assistant called, as OpenAI's JSON array, "" for nothing; of role
  // "tool": which call this is the result of.
  std::string tool_calls = {};
  std::string tool_call_id = {};
  bool operator==(const ChatMessage&) const = default;
};

}  // namespace tenuto
