// The JSON that the log keeps for clients: items of a turn, system items, the acknowledged outcome.
// Pure. Form of an item: {"role","content"[,"name"][,"tool_calls"][,"tool_call_id"][,"client_id"]
// [,"zone"][,"raw":true]}; "raw" marks text that went in without a chat template, "zone" is that of
// who spoke, as "+09:00".
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/message.h"
#include "session/turn_types.h"

namespace tenuto {

// The leading system messages of a request.
std::span<const ChatMessage> SystemItems(std::span<const ChatMessage> messages);
std::string ItemsToJson(std::span<const ChatMessage> items);

// Items of a whole turn: what was asked and the answer. `request.text` is that of a request without
// messages; `zone_s` that of who asked.
std::string TurnItemsJson(const TurnRequest& request, const std::string& answer,
                          int32_t zone_s = 0);

// Items as they are stored, with the name that a client has for each ("" for none).
struct StoredItem {
  ChatMessage message;
  std::string client_id;
  int32_t zone_s = 0;  // of who spoke, east of Greenwich
};
std::string StoredItemsJson(std::span<const StoredItem> items);
// kCorrupt: not the JSON this module writes.
Result<std::vector<StoredItem>> StoredItemsFromJson(const std::string& json);
Result<std::vector<ChatMessage>> ItemsFromJson(const std::string& json);

// What a retry with the same idempotency key gets, with the digest of the request that the key
// stands for.
std::string OutcomeToJson(const TurnOutcome& outcome, const std::string& request_digest);
struct StoredOutcome {
  TurnOutcome outcome;
  std::string request_digest;
};
Result<StoredOutcome> OutcomeFromJson(const std::string& json);

// `params_json` (an object) with the seed that was used.
std::string ParamsWithSeed(const std::string& params_json, uint64_t seed);

// Digest of all that makes a request what it is, hex.
std::string RequestDigest(const TurnRequest& request);

}  // namespace tenuto
