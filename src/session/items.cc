#include "session/items.h"

#include <boost/json.hpp>

#include "crypto/hash.h"
#include "recall/zone.h"
#include "session/recall_record.h"

namespace tenuto {
namespace {

namespace json = boost::json;

json::object ItemToJson(const ChatMessage& item) {
  json::object object{{"role", item.role}, {"content", item.content}};
  if (!item.name.empty()) object["name"] = item.name;
  boost::system::error_code error;
  if (!item.tool_calls.empty()) object["tool_calls"] = json::parse(item.tool_calls, error);
  if (!item.tool_call_id.empty()) object["tool_call_id"] = item.tool_call_id;
  return object;
}

json::object ItemToJson(const StoredItem& item, bool raw) {
  json::object object = ItemToJson(item.message);
  if (!item.client_id.empty()) object["client_id"] = item.client_id;
  if (item.zone_s != 0) object["zone"] = OffsetText(item.zone_s);
  if (raw) object["raw"] = true;
  return object;
}

Error CorruptItems() {
  return {Code::kCorrupt, "stored JSON is not what this version writes"};
}

std::string StringOr(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

int64_t IntOr(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return 0;
  if (value->is_int64()) return value->get_int64();
  // 64-bit seeds past the signed range come back as unsigned.
  return value->is_uint64() ? static_cast<int64_t>(value->get_uint64()) : 0;
}

int32_t Int32Or(const json::object& object, std::string_view key) {
  return static_cast<int32_t>(IntOr(object, key));
}

Result<json::value> ParseStored(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) return CorruptItems();
  return value;
}

}  // namespace

std::span<const ChatMessage> SystemItems(std::span<const ChatMessage> messages) {
  size_t count = 0;
  while (count < messages.size() && messages[count].role == "system")
    ++count;
  return messages.first(count);
}

std::string ItemsToJson(std::span<const ChatMessage> items) {
  json::array array;
  for (const ChatMessage& item : items)
    array.push_back(ItemToJson(item));
  return json::serialize(array);
}

std::string StoredItemsJson(std::span<const StoredItem> items) {
  json::array array;
  for (const StoredItem& item : items)
    array.push_back(ItemToJson(item, false));
  return json::serialize(array);
}

Result<std::vector<StoredItem>> StoredItemsFromJson(const std::string& text) {
  TENUTO_ASSIGN(const json::value value, ParseStored(text));
  if (!value.is_array()) return CorruptItems();
  std::vector<StoredItem> items;
  for (const json::value& entry : value.get_array()) {
    if (!entry.is_object()) return CorruptItems();
    const json::object& object = entry.get_object();
    StoredItem item;
    item.message = {StringOr(object, "role"), StringOr(object, "content"),
                    StringOr(object, "name")};
    const json::value* calls = object.if_contains("tool_calls");
    if (calls != nullptr && calls->is_array()) item.message.tool_calls = json::serialize(*calls);
    item.message.tool_call_id = StringOr(object, "tool_call_id");
    item.client_id = StringOr(object, "client_id");
    item.zone_s = ZoneOffset(StringOr(object, "zone"), 0).value_or(0);
    items.push_back(std::move(item));
  }
  return items;
}

Result<std::vector<ChatMessage>> ItemsFromJson(const std::string& text) {
  TENUTO_ASSIGN(auto items, StoredItemsFromJson(text));
  std::vector<ChatMessage> messages;
  messages.reserve(items.size());
  for (StoredItem& item : items)
    messages.push_back(std::move(item.message));
  return messages;
}

std::string TurnItemsJson(const TurnRequest& request, const std::string& answer, int32_t zone_s) {
  const bool raw = request.kind != TurnRequest::Kind::kChat;
  json::array array;
  if (raw) {
    array.push_back(ItemToJson(StoredItem{{"user", request.text, ""}, "", zone_s}, true));
  } else {
    for (const ChatMessage& item : request.messages)
      array.push_back(ItemToJson({item, "", item.role == "system" ? 0 : zone_s}, false));
  }
  array.push_back(ItemToJson(StoredItem{{"assistant", answer, ""}, "", zone_s}, raw));
  return json::serialize(array);
}

std::string OutcomeToJson(const TurnOutcome& outcome, const std::string& request_digest) {
  json::array tokens;
  for (const TokenId token : outcome.tokens)
    tokens.push_back(token);
  json::array reasons;
  for (const KvReason& reason : outcome.reasons)
    reasons.push_back(
        json::object{{"code", reason.code}, {"tokens", reason.tokens}, {"detail", reason.detail}});
  RecallRecord recall;
  recall.outcome = outcome.recall;
  recall.tokens = static_cast<uint32_t>(outcome.recall.tokens);
  const json::object object{
      {"request", request_digest},
      {"turn", outcome.turn.value},
      {"text", outcome.text},
      {"tokens", tokens},
      {"finish_reason", outcome.finish_reason},
      {"stop_string", outcome.stop_string},
      {"incomplete", outcome.incomplete},
      {"seed", outcome.seed},
      {"prompt_tokens", outcome.prompt_tokens},
      {"reused", outcome.reused},
      {"restored", outcome.restored},
      {"recomputed", outcome.recomputed},
      {"reasons", reasons},
      {"window_turns", outcome.window_turns},
      {"window_tokens", outcome.window_tokens},
      {"window_limit", outcome.window_limit},
      {"queue", outcome.times.queue},
      {"restore", outcome.times.restore},
      {"prefill", outcome.times.prefill},
      {"decode", outcome.times.decode},
      {"recall_decision", outcome.recall.decision},
      {"recall", RecordToJson(recall)},
  };
  return json::serialize(object);
}

Result<StoredOutcome> OutcomeFromJson(const std::string& text) {
  TENUTO_ASSIGN(const json::value value, ParseStored(text));
  if (!value.is_object()) return CorruptItems();
  const json::object& object = value.get_object();
  StoredOutcome stored;
  stored.request_digest = StringOr(object, "request");
  TurnOutcome& outcome = stored.outcome;
  outcome.turn.value = StringOr(object, "turn");
  outcome.text = StringOr(object, "text");
  outcome.finish_reason = StringOr(object, "finish_reason");
  outcome.stop_string = StringOr(object, "stop_string");
  const json::value* incomplete = object.if_contains("incomplete");
  outcome.incomplete = incomplete != nullptr && incomplete->is_bool() && incomplete->get_bool();
  outcome.seed = static_cast<uint64_t>(IntOr(object, "seed"));
  outcome.prompt_tokens = Int32Or(object, "prompt_tokens");
  outcome.reused = Int32Or(object, "reused");
  outcome.restored = Int32Or(object, "restored");
  outcome.recomputed = Int32Or(object, "recomputed");
  outcome.window_turns = Int32Or(object, "window_turns");
  outcome.window_tokens = Int32Or(object, "window_tokens");
  outcome.window_limit = Int32Or(object, "window_limit");
  const auto time = [&](std::string_view key) {
    const json::value* number = object.if_contains(key);
    boost::system::error_code error;
    const double ms = number == nullptr ? 0 : number->to_number<double>(error);
    return error ? 0 : ms;
  };
  TENUTO_ASSIGN(const RecallRecord recall, RecordFromJson(StringOr(object, "recall")));
  outcome.recall = recall.outcome;
  if (const std::string decision = StringOr(object, "recall_decision"); !decision.empty())
    outcome.recall.decision = decision;
  outcome.times = {time("queue"), time("restore"), time("prefill"), time("decode"), 0};
  if (const json::value* tokens = object.if_contains("tokens");
      tokens != nullptr && tokens->is_array())
    for (const json::value& token : tokens->get_array())
      if (token.is_int64()) outcome.tokens.push_back(static_cast<TokenId>(token.get_int64()));
  outcome.completion_tokens = static_cast<int32_t>(outcome.tokens.size());
  if (const json::value* reasons = object.if_contains("reasons");
      reasons != nullptr && reasons->is_array())
    for (const json::value& reason : reasons->get_array())
      if (reason.is_object())
        outcome.reasons.push_back({StringOr(reason.get_object(), "code"),
                                   Int32Or(reason.get_object(), "tokens"),
                                   StringOr(reason.get_object(), "detail")});
  return stored;
}

std::string ParamsWithSeed(const std::string& params_json, uint64_t seed) {
  boost::system::error_code error;
  json::value value = json::parse(params_json, error);
  if (error || !value.is_object()) value = json::object();
  value.get_object()["seed"] = seed;
  return json::serialize(value);
}

std::string RequestDigest(const TurnRequest& request) {
  Sha256 hash;
  hash.UpdateU64(static_cast<uint64_t>(request.kind));
  hash.UpdateField(ItemsToJson(request.messages));
  hash.UpdateField(request.text);
  hash.UpdateU64(request.tokens.size());
  for (const TokenId token : request.tokens)
    hash.UpdateU64(static_cast<uint64_t>(token));
  hash.UpdateU64(static_cast<uint64_t>(int64_t{request.max_tokens.value_or(-1)}));
  hash.UpdateU64(request.stop.size());
  for (const std::string& stop : request.stop)
    hash.UpdateField(stop);
  hash.UpdateU64(request.ignore_end ? 1 : 0);
  hash.UpdateField(request.params_json);
  if (!request.timezone.empty()) hash.UpdateField(request.timezone);
  return hash.Finish().Hex();
}

}  // namespace tenuto
