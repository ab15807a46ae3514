// The digest of a token prefix, extended piece by piece: what ties stored KV to the very tokens it
// was computed from.
//   D(empty) = SHA-256("tenuto-chain-1" || owner || fingerprint)
//   D(prefix + run) = SHA-256(D(prefix) || u32 count || count x i32 token), all little endian
// A chain value therefore depends on where the runs were cut: pieces name both of their ends.
#pragma once

#include <span>

#include "base/ids.h"
#include "crypto/hash.h"

namespace tenuto {

Digest256 OwnerDigest(
    const SessionKey& key);  // SHA-256 over the four parts as length-prefixed fields
Digest256 ChainStart(const Digest256& owner, const Digest256& fingerprint);
Digest256 ChainExtend(const Digest256& prefix, std::span<const TokenId> run);

}  // namespace tenuto
