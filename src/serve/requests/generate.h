// Bodies of the endpoints that generate text, parsed into a turn and how its answer is wanted.
// Pure: no service, no clock. Every error is kInvalid and names the field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "serve/http/types.h"
#include "session/turn_types.h"

namespace tenuto {

// What a parser must know of the model and the settings.
struct RequestContext {
  int32_t vocabulary_size = 0;
  int32_t window_tokens = 0;
  int32_t token_bytes_max = 0;  // 0: not known
  bool strict = false;
  std::string model_name;  // as answers name it
};

// Fields that come in the head.
struct RequestHeaders {
  std::string session_id;
  std::string idempotency_key;
};
Result<RequestHeaders> ReadRequestHeaders(const HttpRequest& request);

// A prompt of text and ids mixed: each text is tokenized on its own.
using PromptPart = std::variant<std::string, std::vector<TokenId>>;

enum class ApiKind : uint8_t { kChat, kCompletions, kLlama };

struct GenerateRequest {
  ApiKind api = ApiKind::kChat;
  TurnRequest turn;
  std::vector<PromptPart> parts;  // not empty: turn.tokens is made of these first
  bool stream = false;
  bool include_usage = false;  // of a stream
  bool return_tokens = false;
  std::vector<std::string> ignored;
};

Result<GenerateRequest> ParseChatRequest(std::string_view body, const RequestHeaders& headers,
                                         const RequestContext& context);
Result<GenerateRequest> ParseCompletionsRequest(std::string_view body,
                                                const RequestHeaders& headers,
                                                const RequestContext& context);
Result<GenerateRequest> ParseLlamaRequest(std::string_view body, const RequestHeaders& headers,
                                          const RequestContext& context);

struct TokenizeRequest {
  std::string content;
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
  std::vector<std::string> ignored;
};
struct DetokenizeRequest {
  std::vector<TokenId> tokens;
  std::vector<std::string> ignored;
};
Result<TokenizeRequest> ParseTokenizeRequest(std::string_view body, bool strict);
Result<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body,
                                                 const RequestContext& context);

}  // namespace tenuto
