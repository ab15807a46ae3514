#include "engine/embedded/llama/template.h"

#include <llama.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "chat/suffix.h"

namespace tenuto {
namespace {

constexpr size_t kTemplateBytesMax = size_t{1} << 20;

std::vector<std::string> BuiltIns() {
  const int32_t count = llama_chat_builtin_templates(nullptr, 0);
  std::vector<const char*> names(static_cast<size_t>(std::max(count, 0)));
  llama_chat_builtin_templates(names.data(), names.size());
  std::vector<std::string> result(names.begin(), names.end());
  std::sort(result.begin(), result.end());
  return result;
}

int32_t Apply(const std::string& text, const std::vector<llama_chat_message>& chat,
              bool open_answer, std::string& out) {
  return llama_chat_apply_template(text.c_str(), chat.data(), chat.size(), open_answer, out.data(),
                                   static_cast<int32_t>(out.size()));
}

bool Known(const std::string& text) {
  const std::vector<llama_chat_message> chat = {{"user", "x"}};
  std::string out(256, '\0');
  return !text.empty() && Apply(text, chat, true, out) > 0;
}

Error Unknown(const std::string& what) {
  return {Code::kInvalid, what + "; give --chat-template one of " + BuiltInTemplateNames() +
                              ", or a file with a template of one of these kinds"};
}

Result<std::string> ReadTemplateFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Unknown("--chat-template " + path +
                   " is neither a built-in template nor a file that can be read");
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.size() > kTemplateBytesMax)
    return Error(Code::kInvalid, "the chat template file " + path + " is too long");
  return text;
}

}  // namespace

std::string BuiltInTemplateNames() {
  std::string names;
  for (const std::string& name : BuiltIns())
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

Result<LlamaChatTemplate> LlamaChatTemplate::Choose(const std::string& asked,
                                                    const std::string& of_model) {
  LlamaChatTemplate chosen;
  const std::vector<std::string> names = BuiltIns();
  if (asked.empty()) {
    chosen.text_ = of_model;
  } else if (std::find(names.begin(), names.end(), asked) != names.end()) {
    chosen.text_ = asked;
  } else {
    TENUTO_ASSIGN(chosen.text_, ReadTemplateFile(asked));
  }
  chosen.usable_ = Known(chosen.text_);
  if (!chosen.usable_ && !asked.empty()) {
    return Unknown("the chat template in " + asked + " is of a kind that is not known");
  }
  if (chosen.text_ != asked) chosen.default_system_ = DefaultSystemPrompt(chosen.text_);
  return chosen;
}

Result<std::string> LlamaChatTemplate::Render(std::span<const ChatMessage> messages,
                                              bool open_answer) const {
  if (!usable_) {
    return Unknown(text_.empty() ? "the model has no chat template"
                                 : "the model's chat template is of a kind that is not known");
  }
  std::vector<llama_chat_message> chat;
  size_t bytes = 256;
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.content.find('\0') != std::string::npos ||
        message.role.find('\0') != std::string::npos) {
      return Error(Code::kInvalid, "a chat message can't hold a NUL byte")
          .At("messages[" + std::to_string(i) + "].content");
    }
    chat.push_back({message.role.c_str(), message.content.c_str()});
    bytes += 64 + message.role.size() + message.content.size();
  }
  if (bytes > INT32_MAX / 2)
    return Error(Code::kInvalid, "the messages are too long for a chat template");
  std::string out(bytes, '\0');
  int32_t size = Apply(text_, chat, open_answer, out);
  if (size > static_cast<int32_t>(out.size())) {
    out.resize(static_cast<size_t>(size));
    size = Apply(text_, chat, open_answer, out);
  }
  if (size < 0 || size > static_cast<int32_t>(out.size()))
    return Error(Code::kInvalid, "the chat template can't take these messages");
  out.resize(static_cast<size_t>(size));
  return out;
}

}  // namespace tenuto
