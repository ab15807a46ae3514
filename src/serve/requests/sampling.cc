#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "recall/zone.h"
#include "serve/json/writer.h"
#include "serve/requests/parts.h"
#include "serve/requests/read.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr IntRange kInt32{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
constexpr NumberRange kBias{-100, 100};
constexpr uint64_t kLlamaRandomSeed = 0xFFFFFFFF;

// Replaces `target` where the field is given.
Status ReadInto(double& target, const json::object& object, std::string_view name,
                NumberRange range) {
  TENUTO_ASSIGN(const auto value, ReadNumber(object, name, range));
  if (value) target = *value;
  return Ok();
}

Status ReadInto(int32_t& target, const json::object& object, std::string_view name,
                IntRange range) {
  TENUTO_ASSIGN(const auto value, ReadInt(object, name, range));
  if (value) target = static_cast<int32_t>(*value);
  return Ok();
}

Status ReadSeed(const json::object& object, const SamplingRules& rules, TurnRequest& turn) {
  const json::value* value = Member(object, "seed");
  if (value == nullptr) return Ok();
  if (value->is_uint64()) {
    turn.sampling.seed = value->get_uint64();
  } else {
    constexpr IntRange kAny{std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()};
    TENUTO_ASSIGN(const int64_t seed, ToInt(*value, "seed", kAny));
    turn.sampling.seed = static_cast<uint64_t>(seed);
    if (rules.minus_one_seed_is_random && seed == -1) return Ok();
  }
  if (rules.minus_one_seed_is_random && turn.sampling.seed == kLlamaRandomSeed) return Ok();
  turn.seed_given = true;
  return Ok();
}

Status ReadStop(const json::object& object, TurnRequest& turn) {
  const json::value* value = Member(object, "stop");
  if (value == nullptr) return Ok();
  if (value->is_string()) {
    turn.stop.emplace_back(value->get_string());
  } else if (value->is_array()) {
    const json::array& array = value->get_array();
    if (array.size() > kStopStringsMax) {
      return InvalidAt("stop", "takes at most " + std::to_string(kStopStringsMax) + " strings");
    }
    for (size_t i = 0; i < array.size(); ++i) {
      if (!array[i].is_string()) return InvalidAt("stop" + Index(i), "must be a string");
      turn.stop.emplace_back(array[i].get_string());
    }
  } else {
    return InvalidAt("stop", "must be a string or an array of strings");
  }
  for (const std::string& stop : turn.stop) {
    if (stop.empty()) return InvalidAt("stop", "must not hold an empty string");
    if (stop.size() > kStopStringBytesMax) {
      return InvalidAt(
          "stop", "takes strings of at most " + std::to_string(kStopStringBytesMax) + " bytes");
    }
  }
  return Ok();
}

Result<TokenId> BiasToken(std::string_view text, int32_t vocabulary_size) {
  TokenId token = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), token);
  if (text.empty() || ec != std::errc() || end != text.data() + text.size() || token < 0 ||
      token >= vocabulary_size) {
    return InvalidAt("logit_bias", "must name token ids from 0 to " +
                                       std::to_string(vocabulary_size - 1) + ", not '" +
                                       std::string(text.substr(0, 32)) + "'");
  }
  return token;
}

Result<float> BiasOf(const json::value& value, const std::string& where) {
  // llama-server's way to ban a token.
  if (value.is_bool() && !value.get_bool()) return -std::numeric_limits<float>::infinity();
  TENUTO_ASSIGN(const double bias, ToNumber(value, where, kBias));
  return static_cast<float>(bias);
}

// OpenAI's {"id": bias} and llama-server's [[id, bias], ...].
Status ReadLogitBias(const json::object& object, const RequestContext& context, TurnRequest& turn) {
  const json::value* value = Member(object, "logit_bias");
  if (value == nullptr) return Ok();
  auto& biases = turn.sampling.logit_bias;
  const size_t size = value->is_object()  ? value->get_object().size()
                      : value->is_array() ? value->get_array().size()
                                          : 0;
  if (size > kLogitBiasMax) {
    return InvalidAt("logit_bias", "takes at most " + std::to_string(kLogitBiasMax) + " tokens");
  }
  if (value->is_object()) {
    for (const auto& member : value->get_object()) {
      TENUTO_ASSIGN(const TokenId token, BiasToken(member.key(), context.vocabulary_size));
      // Not the key: leading zeros make it as long as its sender likes.
      TENUTO_ASSIGN(const float bias,
                    BiasOf(member.value(), "logit_bias." + std::to_string(token)));
      biases.emplace_back(token, bias);
    }
    return Ok();
  }
  if (!value->is_array()) return InvalidAt("logit_bias", "must map token ids to numbers");
  const json::array& array = value->get_array();
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string where = "logit_bias" + Index(i);
    if (!array[i].is_array() || array[i].get_array().size() != 2) {
      return InvalidAt(where, "must be [token id, bias]");
    }
    const json::array& pair = array[i].get_array();
    if (pair[0].is_string()) {
      return InvalidAt(where, "must name its token by id; text is not supported yet");
    }
    TENUTO_ASSIGN(const int64_t token,
                  ToInt(pair[0], where, {0, int64_t{context.vocabulary_size} - 1}));
    TENUTO_ASSIGN(const float bias, BiasOf(pair[1], where));
    biases.emplace_back(static_cast<TokenId>(token), bias);
  }
  return Ok();
}

}  // namespace

