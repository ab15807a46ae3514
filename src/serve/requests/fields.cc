#include "serve/requests/fields.h"

#include <algorithm>
#include <array>
#include <utility>

#include "serve/requests/read.h"

namespace tenuto {
namespace {

namespace json = boost::json;
using Use = FieldRule::Use;

constexpr size_t kIgnoredBytesMax = 64;

constexpr FieldRule Honoured(std::string_view name) {
  return {name, Use::kHonoured, Inert::kNever, ""};
}
constexpr FieldRule Unless(std::string_view name, Inert inert, std::string_view why = "") {
  return {name, Use::kUnlessInert, inert, why};
}

// Sampling that all generating endpoints share.
constexpr std::array kSampling = {
    Honoured("temperature"),
    Honoured("top_k"),
    Honoured("top_p"),
    Honoured("min_p"),
    Honoured("presence_penalty"),
    Honoured("frequency_penalty"),
    Honoured("repeat_penalty"),
    Honoured("repeat_last_n"),
    Honoured("seed"),
    Honoured("stop"),
    Honoured("logit_bias"),
    Honoured("ignore_eos"),
    Honoured("stream"),
    Honoured("session_id"),
    Honoured("recall"),
    Honoured("timezone"),
    Honoured("priority"),
};

// Fields of llama-server and vLLM that we don't do, by the value that turns each off.
constexpr std::array kForeign = {
    Unless("typical_p", Inert::kOne),
    Unless("typ_p", Inert::kOne),
    Unless("tfs_z", Inert::kOne),
    Unless("dynatemp_range", Inert::kZero),
    Unless("dynatemp_exponent", Inert::kOne),
    Unless("mirostat", Inert::kZero),
    Unless("xtc_probability", Inert::kZero),
    Unless("dry_multiplier", Inert::kZero),
    Unless("top_n_sigma", Inert::kZeroOrMinus),
    Unless("n_probs", Inert::kZero),
    Unless("min_keep", Inert::kZero),
    Unless("n_keep", Inert::kZero, ": the window is trimmed by whole turns"),
    Unless("n_discard", Inert::kZero, ": the window is trimmed by whole turns"),
    Unless("n_indent", Inert::kZero),
    Unless("t_max_predict_ms", Inert::kZeroOrMinus),
    Unless("t_max_prompt_ms", Inert::kZeroOrMinus),
    Unless("cache_prompt", Inert::kTrue, " as false: what is reused is always exact"),
    Unless("id_slot", Inert::kMinusOne, ": sessions take the place of slots"),
    Unless("grammar", Inert::kEmpty),
    Unless("json_schema", Inert::kEmpty),
    Unless("samplers", Inert::kEmpty),
    Unless("lora", Inert::kEmpty),
    Unless("image_data", Inert::kEmpty),
    Unless("response_fields", Inert::kEmpty),
    Unless("input_prefix", Inert::kEmpty),
    Unless("input_suffix", Inert::kEmpty),
    Unless("input_extra", Inert::kEmpty),
    Unless("post_sampling_probs", Inert::kFalse),
    Unless("timings_per_token", Inert::kFalse),
    Unless("return_progress", Inert::kFalse),
    Unless("use_beam_search", Inert::kFalse),
    Unless("chat_template", Inert::kNever, ": the template is the server's, never a request's"),
    Unless("chat_template_kwargs", Inert::kEmpty),
    Unless("repetition_penalty", Inert::kOne, "; repeat_penalty is"),
    Unless("length_penalty", Inert::kOne),
    Unless("min_tokens", Inert::kZero),
    Unless("stop_token_ids", Inert::kEmpty),
    Unless("bad_words", Inert::kEmpty),
    Unless("prompt_logprobs", Inert::kNever),
    Unless("prompt_embeds", Inert::kNever),
    Unless("guided_json", Inert::kNever),
    Unless("guided_regex", Inert::kNever),
    Unless("guided_choice", Inert::kNever),
    Unless("guided_grammar", Inert::kNever),
    Unless("cache_salt", Inert::kNever, ": the server derives it"),
    Unless("tenuto", Inert::kEmpty),
};

// OpenAI's fields that both of its endpoints have.
constexpr std::array kOpenAi = {
    Honoured("model"),
    Honoured("max_tokens"),
    Honoured("stream_options"),
    Unless("n", Inert::kOne),
    Unless("user", Inert::kAnyString),
};

constexpr std::array kChat = {
    Honoured("messages"),
    Honoured("max_completion_tokens"),
    Unless("logprobs", Inert::kFalse),
    Unless("top_logprobs", Inert::kZero),
    Unless("tools", Inert::kEmpty),
    Unless("tool_choice", Inert::kEmptyOrNone),
    Unless("parallel_tool_calls", Inert::kAnyBool),
    Unless("functions", Inert::kEmpty),
    Unless("function_call", Inert::kEmptyOrNone),
    Unless("response_format", Inert::kTextFormat),
    Unless("modalities", Inert::kTextModality),
    Unless("audio", Inert::kNever),
    Unless("prediction", Inert::kNever),
    Unless("reasoning_effort", Inert::kNone),
    Unless("reasoning_format", Inert::kNone),
    Unless("verbosity", Inert::kMedium),
    Unless("web_search_options", Inert::kNever),
    Unless("store", Inert::kFalse, "; a session_id keeps the conversation"),
    Unless("metadata", Inert::kStringMap),
    Unless("service_tier", Inert::kAutoTier),
    Unless("safety_identifier", Inert::kAnyString),
    Unless("prompt_cache_key", Inert::kAnyString),
    Unless("prompt_cache_retention", Inert::kAnyString),
    Unless("add_generation_prompt", Inert::kNever),
    Unless("continue_final_message", Inert::kFalse),
};

constexpr std::array kCompletions = {
    Honoured("prompt"),
    Unless("best_of", Inert::kOne),
    Unless("echo", Inert::kFalse),
    Unless("logprobs", Inert::kFalse),
    Unless("suffix", Inert::kEmpty),
};

constexpr std::array kLlama = {
    Honoured("prompt"),        Honoured("n_predict"), Honoured("max_tokens"),
    Honoured("return_tokens"), Honoured("model"),
};

constexpr std::array kTokenize = {
    Honoured("content"),     Honoured("add_special"), Honoured("parse_special"),
    Honoured("with_pieces"), Honoured("model"),
};

constexpr std::array kDetokenize = {Honoured("tokens"), Honoured("model")};

constexpr std::array kSearch = {
    Honoured("session_id"), Honoured("scope"), Honoured("user"),
    Honoured("query"),      Honoured("limit"), Honoured("timezone"),
};

constexpr std::array kReplay = {Honoured("without"), Honoured("max_tokens")};

constexpr std::array kTurnChange = {Honoured("pinned"), Honoured("recall"),
                                    Honoured("superseded_by")};

template <size_t... N>
std::vector<FieldRule> Join(const std::array<FieldRule, N>&... parts) {
  std::vector<FieldRule> all;
  all.reserve((N + ...));
  (all.insert(all.end(), parts.begin(), parts.end()), ...);
  return all;
}

// Numbers compare by value whatever their kind.
bool IsNumber(const json::value& value, double wanted) {
  if (value.is_int64()) return static_cast<double>(value.get_int64()) == wanted;
  if (value.is_uint64()) return static_cast<double>(value.get_uint64()) == wanted;
  return value.is_double() && value.get_double() == wanted;
}

bool IsString(const json::value& value, std::string_view wanted) {
  return value.is_string() && std::string_view(value.get_string()) == wanted;
}

bool IsEmpty(const json::value& value) {
  if (value.is_string()) return value.get_string().empty();
  if (value.is_array()) return value.get_array().empty();
  return value.is_object() && value.get_object().empty();
}

bool IsStringMap(const json::value& value) {
  if (!value.is_object()) return false;
  const json::object& object = value.get_object();
  return std::all_of(object.begin(), object.end(),
                     [](const auto& member) { return member.value().is_string(); });
}

bool IsTextFormat(const json::value& value) {
  if (!value.is_object() || value.get_object().size() != 1) return false;
  const json::value* type = value.get_object().if_contains("type");
  return type != nullptr && IsString(*type, "text");
}

// What is refused for its kind alone says which kind it takes.
std::string_view KindOf(Inert inert) {
  if (inert == Inert::kAnyString) return "a string";
  if (inert == Inert::kStringMap) return "an object of strings";
  return inert == Inert::kAnyBool ? "true or false" : "";
}

bool IsOfNumber(Inert inert) {
  return inert == Inert::kZero || inert == Inert::kOne || inert == Inert::kMinusOne ||
         inert == Inert::kZeroOrMinus;
}

Error Refused(const FieldRule& rule, const json::value& value) {
  const std::string name(rule.name);
  if (IsOfNumber(rule.inert) && !value.is_number()) return InvalidAt(name, "must be a number");
  if (const std::string_view kind = KindOf(rule.inert); !kind.empty())
    return InvalidAt(name, "must be " + std::string(kind));
  return Error(Code::kInvalid, "field '" + name + "' is not supported yet" + std::string(rule.why))
      .At(name);
}

}  // namespace

bool IsInert(const json::value& value, Inert inert) {
  if (value.is_null()) return true;
  switch (inert) {
    case Inert::kNever:
      return false;
    case Inert::kFalse:
      return value.is_bool() && !value.get_bool();
    case Inert::kTrue:
      return value.is_bool() && value.get_bool();
    case Inert::kMinusOne:
      return IsNumber(value, -1);
    case Inert::kZero:
      return IsNumber(value, 0);
    case Inert::kOne:
      return IsNumber(value, 1);
    case Inert::kZeroOrMinus:
      return IsNumber(value, 0) || IsNumber(value, -1);
    case Inert::kEmpty:
      return IsEmpty(value);
    case Inert::kAnyBool:
      return value.is_bool();
    case Inert::kAnyString:
      return value.is_string();
    case Inert::kStringMap:
      return IsStringMap(value);
    case Inert::kEmptyOrNone:
      return IsEmpty(value) || IsString(value, "none") || IsString(value, "auto");
    case Inert::kTextFormat:
      return IsTextFormat(value);
    case Inert::kAutoTier:
      return IsString(value, "auto") || IsString(value, "default");
    case Inert::kNone:
      return IsString(value, "none");
    case Inert::kMedium:
      return IsString(value, "medium");
    case Inert::kTextModality:
      return value.is_array() && value.get_array().size() == 1 &&
             IsString(value.get_array()[0], "text");
  }
  return false;
}

std::span<const FieldRule> FieldRules(Endpoint endpoint) {
  static const std::vector<FieldRule> chat = Join(kChat, kOpenAi, kSampling, kForeign);
  static const std::vector<FieldRule> completions =
      Join(kCompletions, kOpenAi, kSampling, kForeign);
  static const std::vector<FieldRule> llama = Join(kLlama, kSampling, kForeign);
  switch (endpoint) {
    case Endpoint::kChat:
      return chat;
    case Endpoint::kCompletions:
      return completions;
    case Endpoint::kLlamaCompletion:
      return llama;
    case Endpoint::kTokenize:
      return kTokenize;
    case Endpoint::kDetokenize:
      return kDetokenize;
    case Endpoint::kSearch:
      return kSearch;
    case Endpoint::kReplay:
      return kReplay;
    case Endpoint::kTurnChange:
      return kTurnChange;
  }
  return {};
}

Status CheckFields(const json::object& object, Endpoint endpoint, bool strict,
                   std::vector<std::string>& ignored) {
  const std::span<const FieldRule> rules = FieldRules(endpoint);
  for (const auto& member : object) {
    const std::string_view name = member.key();
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const FieldRule& r) { return r.name == name; });
    if (rule == rules.end()) {
      TENUTO_TRY(IgnoreField(std::string(name.substr(0, kIgnoredBytesMax)), strict, ignored));
      continue;
    }
    if (rule->use == Use::kUnlessInert && !IsInert(member.value(), rule->inert)) {
      return Refused(*rule, member.value());
    }
  }
  std::sort(ignored.begin(), ignored.end());
  return Ok();
}

Status IgnoreField(std::string path, bool strict, std::vector<std::string>& ignored) {
  if (strict) return Error(Code::kInvalid, "field '" + path + "' is not known").At(path);
  if (ignored.size() < kIgnoredFieldsMax) ignored.push_back(std::move(path));
  return Ok();
}

}  // namespace tenuto
