#include "tokenlog/digest.h"

#include <bit>
#include <span>

namespace tenuto {
namespace {

static_assert(std::endian::native == std::endian::little, "token blobs are little endian");

void UpdateTokens(Sha256& hash, const std::vector<TokenId>& tokens) {
  hash.UpdateU64(tokens.size());
  hash.Update(std::as_bytes(std::span(tokens)));
}

}  // namespace

Digest256 LineSeed(const SessionKey& key, const std::vector<TokenId>& head_tokens) {
  Sha256 hash;
  hash.UpdateField("tenuto.line.2");
  hash.UpdateField(key.Full());
  UpdateTokens(hash, head_tokens);
  return hash.Finish();
}

Digest256 TurnDigest(const Digest256& parent, const TurnRow& turn) {
  Sha256 hash;
  hash.UpdateField("tenuto.turn.2");
  hash.Update(std::span<const std::byte>(parent.bytes));
  hash.UpdateField(turn.id.value);
  hash.UpdateField(turn.parent.value);
  hash.UpdateU64(turn.window_first);
  hash.UpdateU64(turn.close_tokens);
  UpdateTokens(hash, turn.prompt);
  UpdateTokens(hash, turn.answer);
  hash.UpdateField(turn.items_json);
  hash.UpdateField(turn.params_json);
  hash.UpdateField(turn.finish_reason);
  hash.UpdateU64(turn.incomplete ? 1 : 0);
  hash.UpdateField(turn.idempotency_key);
  hash.UpdateField(turn.outcome_json);
  hash.UpdateField(turn.recall_json);
  hash.UpdateU64(static_cast<uint64_t>(turn.created_unix_ms));
  hash.UpdateU64(static_cast<uint64_t>(turn.completed_unix_ms));
  return hash.Finish();
}

Digest256 TombstoneDigest(const Digest256& parent, const LineEnd& end, const TurnRow& turn) {
  Sha256 hash;
  hash.UpdateField("tenuto.tombstone.3");
  hash.Update(std::span<const std::byte>(parent.bytes));
  hash.Update(std::span<const std::byte>(end.digest.bytes));
  hash.UpdateField(turn.id.value);
  hash.UpdateField(turn.parent.value);
  hash.UpdateU64(end.turns);
  hash.UpdateU64(end.tokens);
  hash.UpdateU64(turn.window_first);
  hash.UpdateU64(static_cast<uint64_t>(turn.created_unix_ms));
  hash.UpdateU64(static_cast<uint64_t>(turn.completed_unix_ms));
  return hash.Finish();
}

}  // namespace tenuto
