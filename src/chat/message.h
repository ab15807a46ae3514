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
  bool operator==(const ChatMessage&) const = default;
};

}  // namespace tenuto
