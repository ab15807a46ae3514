#include "serve/requests/generate.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "serve/json/parse.h"
#include "serve/requests/fields.h"
#include "serve/requests/parts.h"
#include "serve/requests/read.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr int64_t kTokensMax = std::numeric_limits<int32_t>::max();

Result<std::string> OneHeader(const HttpRequest& request, std::string_view name) {
  if (request.Count(name) > 1) {
    return Error(Code::kInvalid, "header " + std::string(name) + " is given more than once")
        .At(std::string(name));
  }
  const std::string* value = request.Find(name);
  return value == nullptr ? std::string() : *value;
}

// Any name is served by the one model there is: clients are configured with names of other servers.
// That it differs is said, or refused where nothing may be ignored.
Status ReadModel(const json::object& object, const RequestContext& context,
                 std::vector<std::string>& ignored) {
  TENUTO_ASSIGN(const auto model, ReadString(object, "model"));
  if (!model || model->empty() || *model == context.model_name) return Ok();
  if (context.strict) {
    return Error(Code::kNotFound, "model '" + model->substr(0, 128) + "' is not served here; '" +
                                      context.model_name + "' is")
        .At("model");
  }
  ignored.insert(std::lower_bound(ignored.begin(), ignored.end(), "model"), "model");
  return Ok();
}

Status ReadStream(const json::object& object, bool strict, GenerateRequest& request) {
  TENUTO_ASSIGN(const auto stream, ReadBool(object, "stream"));
  request.stream = stream.value_or(false);
  const json::value* options = Member(object, "stream_options");
  if (options == nullptr) return Ok();
  if (!options->is_object()) return InvalidAt("stream_options", "must be an object");
  if (!request.stream) return InvalidAt("stream_options", "needs 'stream': true");
  for (const auto& member : options->get_object()) {
    const std::string path = "stream_options." + std::string(member.key().substr(0, 64));
    const json::value& value = member.value();
    if (member.key() == "include_usage") {
      if (!value.is_bool() && !value.is_null()) return InvalidAt(path, "must be true or false");
      request.include_usage = value.is_bool() && value.get_bool();
    } else if (member.key() == "include_obfuscation") {
      if (!IsInert(value, Inert::kFalse)) {
        return Error(Code::kInvalid, "field '" + path + "' is not supported yet").At(path);
      }
    } else {
      TENUTO_TRY(IgnoreField(path, strict, request.ignored));
    }
  }
  return Ok();
}

Status ReadMaxTokens(const json::object& object, TurnRequest& turn) {
  TENUTO_ASSIGN(const auto old_name, ReadInt(object, "max_tokens", {0, kTokensMax}));
  TENUTO_ASSIGN(const auto new_name, ReadInt(object, "max_completion_tokens", {0, kTokensMax}));
  if (old_name && new_name && *old_name != *new_name) {
    return InvalidAt("max_tokens", "and 'max_completion_tokens' differ; give one of them");
  }
  const auto given = new_name ? new_name : old_name;
  if (given) turn.max_tokens = static_cast<int32_t>(*given);
  return Ok();
}

// What every generating endpoint reads the same way.
Status ReadCommon(const json::object& object, Endpoint endpoint, const RequestHeaders& headers,
                  const RequestContext& context, GenerateRequest& request) {
  TENUTO_TRY(CheckFields(object, endpoint, context.strict, request.ignored));
  TENUTO_TRY(ReadModel(object, context, request.ignored));
  TENUTO_TRY(ReadStream(object, context.strict, request));
  TENUTO_TRY(ReadSession(object, headers, request.turn));
  TENUTO_TRY(ReadRecall(object, endpoint == Endpoint::kChat, request.turn));
  TENUTO_TRY(ReadPriority(object, request.turn));
  TENUTO_ASSIGN(request.turn.timezone, ReadTimezone(object));
  SamplingRules rules;
  if (endpoint == Endpoint::kLlamaCompletion) rules = {100.0, true};
  return ReadSampling(object, rules, context, request.turn);
}

Status CheckTokenCount(size_t tokens, const RequestContext& context) {
  if (tokens < static_cast<size_t>(context.window_tokens)) return Ok();
  return InvalidAt("prompt", "has " + std::to_string(tokens) + " tokens, which the window of " +
                                 std::to_string(context.window_tokens) + " tokens cannot hold");
}

