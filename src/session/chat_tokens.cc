#include "session/chat_tokens.h"

#include <algorithm>

namespace tenuto {
namespace {

// Roles are printed by the template, and clients choose them.
constexpr size_t kTextsKnownMax = 128;
constexpr size_t kTextKnownBytesMax = 4096;

RenderChat RenderWith(const Engine& engine) {
  return [&engine](std::span<const ChatMessage> messages, bool open) {
    return engine.RenderChat(messages, open);
  };
}

}  // namespace

TokenizeText TokenizerOf(const Engine& engine) {
  return [&engine](std::string_view text, bool add_special, bool parse_special) {
    return engine.Tokenize(text, add_special, parse_special);
  };
}

bool StartsWith(std::span<const TokenId> tokens, std::span<const TokenId> start) {
  return tokens.size() >= start.size() && std::ranges::equal(tokens.first(start.size()), start);
}

Result<TurnTokens> ChatTokenizer::Turn(std::span<const ChatMessage> items, bool first) {
  const RenderChat render = RenderWith(engine_);
  const std::string& default_system = engine_.info().default_system;
  TENUTO_ASSIGN(const auto segments, first ? RenderFirstTurn(render, items, default_system)
                                           : RenderNextTurn(render, items));
  TurnTokens tokens;
  TENUTO_ASSIGN(tokens.suffix, Tokenize(segments, first));
  tokens.close = CloseTokens();
  if (!segments.front().is_content) {
    TENUTO_ASSIGN(auto opening, Tokenize(std::span(segments).first(1), first));
    // A token that reaches from the template's text into the message's leaves no place between.
    if (!StartsWith(tokens.suffix, opening)) {
      TENUTO_ASSIGN(const auto rest, Tokenize(std::span(segments).subspan(1), false));
      tokens.suffix = opening;
      tokens.suffix.insert(tokens.suffix.end(), rest.begin(), rest.end());
    }
    tokens.text_at = static_cast<uint32_t>(opening.size());
  }
  if (!first) {
    if (StartsWith(tokens.suffix, tokens.close))
      tokens.close_tokens = static_cast<uint32_t>(tokens.close.size());
    return tokens;
  }
  if (const auto system = RenderSystem(render, items, default_system); system.ok()) {
    TENUTO_ASSIGN(auto head, Tokenize(*system, true));
    if (StartsWith(tokens.suffix, head)) tokens.head = std::move(head);
  }
  return tokens;
}

std::vector<TokenId> ChatTokenizer::CloseTokens() {
  const auto close = RenderClose(RenderWith(engine_));
  if (!close.ok()) return {};
  auto tokens = TemplateTokens(*close, false);
  return tokens.ok() ? std::move(tokens).value() : std::vector<TokenId>();
}

Result<std::vector<TokenId>> ChatTokenizer::Tokenize(std::span<const ChatSegment> segments,
                                                     bool add_special) {
  const auto of_template = [this](std::string_view text, bool special, bool /*parse_special*/) {
    return TemplateTokens(text, special);
  };
  const auto is_control = [this](TokenId token) { return engine_.TokenText(token, false).empty(); };
  return TokenizeSegments(TokenizerOf(engine_), of_template, is_control, segments, add_special);
}

Result<std::vector<TokenId>> ChatTokenizer::TemplateTokens(std::string_view text,
                                                           bool add_special) {
  if (text.size() > kTextKnownBytesMax) return engine_.Tokenize(text, add_special, true);
  const std::pair<std::string, bool> key(text, add_special);
  {
    const MutexLock lock(mutex_);
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
  }
  TENUTO_ASSIGN(const std::vector<TokenId> tokens, engine_.Tokenize(text, add_special, true));
  const MutexLock lock(mutex_);
  if (known_.size() >= kTextsKnownMax) known_.clear();
  known_.emplace(key, tokens);
  return tokens;
}

}  // namespace tenuto
