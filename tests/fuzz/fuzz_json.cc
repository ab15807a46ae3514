// Any bytes as the body of a request: refused in words, or a value that is the same once written
// and read again. Then as a request of each endpoint, whole and as members behind those that the
// endpoint must have: refused at a field, or within every range that docs/api.md promises.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"
#include "serve/answers/errors.h"
#include "serve/json/parse.h"
#include "serve/json/writer.h"
#include "serve/requests/fields.h"
#include "serve/requests/generate.h"

namespace tenuto {
namespace {

namespace json = boost::json;

// So small that inputs reach them.
constexpr JsonLimits kSmall = {.depth_max = 4, .members_max = 8, .memory_bytes_max = 2048};
constexpr size_t kErrorTextMax = 1024;
constexpr size_t kErrorFieldMax = 8192;  // a path of kJsonDepthMax names
constexpr size_t kIgnoredNameMax = 128;

constexpr int32_t kVocabulary = 1000;
constexpr int32_t kWindow = 512;

// An answer can carry it: short, UTF-8, JSON.
void CheckRefusal(const Error& error) {
  TENUTO_CHECK(error.code() == Code::kInvalid || error.field() == "model");
  TENUTO_CHECK(!error.message().empty() && error.message().size() <= kErrorTextMax);
  TENUTO_CHECK(error.field().size() <= kErrorFieldMax);
  const HttpResponse response = ErrorResponse(error);
  TENUTO_CHECK(response.status == (error.code() == Code::kInvalid ? 400 : 404));
  TENUTO_CHECK(ParseJsonObject(response.body).ok());
}

// The library reads some doubles a unit in the last place off, so they may differ by a few.
bool SameNumber(double a, double b) {
  constexpr double kUnits = 8 * std::numeric_limits<double>::epsilon();
  return a == b || std::fabs(a - b) <= kUnits * std::fabs(a) ||
         std::fabs(a - b) <= 8 * std::numeric_limits<double>::denorm_min();
}

double AsDouble(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  return value.get_double();
}

bool Same(const json::value& a, const json::value& b) {
  if (a.is_double()) return b.is_number() && SameNumber(a.get_double(), AsDouble(b));
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    return std::equal(a.get_array().begin(), a.get_array().end(), b.get_array().begin(),
                      b.get_array().end(), Same);
  }
  if (!a.is_object()) return a == b;
  return std::equal(a.get_object().begin(), a.get_object().end(), b.get_object().begin(),
                    b.get_object().end(), [](const auto& x, const auto& y) {
                      return x.key() == y.key() && Same(x.value(), y.value());
                    });
}

// Writes `value` with our own writer and checks what the parser promises of it.
void Write(const json::value& value, size_t depth_left, JsonWriter& writer) {
  if (value.is_object()) {
    TENUTO_CHECK(depth_left > 0);
    writer.BeginObject();
    for (const auto& member : value.get_object()) {
      TENUTO_CHECK(IsUtf8(member.key()));
      writer.Key(member.key());
      Write(member.value(), depth_left - 1, writer);
    }
    writer.EndObject();
  } else if (value.is_array()) {
    TENUTO_CHECK(depth_left > 0);
    writer.BeginArray();
    for (const json::value& item : value.get_array())
      Write(item, depth_left - 1, writer);
    writer.EndArray();
  } else if (value.is_string()) {
    TENUTO_CHECK(IsUtf8(value.get_string()));
    writer.String(value.get_string());
  } else if (value.is_double()) {
    TENUTO_CHECK(std::isfinite(value.get_double()));
    writer.Double(value.get_double());
  } else if (value.is_int64()) {
    writer.Int(value.get_int64());
  } else if (value.is_uint64()) {
    writer.Uint(value.get_uint64());
  } else if (value.is_bool()) {
    writer.Bool(value.get_bool());
  } else {
    writer.Null();
  }
}

void TryValue(std::string_view text) {
  const auto value = ParseJson(text, RequestJsonLimits());
  const auto small = ParseJson(text, kSmall);
  TENUTO_CHECK(value.ok() || !small.ok());
  if (!small.ok()) CheckRefusal(small.error());
  if (!value.ok()) return CheckRefusal(value.error());
  TENUTO_CHECK(!small.ok() || *small == *value);
  TENUTO_CHECK(ParseJsonObject(text).ok() == value->is_object());

  JsonWriter writer;
  Write(*value, kJsonDepthMax, writer);
  const auto again = ParseJson(writer.text(), RequestJsonLimits());
  TENUTO_CHECK(again.ok() && Same(*value, *again));
}

void CheckSampling(const TurnRequest& turn, double temperature_max) {
  const SamplingParams& sampling = turn.sampling;
  const auto within = [](double value, double low, double high) {
    return value >= low && value <= high;
  };
  TENUTO_CHECK(within(sampling.temperature, 0, temperature_max));
  TENUTO_CHECK(within(sampling.top_p, 0, 1) && within(sampling.min_p, 0, 1));
  TENUTO_CHECK(within(sampling.presence_penalty, -2, 2));
  TENUTO_CHECK(within(sampling.frequency_penalty, -2, 2));
  TENUTO_CHECK(within(sampling.repeat_penalty, 0.01, 100));
  TENUTO_CHECK(sampling.top_k >= -1 && sampling.penalty_last_n >= -1);
  TENUTO_CHECK(sampling.logit_bias.size() <= kLogitBiasMax);
  for (const auto& [token, bias] : sampling.logit_bias) {
    TENUTO_CHECK(token >= 0 && token < kVocabulary);
    TENUTO_CHECK(within(static_cast<double>(bias), -100, 100) ||
                 bias == -std::numeric_limits<float>::infinity());
  }
  TENUTO_CHECK(turn.stop.size() <= kStopStringsMax);
  for (const std::string& stop : turn.stop)
    TENUTO_CHECK(!stop.empty() && stop.size() <= kStopStringBytesMax);
  TENUTO_CHECK(turn.max_tokens.value_or(0) >= 0);
}

void CheckInput(const GenerateRequest& request) {
  const TurnRequest& turn = request.turn;
  switch (turn.kind) {
    case TurnRequest::Kind::kChat:
      TENUTO_CHECK(request.api == ApiKind::kChat && !turn.messages.empty());
      TENUTO_CHECK(turn.messages.back().role != "assistant");
      for (const ChatMessage& message : turn.messages) {
        const std::string& role = message.role;
        TENUTO_CHECK(role == "system" || role == "user" || role == "assistant");
        TENUTO_CHECK(!message.content.empty() || role == "assistant");
      }
      break;
    case TurnRequest::Kind::kText:
      TENUTO_CHECK(!turn.text.empty() && turn.tokens.empty() && request.parts.empty());
      break;
    case TurnRequest::Kind::kTokens:
      TENUTO_CHECK(turn.tokens.empty() != request.parts.empty());
      TENUTO_CHECK(turn.tokens.size() < kWindow && turn.text.empty());
      break;
  }
  for (const TokenId token : turn.tokens)
    TENUTO_CHECK(token >= 0 && token < kVocabulary);
  for (const PromptPart& part : request.parts) {
    TENUTO_CHECK(request.api == ApiKind::kLlama);
    const auto* tokens = std::get_if<1>(&part);
    for (size_t i = 0; tokens != nullptr && i < tokens->size(); ++i)
      TENUTO_CHECK(tokens->at(i) >= 0 && tokens->at(i) < kVocabulary);
  }
}

void CheckRequest(const GenerateRequest& request, const RequestHeaders& headers) {
  const TurnRequest& turn = request.turn;
  CheckSampling(turn, request.api == ApiKind::kLlama ? 100 : 2);
  CheckInput(request);
  TENUTO_CHECK(request.stream || !request.include_usage);
  TENUTO_CHECK(turn.session.has_value() || headers.session_id.empty());
  TENUTO_CHECK(turn.idempotency_key == headers.idempotency_key);
  TENUTO_CHECK(ParseJsonObject(turn.params_json).ok());
  // One more for a model of another name.
  TENUTO_CHECK(request.ignored.size() <= kIgnoredFieldsMax + 1);
  for (const std::string& name : request.ignored)
    TENUTO_CHECK(name.size() <= kIgnoredNameMax);
}

using Parse = Result<GenerateRequest> (*)(std::string_view, const RequestHeaders&,
                                          const RequestContext&);

void TryGenerate(Parse parse, std::string_view body, const RequestHeaders& headers) {
  RequestContext context = {.vocabulary_size = kVocabulary,
                            .window_tokens = kWindow,
                            .token_bytes_max = 16,
                            .strict = false,
                            .model_name = "tiny"};
  const auto request = parse(body, headers, context);
  context.strict = true;
  const auto strict = parse(body, headers, context);
  // Strict is the same and ignores nothing.
  TENUTO_CHECK(strict.ok() == (request.ok() && request->ignored.empty()));
  if (!strict.ok()) CheckRefusal(strict.error());
  if (!request.ok()) return CheckRefusal(request.error());
  CheckRequest(*request, headers);
}

void TryBody(std::string_view body) {
  for (const Parse parse : {ParseChatRequest, ParseCompletionsRequest, ParseLlamaRequest})
    TryGenerate(parse, body, {});
  for (const bool strict : {false, true}) {
    const auto tokenize = ParseTokenizeRequest(body, strict);
    if (!tokenize.ok()) CheckRefusal(tokenize.error());
    const RequestContext context = {.vocabulary_size = kVocabulary, .strict = strict};
    const auto tokens = ParseDetokenizeRequest(body, context);
    if (!tokens.ok()) CheckRefusal(tokens.error());
    // Strict is the same and ignores nothing.
    TENUTO_CHECK(!strict || !tokenize.ok() || tokenize->ignored.empty());
    TENUTO_CHECK(!strict || !tokens.ok() || tokens->ignored.empty());
    for (size_t i = 0; tokens.ok() && i < tokens->tokens.size(); ++i)
      TENUTO_CHECK(tokens->tokens[i] >= 0 && tokens->tokens[i] < kVocabulary);
  }
}

void TryMembers(const std::string& members) {
  const RequestHeaders kept = {.session_id = "a", .idempotency_key = "k"};
  const std::string chat = R"({"messages":[{"role":"user","content":"hi"}],)" + members + "}";
  TryGenerate(ParseChatRequest, chat, kept);
  const std::string prompt = R"({"prompt":"hi",)" + members + "}";
  TryGenerate(ParseCompletionsRequest, prompt, kept);
  TryGenerate(ParseLlamaRequest, prompt, kept);
}

}  // namespace
}  // namespace tenuto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(data, data + size);
  tenuto::TryValue(text);
  tenuto::TryBody(text);
  tenuto::TryMembers(text);
  return 0;
}