Status ReadPromptArray(const json::array& array, bool mixed, const RequestContext& context,
                       GenerateRequest& request) {
  TurnRequest& turn = request.turn;
  const auto is_text = [](const json::value& value) { return value.is_string(); };
  const auto is_list = [](const json::value& value) { return value.is_array(); };
  if (array.empty()) return InvalidAt("prompt", "must not be empty");
  if (array.size() == 1 && is_text(array[0])) {
    turn.kind = TurnRequest::Kind::kText;
    turn.text = array[0].get_string();
    return Ok();
  }
  const bool one_list = array.size() == 1 && is_list(array[0]);
  const bool several = !one_list && (std::any_of(array.begin(), array.end(), is_list) ||
                                     std::all_of(array.begin(), array.end(), is_text));
  if (several) return InvalidAt("prompt", "holds several prompts; only one is supported yet");
  const json::array& items = one_list ? array[0].get_array() : array;
  const std::string where = one_list ? "prompt[0]" : "prompt";
  if (items.empty()) return InvalidAt("prompt", "must not be empty");
  turn.kind = TurnRequest::Kind::kTokens;
  if (!mixed || std::none_of(items.begin(), items.end(), is_text)) {
    TENUTO_ASSIGN(turn.tokens, ToTokens(items, where, context.vocabulary_size));
    return CheckTokenCount(turn.tokens.size(), context);
  }
  const IntRange vocabulary{0, int64_t{context.vocabulary_size} - 1};
  size_t bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (is_text(items[i])) {
      bytes += items[i].get_string().size();
      request.parts.emplace_back(std::string(items[i].get_string()));
      continue;
    }
    TENUTO_ASSIGN(const int64_t token, ToInt(items[i], where + Index(i), vocabulary));
    if (request.parts.empty() || request.parts.back().index() == 0) {
      request.parts.emplace_back(std::vector<TokenId>());
    }
    std::get<1>(request.parts.back()).push_back(static_cast<TokenId>(token));
  }
  return CheckTextSize(bytes, "prompt", context);
}

}  // namespace

Result<RequestHeaders> ReadRequestHeaders(const HttpRequest& request) {
  RequestHeaders headers;
  TENUTO_ASSIGN(headers.session_id, OneHeader(request, "X-Session-ID"));
  TENUTO_ASSIGN(headers.idempotency_key, OneHeader(request, "Idempotency-Key"));
  const std::string& key = headers.idempotency_key;
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  if (key.size() > kIdempotencyKeyBytesMax || !printable) {
    return Error(Code::kInvalid, "header Idempotency-Key must be at most " +
                                     std::to_string(kIdempotencyKeyBytesMax) +
                                     " bytes of printable ASCII")
        .At("Idempotency-Key");
  }
  if (request.Find("X-Session-ID") != nullptr && headers.session_id.empty()) {
    return Error(Code::kInvalid, "header X-Session-ID is empty").At("X-Session-ID");
  }
  return headers;
}

Result<std::optional<SessionKey>> ReadSessionKey(const json::object& object,
                                                 const RequestHeaders& headers) {
  TENUTO_ASSIGN(const auto in_body, ReadString(object, "session_id"));
  if (!in_body && headers.session_id.empty()) return std::optional<SessionKey>();
  auto key = ParseSessionKey(in_body ? *in_body : headers.session_id);
  if (!key) return std::move(key).error().At("session_id");
  if (in_body && !headers.session_id.empty()) {
    const auto in_head = ParseSessionKey(headers.session_id);
    if (!in_head || *in_head != *key) {
      return InvalidAt("session_id", "and header X-Session-ID differ; give one of them");
    }
  }
  return std::optional<SessionKey>(std::move(key).value());
}

Status ReadSession(const json::object& object, const RequestHeaders& headers, TurnRequest& turn) {
  TENUTO_ASSIGN(turn.session, ReadSessionKey(object, headers));
  if (turn.session) {
    turn.identity = turn.session->tenant + "::" + turn.session->user + "::" + turn.session->agent;
  }
  if (!headers.idempotency_key.empty() && !turn.session) {
    return Error(Code::kInvalid,
                 "header Idempotency-Key needs a session_id: without one nothing "
                 "is kept that a retry could find")
        .At("Idempotency-Key");
  }
  turn.idempotency_key = headers.idempotency_key;
  return Ok();
}

Status CheckTextSize(size_t bytes, const std::string& where, const RequestContext& context) {
  if (context.token_bytes_max <= 0) return Ok();
  const size_t tokens_min = bytes / static_cast<size_t>(context.token_bytes_max);
  if (tokens_min <= static_cast<size_t>(context.window_tokens)) return Ok();
  return InvalidAt(where, "is too long: " + std::to_string(bytes) +
                              " bytes can't fit in the window of " +
                              std::to_string(context.window_tokens) +
                              " tokens, for no token of this model has more than " +
                              std::to_string(context.token_bytes_max) + " bytes");
}

Status ReadPrompt(const json::object& object, bool mixed, const RequestContext& context,
                  GenerateRequest& request) {
  const json::value* value = Member(object, "prompt");
  if (value == nullptr) return InvalidAt("prompt", "is missing");
  TurnRequest& turn = request.turn;
  if (value->is_string()) {
    turn.kind = TurnRequest::Kind::kText;
    turn.text = value->get_string();
  } else if (value->is_array()) {
    TENUTO_TRY(ReadPromptArray(value->get_array(), mixed, context, request));
  } else {
    return InvalidAt("prompt", "must be a string or an array of token ids");
  }
  if (turn.kind == TurnRequest::Kind::kText) {
    if (turn.text.empty()) return InvalidAt("prompt", "must not be empty");
    return CheckTextSize(turn.text.size(), "prompt", context);
  }
  return Ok();
}

