// What our own commands say to a server and read from its answers (docs/api.md). Pure functions;
// bytes from the wire are trusted in nothing: what is missing or of another type counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat.h"
#include "serve/http/client.h"

namespace tenuto {

// Body of a streaming /v1/chat/completions for one turn. `system` goes before the message when not
// empty.
std::string ChatRequestJson(const ChatOptions& options, const std::string& session,
                            std::string_view system, std::string_view message);

// The `tenuto` object of an answer, as far as a person wants it.
struct TurnNote {
  int64_t reused = 0, restored = 0, recomputed = 0;  // tokens
  int64_t answer_tokens = 0;
  int64_t recalled_turns = 0, recalled_tokens = 0;  // quoted from the archive
  double restore_ms = 0, decode_ms = 0;
  std::vector<std::pair<std::string, int64_t>> reasons;  // code, tokens
  bool replayed = false;
  std::string incomplete;  // why the answer ended early, or ""
};

// "restored 1,204 tokens in 41 ms, computed 23, 12.8 tok/s"; reasons that are news are named:
// "computed 812 (corrupt)".
std::string NoteText(const TurnNote& note);

// One event of the stream.
struct ChatEvent {
  std::string text;
  std::string error;  // the turn failed: a sentence
  std::optional<TurnNote> note;
  bool length = false;  // the answer ended because a limit was reached
  bool done = false;
};
// kCorrupt: not JSON.
Result<ChatEvent> ReadChatEvent(std::string_view data);

// The sentence of an error answer in OpenAI's shape; for 401 how to give the key, or that the one
// that was sent was refused.
std::string ErrorSentence(const ClientResponse& response, bool key_sent = false);
// Whether it is an error in OpenAI's shape, as ours are.
bool IsErrorAnswer(const ClientResponse& response);

struct RemoteSession {
  std::string name;
  uint64_t turns = 0;
  uint64_t tokens = 0;
  bool replayed = false;  // of an import: it was there already, nothing was added
};
// kCorrupt: no session, no list of them.
Result<RemoteSession> ReadRemoteSession(std::string_view body);
Result<std::vector<RemoteSession>> ReadRemoteSessions(std::string_view body);

}  // namespace tenuto
