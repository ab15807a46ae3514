#include "format/chain.h"

#include <bit>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "format/bytes.h"

namespace tenuto {

Digest256 OwnerDigest(const SessionKey& key) {
  Sha256 hash;
  hash.UpdateField(key.tenant);
  hash.UpdateField(key.user);
  hash.UpdateField(key.agent);
  hash.UpdateField(key.session);
  return hash.Finish();
}

Digest256 ChainStart(const Digest256& owner, const Digest256& fingerprint) {
  Sha256 hash;
  hash.Update("tenuto-chain-1");
  hash.Update(owner.bytes);
  hash.Update(fingerprint.bytes);
  return hash.Finish();
}

Digest256 ChainExtend(const Digest256& prefix, std::span<const TokenId> run) {
  TENUTO_CHECK(run.size() <= std::numeric_limits<uint32_t>::max());
  std::array<std::byte, sizeof(uint32_t)> word;
  Sha256 hash;
  hash.Update(prefix.bytes);
  PutLe(word, 0, static_cast<uint32_t>(run.size()));
  hash.Update(word);
  if constexpr (std::endian::native == std::endian::little) {
    hash.Update(std::as_bytes(run));
  } else {
    for (const TokenId token : run) {
      PutLe(word, 0, token);
      hash.Update(word);
    }
  }
  return hash.Finish();
}

}  // namespace tenuto