Result<GenerateRequest> ParseChatRequest(std::string_view body, const RequestHeaders& headers,
                                         const RequestContext& context) {
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  GenerateRequest request;
  request.api = ApiKind::kChat;
  TENUTO_TRY(ReadCommon(object, Endpoint::kChat, headers, context, request));
  TENUTO_TRY(ReadMaxTokens(object, request.turn));
  request.turn.kind = TurnRequest::Kind::kChat;
  TENUTO_ASSIGN(request.turn.messages, ReadMessages(object, context.strict, request.ignored));
  size_t bytes = 0;
  for (size_t i = 0; i < request.turn.messages.size(); ++i) {
    bytes += request.turn.messages[i].content.size();
    TENUTO_TRY(CheckTextSize(bytes, "messages" + Index(i) + ".content", context));
  }
  request.turn.params_json = SamplingJson(request.turn);
  return request;
}

Result<GenerateRequest> ParseCompletionsRequest(std::string_view body,
                                                const RequestHeaders& headers,
                                                const RequestContext& context) {
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  GenerateRequest request;
  request.api = ApiKind::kCompletions;
  TENUTO_TRY(ReadCommon(object, Endpoint::kCompletions, headers, context, request));
  TENUTO_TRY(ReadMaxTokens(object, request.turn));
  TENUTO_TRY(ReadPrompt(object, /*mixed=*/false, context, request));
  request.turn.params_json = SamplingJson(request.turn);
  return request;
}

Result<GenerateRequest> ParseLlamaRequest(std::string_view body, const RequestHeaders& headers,
                                          const RequestContext& context) {
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  GenerateRequest request;
  request.api = ApiKind::kLlama;
  TENUTO_TRY(ReadCommon(object, Endpoint::kLlamaCompletion, headers, context, request));
  // -1: until the window is full. -2, llama-server's "until the context is full", is the same here.
  TENUTO_ASSIGN(const auto n_predict, ReadInt(object, "n_predict", {-2, kTokensMax}));
  TENUTO_ASSIGN(const auto max_tokens, ReadInt(object, "max_tokens", {-2, kTokensMax}));
  if (n_predict && max_tokens && *n_predict != *max_tokens) {
    return InvalidAt("n_predict", "and 'max_tokens' differ; give one of them");
  }
  const auto given = n_predict ? n_predict : max_tokens;
  if (given && *given >= 0) request.turn.max_tokens = static_cast<int32_t>(*given);
  TENUTO_ASSIGN(const auto return_tokens, ReadBool(object, "return_tokens"));
  request.return_tokens = return_tokens.value_or(false);
  TENUTO_TRY(ReadPrompt(object, /*mixed=*/true, context, request));
  request.turn.params_json = SamplingJson(request.turn);
  return request;
}

Result<TokenizeRequest> ParseTokenizeRequest(std::string_view body, bool strict) {
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  TokenizeRequest request;
  TENUTO_TRY(CheckFields(object, Endpoint::kTokenize, strict, request.ignored));
  TENUTO_ASSIGN(auto content, ReadString(object, "content"));
  if (!content) return InvalidAt("content", "is missing");
  if (content->size() > kTokenizeBytesMax) {
    return InvalidAt("content", "is too long: " + std::to_string(content->size()) +
                                    " bytes, and at most " + std::to_string(kTokenizeBytesMax) +
                                    " are tokenized at once");
  }
  TENUTO_ASSIGN(const auto add_special, ReadBool(object, "add_special"));
  TENUTO_ASSIGN(const auto parse_special, ReadBool(object, "parse_special"));
  TENUTO_ASSIGN(const auto with_pieces, ReadBool(object, "with_pieces"));
  request.content = std::move(*content);
  request.add_special = add_special.value_or(false);
  request.parse_special = parse_special.value_or(true);
  request.with_pieces = with_pieces.value_or(false);
  return request;
}

Result<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body,
                                                 const RequestContext& context) {
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  DetokenizeRequest request;
  TENUTO_TRY(CheckFields(object, Endpoint::kDetokenize, context.strict, request.ignored));
  const json::value* tokens = Member(object, "tokens");
  if (tokens == nullptr) return InvalidAt("tokens", "is missing");
  if (!tokens->is_array()) return InvalidAt("tokens", "must be an array of token ids");
  if (tokens->get_array().size() > kDetokenizeTokensMax) {
    return InvalidAt("tokens",
                     "may hold at most " + std::to_string(kDetokenizeTokensMax) + " token ids");
  }
  TENUTO_ASSIGN(request.tokens, ToTokens(tokens->get_array(), "tokens", context.vocabulary_size));
  return request;
}

}  // namespace tenuto
