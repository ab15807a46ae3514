// The first half of an import: items cut into turns, their texts made into tokens. Blocking; runs
// on the pool, touches no core state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "session/context.h"
#include "session/window.h"
#include "tokenlog/log.h"

namespace tenuto {

struct ImportItem {
  ChatMessage message;                 // roles system (only in front), user, assistant, tool
  int64_t unix_ms = 0;                 // 0: not given
  std::string client_id;               // the client's own name for it; "" when it has none
  std::optional<int32_t> zone_s = {};  // of who spoke; none: as the session says
};

struct DraftTurn {
  size_t begin = 0;  // its items; the last is the answer when `answered`
  size_t end = 0;
  bool answered = false;
  TurnTokens asked = {};  // from TokenizeDraft, as the next
  std::vector<TokenId> answer = {};
};

struct ImportDraft {
  std::vector<ImportItem> items;
  std::vector<ChatMessage> system;  // that stood in front of them
  bool new_session = false;         // the first turn is the session's first
  std::vector<DraftTurn> turns;     // not empty
};

// An error at an item, as "items[3]".
Error AtItem(size_t index, Error error);

// A turn is the items up to and with an assistant's that calls no tool; what follows the last
// answer becomes a turn without one, as do tool calls that nobody answered. kInvalid, `At` the
// item: a role that can't stand there, an answer to nothing, a result that nobody called for, a
// system prompt that is another than the session's.
Result<ImportDraft> DraftImport(const std::optional<SessionRow>& row,
                                std::vector<ImportItem> items);

// Of turns [begin, end). Other turns of the draft may be tokenized by other threads meanwhile.
// kInvalid, `At` the item: the chat template refuses it.
Status TokenizeDraft(const SessionContext& context, ImportDraft& draft, size_t begin, size_t end);

}  // namespace tenuto
