// DefaultSystemPrompt: reads one literal out of a Jinja template; it is no Jinja engine.
#include <string_view>

#include "chat/suffix.h"

namespace tenuto {
namespace {

constexpr std::string_view kOpen = "<|im_start|>system";
constexpr std::string_view kClose = "<|im_end|>";

// Reads a Jinja string literal from `from` up to kClose, with escapes resolved; "" when the literal
// ends before that.
std::string ReadLiteral(std::string_view jinja, size_t from, char quote) {
  std::string text;
  for (size_t i = from; i < jinja.size(); ++i) {
    if (jinja.substr(i).starts_with(kClose)) return text;
    const char c = jinja[i];
    if (c == quote) return "";
    if (c != '\\' || i + 1 == jinja.size()) {
      text += c;
      continue;
    }
    const char escaped = jinja[++i];
    switch (escaped) {
      case 'n':
        text += '\n';
        break;
      case 't':
        text += '\t';
        break;
      case 'r':
        text += '\r';
        break;
      case '\\':
      case '\'':
      case '"':
        text += escaped;
        break;
      default:
        text += '\\';
        text += escaped;
    }
  }
  return "";
}

// Template text outside of any expression, up to kClose; "" when an expression or a statement comes
// first.
std::string ReadPlain(std::string_view jinja, size_t from) {
  const size_t end = jinja.find(kClose, from);
  if (end == std::string_view::npos) return "";
  const std::string_view text = jinja.substr(from, end - from);
  const bool dynamic =
      text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
  return dynamic ? "" : std::string(text);
}

}  // namespace

std::string DefaultSystemPrompt(const std::string& jinja) {
  const std::string_view view = jinja;
  for (size_t at = view.find(kOpen); at != std::string_view::npos; at = view.find(kOpen, at + 1)) {
    const size_t after = at + kOpen.size();
    const char before = at > 0 ? view[at - 1] : '\0';
    const bool quoted = before == '\'' || before == '"';
    size_t body = 0;
    if (view.substr(after).starts_with("\n")) {
      body = after + 1;
    } else if (quoted && view.substr(after).starts_with("\\n")) {
      body = after + 2;
    } else {
      continue;
    }
    std::string text = quoted ? ReadLiteral(view, body, before) : ReadPlain(view, body);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace tenuto