Status ReadSampling(const json::object& object, const SamplingRules& rules,
                    const RequestContext& context, TurnRequest& turn) {
  SamplingParams& sampling = turn.sampling;
  TENUTO_TRY(ReadInto(sampling.temperature, object, "temperature", {0, rules.temperature_max}));
  TENUTO_TRY(ReadInto(sampling.top_k, object, "top_k", {-1, kInt32.high}));
  TENUTO_TRY(ReadInto(sampling.top_p, object, "top_p", {0, 1}));
  TENUTO_TRY(ReadInto(sampling.min_p, object, "min_p", {0, 1}));
  TENUTO_TRY(ReadInto(sampling.presence_penalty, object, "presence_penalty", {-2, 2}));
  TENUTO_TRY(ReadInto(sampling.frequency_penalty, object, "frequency_penalty", {-2, 2}));
  TENUTO_TRY(ReadInto(sampling.repeat_penalty, object, "repeat_penalty", {0.01, 100}));
  TENUTO_TRY(ReadInto(sampling.penalty_last_n, object, "repeat_last_n", {-1, kInt32.high}));
  TENUTO_TRY(ReadSeed(object, rules, turn));
  TENUTO_TRY(ReadStop(object, turn));
  TENUTO_TRY(ReadLogitBias(object, context, turn));
  TENUTO_ASSIGN(const auto ignore_end, ReadBool(object, "ignore_eos"));
  turn.ignore_end = ignore_end.value_or(false);
  return Ok();
}

Status ReadRecall(const json::object& object, bool chat, TurnRequest& turn) {
  const json::value* value = Member(object, "recall");
  if (value == nullptr) return Ok();
  // The empty text is none of the three.
  const std::string mode(value->is_string() ? std::string_view(value->get_string()) : "");
  if (mode == "auto") {
    turn.recall = RecallMode::kAuto;
  } else if (mode == "off") {
    turn.recall = RecallMode::kOff;
  } else if (mode == "force") {
    turn.recall = RecallMode::kForced;
    if (!chat)
      return InvalidAt("recall", "as \"force\" needs messages: a raw prompt is taken as it is");
    if (!turn.session)
      return InvalidAt("recall", "as \"force\" needs a session_id: else there is no history");
  } else {
    return InvalidAt("recall", "must be \"auto\", \"off\" or \"force\"");
  }
  return Ok();
}

Status ReadPriority(const json::object& object, TurnRequest& turn) {
  const json::value* value = Member(object, "priority");
  if (value == nullptr) return Ok();
  const std::string priority(value->is_string() ? std::string_view(value->get_string()) : "");
  if (priority != "interactive" && priority != "batch")
    return InvalidAt("priority", "must be \"interactive\" or \"batch\"");
  turn.priority = priority == "batch" ? TurnPriority::kBatch : TurnPriority::kInteractive;
  return Ok();
}

Result<std::string> ReadTimezone(const json::object& object) {
  TENUTO_ASSIGN(auto zone, ReadString(object, "timezone"));
  if (!zone) return std::string();
  if (!ZoneOffset(*zone, 0))
    return InvalidAt("timezone",
                     "must be a time zone such as \"Europe/Berlin\", or an offset such as "
                     "\"+09:00\"");
  return std::move(*zone);
}

std::string SamplingJson(const TurnRequest& turn) {
  const SamplingParams& sampling = turn.sampling;
  JsonWriter writer;
  writer.BeginObject()
      .Field("temperature", sampling.temperature)
      .Field("top_k", sampling.top_k)
      .Field("top_p", sampling.top_p)
      .Field("min_p", sampling.min_p)
      .Field("repeat_penalty", sampling.repeat_penalty)
      .Field("repeat_last_n", sampling.penalty_last_n)
      .Field("presence_penalty", sampling.presence_penalty)
      .Field("frequency_penalty", sampling.frequency_penalty);
  if (turn.seed_given) writer.Field("seed", sampling.seed);
  writer.Field("n_predict", turn.max_tokens.value_or(-1)).Field("ignore_eos", turn.ignore_end);
  if (turn.recall == RecallMode::kOff) writer.Field("recall", "off");
  if (turn.recall == RecallMode::kForced) writer.Field("recall", "force");
  writer.Key("stop").BeginArray();
  for (const std::string& stop : turn.stop)
    writer.String(stop);
  writer.EndArray().Key("logit_bias").BeginArray();
  for (const auto& [token, bias] : sampling.logit_bias) {
    writer.BeginArray().Int(token);
    // A ban has no number in JSON.
    if (bias == -std::numeric_limits<float>::infinity()) {
      writer.Bool(false);
    } else {
      writer.Double(static_cast<double>(bias));
    }
    writer.EndArray();
  }
  writer.EndArray().EndObject();
  return writer.Take();
}

}  // namespace tenuto
