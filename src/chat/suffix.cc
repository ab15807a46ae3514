#include "chat/suffix.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tenuto {
namespace {

// White space around each placeholder: what is gone of it after rendering tells that the template
// trims. No template prints this mixture by itself.
constexpr std::string_view kPad = "\t \n\t";
constexpr std::string_view kSpaces = " \t\n\r\f\v";
constexpr std::string_view kSentinel = "TenutoLastAnswerHere";

std::string Placeholder(size_t index) {
  return "TenutoText" + std::to_string(index) + "Here";
}

std::string_view TrimLeft(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view TrimRight(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpaces);
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

std::string RoleList(std::span<const ChatMessage> messages) {
  std::string roles;
  for (const ChatMessage& message : messages) {
    if (!roles.empty()) roles += ", ";
    roles += message.role;
    if (roles.size() > 80) return roles + ", ...";
  }
  return roles;
}

// A role is printed by the template among its control text, so it may not hold anything but a name.
Status CheckRoles(std::span<const ChatMessage> messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    const bool is_name = !role.empty() && role.size() <= 32 &&
                         std::all_of(role.begin(), role.end(),
                                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
    if (!is_name) {
      return Error(Code::kInvalid, "a role is 1 to 32 of a-z and _")
          .At("messages[" + std::to_string(i) + "].role");
    }
  }
  return Ok();
}

// The messages with placeholders for texts. An empty text stays empty: templates may leave such a
// message out.
std::vector<ChatMessage> WithPlaceholders(std::span<const ChatMessage> messages) {
  std::vector<ChatMessage> result(messages.begin(), messages.end());
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i].content.empty()) continue;
    result[i].content = std::string(kPad) + Placeholder(i) + std::string(kPad);
  }
  return result;
}

void Append(std::vector<ChatSegment>& segments, std::string_view text, bool is_content) {
  if (text.empty()) return;
  if (!segments.empty() && segments.back().is_content == is_content && !is_content) {
    segments.back().text += text;
    return;
  }
  segments.push_back({std::string(text), is_content});
}

struct Found {
  size_t index = 0;
  size_t begin = std::string_view::npos;  // of the placeholder itself, without padding
  size_t end = 0;
};

// The first placeholder in `text` at or after `from`.
Found FindNext(std::string_view text, size_t from, size_t messages) {
  constexpr std::string_view kStart = "TenutoText";
  for (size_t at = text.find(kStart, from); at != std::string_view::npos;
       at = text.find(kStart, at + 1)) {
    size_t digits = at + kStart.size();
    size_t index = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && index < messages) {
      index = index * 10 + static_cast<size_t>(text[digits] - '0');
      ++digits;
    }
    if (index >= messages) continue;
    const std::string expected = Placeholder(index);
    if (text.substr(at, expected.size()) == expected) return {index, at, at + expected.size()};
  }
  return {};
}

Result<std::vector<ChatSegment>> Split(std::string_view text,
                                       std::span<const ChatMessage> messages) {
  std::vector<ChatSegment> segments;
  std::vector<bool> printed(messages.size(), false);
  size_t from = 0;
  while (true) {
    const Found found = FindNext(text, from, messages.size());
    if (found.begin == std::string_view::npos) break;
    std::string_view before = text.substr(from, found.begin - from);
    std::string_view content = messages[found.index].content;
    if (before.ends_with(kPad)) {
      before.remove_suffix(kPad.size());
    } else {
      content = TrimLeft(content);
    }
    from = found.end;
    if (text.substr(from).starts_with(kPad)) {
      from += kPad.size();
    } else {
      content = TrimRight(content);
    }
    Append(segments, before, false);
    Append(segments, content, true);
    printed[found.index] = true;
  }
  Append(segments, text.substr(from), false);
  for (size_t i = 0; i < messages.size(); ++i) {
    if (printed[i] || messages[i].content.empty()) continue;
    return Error(Code::kInvalid, "the model's chat template does not print the text of a '" +
                                     messages[i].role + "' message here")
        .At("messages[" + std::to_string(i) + "].content");
  }
  return segments;
}

Error Refused(Error error, std::span<const ChatMessage> messages) {
  return std::move(error).With("the chat template refuses messages with the roles " +
                               RoleList(messages));
}

// The messages, led by the template's own system prompt where they have none.
std::vector<ChatMessage> WithSystem(std::span<const ChatMessage> messages,
                                    const std::string& default_system) {
  std::vector<ChatMessage> all(messages.begin(), messages.end());
  const bool has_system = std::any_of(
      all.begin(), all.end(), [](const ChatMessage& message) { return message.role == "system"; });
  if (!has_system && !default_system.empty())
    all.insert(all.begin(), ChatMessage{"system", default_system, ""});
  return all;
}

Error LosesAnswers() {
  return Error(Code::kInvalid,
               "the chat template loses or rewrites an earlier answer's text, so a conversation "
               "can't be continued with it; choose another with --chat-template");
}

std::vector<ChatMessage> PastMessages() {
  return {{"user", "x", ""}, {"assistant", std::string(kSentinel), ""}};
}

