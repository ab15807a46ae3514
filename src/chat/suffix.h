// Renders a new turn as the suffix that a chat template adds after an answer, never by rendering
// the past again: templates rewrite history (reasoning removed, dates), the log must not change
// under it. Pure functions, thread-safe.
//
// What a user wrote must never become a control token: a message that holds "<|im_end|>" would
// close its own turn and open another in a role of its choice. So a rendering comes back as
// segments that say which text is the template's and which is a message's, and TokenizeSegments
// makes tokens of them.
//
// How it is done: the template is given a placeholder instead of each message's text, and the
// result is split there. Each placeholder is wrapped in white space; where the template trims it,
// the message's text is trimmed on that side as well (ASCII white space, as libllama's built-in
// templates and Jinja's `trim` do). What is given up: a template that looks inside a text, say to
// cut reasoning out of it, sees the placeholder. New items hold none to cut.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "chat/message.h"

namespace tenuto {

// How a template is applied: all messages, then the opening of an answer when asked. Given by the
// engine.
using RenderChat =
    std::function<Result<std::string>(std::span<const ChatMessage>, bool open_answer)>;

struct ChatSegment {
  std::string text;  // not empty
  bool is_content =
      false;  // true: text of a message, never control tokens; false: text of the template
  bool operator==(const ChatSegment&) const = default;
};

// A first turn: system items (or the template's own default system prompt, see
// DefaultSystemPrompt), the new items, the opening of the answer. kInvalid: the template refuses
// these roles (message says which) or leaves a text out.
Result<std::vector<ChatSegment>> RenderFirstTurn(const RenderChat& render,
                                                 std::span<const ChatMessage> messages,
                                                 const std::string& default_system);

// A later turn: what closes the last answer, the new items, the opening of the answer.
// Works with any template that renders an answer's text unchanged and does not move what came
// before it; else the error is kInvalid and says what the template does.
Result<std::vector<ChatSegment>> RenderNextTurn(const RenderChat& render,
                                                std::span<const ChatMessage> messages);

// What a first turn begins with before its first message that is not a system item. Empty: there is
// no system prompt. kInvalid: the template can't print a system prompt by itself (some put it into
// the first user message).
Result<std::vector<ChatSegment>> RenderSystem(const RenderChat& render,
                                              std::span<const ChatMessage> messages,
                                              const std::string& default_system);

// What closes an answer when another message follows: the start of what RenderNextTurn gives.
// Errors likewise.
Result<std::string> RenderClose(const RenderChat& render);

// All texts one after the other: what the template printed.
std::string JoinSegments(std::span<const ChatSegment> segments);

// As Executor::Tokenize and Engine::Tokenize.
using TokenizeText = std::function<Result<std::vector<TokenId>>(
    std::string_view text, bool add_special, bool parse_special)>;
// True for tokens that are not text ("<|im_end|>"): those whose TokenText is empty unless special
// ones are asked for.
using IsControlToken = std::function<bool(TokenId)>;

// Tokens of a rendering. `add_special`: true for a first turn, false for a later one.
// The text is tokenized as a whole, as the model was trained, as long as that gives the very
// control tokens that the template's own text has; when a message's text would add, hide or change
// one, each segment is tokenized by itself with special tokens parsed in the template's segments
// only. Segment by segment is always safe, but it is not the usual form: SentencePiece vocabularies
// put a space before each separate text. Errors are those of `tokenize`. `tokenize_template` gives
// the same for texts that are the template's alone: there are few of them, so it may remember.
Result<std::vector<TokenId>> TokenizeSegments(const TokenizeText& tokenize,
                                              const TokenizeText& tokenize_template,
                                              const IsControlToken& is_control,
                                              std::span<const ChatSegment> segments,
                                              bool add_special);

// The system prompt that a model's own (Jinja) template would add where the messages have none; ""
// when it adds none or the template's form is not one we know (a literal of the ChatML family, as
// in SmolLM2 and Qwen 2.5). `jinja` is the raw template text of the GGUF.
std::string DefaultSystemPrompt(const std::string& jinja);

}  // namespace tenuto
