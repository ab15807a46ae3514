// Which chat template a model is used with, and applying it through libllama's built-in matcher (no
// Jinja engine). Thread-safe: const after Choose.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "chat/message.h"

namespace tenuto {

class LlamaChatTemplate {
 public:
  // `asked`: what --chat-template says: "" (the model's own, `of_model`), a built-in's name, or a
  // file with a template's text. kInvalid: none of these, or a template that the matcher does not
  // know; the message lists the built-in names. Without one asked for, a model without a template
  // or with an unknown one is no error yet: Render says it.
  static Result<LlamaChatTemplate> Choose(const std::string& asked, const std::string& of_model);

  // kInvalid: see above, or a text with a NUL byte.
  Result<std::string> Render(std::span<const ChatMessage> messages, bool open_answer) const;

  bool usable() const { return usable_; }
  // The system prompt it adds where there is none (chat/suffix.h).
  const std::string& default_system() const { return default_system_; }
  // A name, or the text of a template: what goes into libllama.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string default_system_;
  bool usable_ = false;
};

// "chatml, llama2, ...".
std::string BuiltInTemplateNames();

}  // namespace tenuto
