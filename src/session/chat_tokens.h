// Messages as tokens, by the engine's chat template and vocabulary. Blocking; any thread.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "chat/suffix.h"
#include "engine/engine.h"
#include "session/window.h"

namespace tenuto {

TokenizeText TokenizerOf(const Engine& engine);

bool StartsWith(std::span<const TokenId> tokens, std::span<const TokenId> start);

class ChatTokenizer {
 public:
  explicit ChatTokenizer(const Engine& engine) : engine_(engine) {}

  // A turn's own tokens: `items` rendered as a session's first turn, or as what follows an answer.
  // kInvalid: the template refuses the roles or can't continue a conversation.
  Result<TurnTokens> Turn(std::span<const ChatMessage> items, bool first);

 private:
  // What closes an answer when another message follows. Empty: the template can't continue a
  // conversation.
  std::vector<TokenId> CloseTokens();
  Result<std::vector<TokenId>> Tokenize(std::span<const ChatSegment> segments, bool add_special);
  Result<std::vector<TokenId>> TemplateTokens(std::string_view text, bool add_special);

  const Engine& engine_;
  Mutex mutex_;
  // Of the template's own texts: the same few in every turn, and libllama compiles its regular
  // expressions anew for each text.
  std::map<std::pair<std::string, bool>, std::vector<TokenId>> known_ TENUTO_GUARDED_BY(mutex_);
};

}  // namespace tenuto