// A question and its answer as the template prints them, and where the answer's text ends.
struct Past {
  std::string text;
  size_t cut = 0;
};

Result<Past> RenderPast(const RenderChat& render) {
  const std::vector<ChatMessage> messages = PastMessages();
  auto text = render(messages, false);
  if (!text) return Refused(std::move(text).error(), messages);
  const size_t answer = text->find(kSentinel);
  if (answer == std::string::npos) return LosesAnswers();
  return Past{std::move(*text), answer + kSentinel.size()};
}

std::vector<TokenId> ControlTokens(std::span<const TokenId> tokens,
                                   const IsControlToken& is_control) {
  std::vector<TokenId> result;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(result), is_control);
  return result;
}

// The texts of the messages, or those of the template, with a letter between them so that nothing
// joins.
std::string JoinKind(std::span<const ChatSegment> segments, bool content) {
  std::string text;
  for (const ChatSegment& segment : segments) {
    if (segment.is_content == content) text += segment.text + "x";
  }
  return text;
}

Result<std::vector<TokenId>> TokenizeApart(const TokenizeText& tokenize,
                                           std::span<const ChatSegment> segments,
                                           bool add_special) {
  std::vector<TokenId> all;
  for (size_t i = 0; i < segments.size(); ++i) {
    TENUTO_ASSIGN(const std::vector<TokenId> tokens,
                  tokenize(segments[i].text, add_special && i == 0, !segments[i].is_content));
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

}  // namespace

Result<std::vector<ChatSegment>> RenderFirstTurn(const RenderChat& render,
                                                 std::span<const ChatMessage> messages,
                                                 const std::string& default_system) {
  TENUTO_TRY(CheckRoles(messages));
  const std::vector<ChatMessage> all = WithSystem(messages, default_system);
  auto text = render(WithPlaceholders(all), true);
  if (!text) return Refused(std::move(text).error(), all);
  return Split(*text, all);
}

Result<std::vector<ChatSegment>> RenderSystem(const RenderChat& render,
                                              std::span<const ChatMessage> messages,
                                              const std::string& default_system) {
  std::vector<ChatMessage> all = WithSystem(messages, default_system);
  const auto first_other = std::find_if(
      all.begin(), all.end(), [](const ChatMessage& message) { return message.role != "system"; });
  all.erase(first_other, all.end());
  if (all.empty()) return std::vector<ChatSegment>{};
  auto text = render(WithPlaceholders(all), false);
  if (!text) return Refused(std::move(text).error(), all);
  return Split(*text, all);
}

Result<std::string> RenderClose(const RenderChat& render) {
  TENUTO_ASSIGN(const Past past, RenderPast(render));
  return past.text.substr(past.cut);
}

Result<std::vector<ChatSegment>> RenderNextTurn(const RenderChat& render,
                                                std::span<const ChatMessage> messages) {
  TENUTO_TRY(CheckRoles(messages));
  TENUTO_ASSIGN(const Past past, RenderPast(render));
  std::vector<ChatMessage> all = PastMessages();
  const std::vector<ChatMessage> fresh = WithPlaceholders(messages);
  all.insert(all.end(), fresh.begin(), fresh.end());
  auto after = render(all, true);
  if (!after) return Refused(std::move(after).error(), messages);
  if (after->find(kSentinel) == std::string::npos) return LosesAnswers();
  if (past.text.compare(0, past.cut, *after, 0, std::min(past.cut, after->size())) != 0) {
    return Error(Code::kInvalid,
                 "the chat template changes what stands before an earlier answer when messages "
                 "follow it, so a conversation can't be continued with it; choose another with "
                 "--chat-template");
  }
  return Split(std::string_view(*after).substr(past.cut), messages);
}

std::string JoinSegments(std::span<const ChatSegment> segments) {
  std::string text;
  for (const ChatSegment& segment : segments)
    text += segment.text;
  return text;
}

Result<std::vector<TokenId>> TokenizeSegments(const TokenizeText& tokenize,
                                              const TokenizeText& tokenize_template,
                                              const IsControlToken& is_control,
                                              std::span<const ChatSegment> segments,
                                              bool add_special) {
  if (segments.size() == 1 && !segments[0].is_content)
    return tokenize_template(segments[0].text, add_special, true);
  TENUTO_ASSIGN(const std::vector<TokenId> contents,
                tokenize(JoinKind(segments, true), false, true));
  if (std::any_of(contents.begin(), contents.end(), is_control)) {
    return TokenizeApart(tokenize, segments, add_special);
  }
  // A control token could still be born or lost across a border, of the end of a message and the
  // start of the template's text.
  TENUTO_ASSIGN(std::vector<TokenId> whole, tokenize(JoinSegments(segments), add_special, true));
  TENUTO_ASSIGN(const std::vector<TokenId> own,
                tokenize_template(JoinKind(segments, false), add_special, true));
  if (ControlTokens(whole, is_control) != ControlTokens(own, is_control)) {
    return TokenizeApart(tokenize, segments, add_special);
  }
  return whole;
}

}  // namespace tenuto
