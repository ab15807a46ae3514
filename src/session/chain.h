// The KV pieces of one session in order, as far as they belong to its tokens and to this engine.
// Pure.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "crypto/hash.h"
#include "format/chain.h"
#include "session/turn_types.h"
#include "tokenlog/log.h"

namespace tenuto {

struct KvChain {
  std::vector<PieceRow> pieces;  // ranges adjacent, from 0
  Digest256 end_digest;          // chain value at end()
  TokenPos end() const { return pieces.empty() ? 0 : pieces.back().range.end; }
  uint64_t bytes() const;
};

struct ChainBuild {
  KvChain chain;
  std::vector<int64_t> stale_rows;  // rows of this session that can't be used (any more)
  std::vector<KvReason> reasons;    // why, with the tokens that are lost by it
};

// Picks the rows whose fingerprint is `fingerprint` and whose digests chain over `tokens`, as far
// as they go without a gap. Rows past the first break are stale. Digests are computed again from
// the tokens: a row is a claim, not a proof.
ChainBuild BuildChain(std::span<const PieceRow> rows, std::span<const TokenId> tokens,
                      const Digest256& owner, const Digest256& fingerprint);

// Cuts the chain to the pieces that end at or before `end`; returns the ids of the rows cut off.
// `tokens` as above.
std::vector<int64_t> CutChain(KvChain& chain, TokenPos end, const Digest256& owner,
                              const Digest256& fingerprint);

}  // namespace tenuto
