// The digest chain over a line of turns: each turn's digest covers its content and the digest of
// its parent, the first one the session's full name and head tokens. So a row that was changed,
// swapped with another session's or left out shows at reading (docs/formats/tokenlog.md, "Turn
// digest"). Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "crypto/hash.h"
#include "tokenlog/log.h"

namespace tenuto {

// What the first turn of a session has in the place of its parent's digest.
Digest256 LineSeed(const SessionKey& key, const std::vector<TokenId>& head_tokens);

Digest256 TurnDigest(const Digest256& parent, const TurnRow& turn);

// Where a line ends, as the next turn needs it. Unsigned, so that adding to what a damaged row
// holds is defined.
struct LineEnd {
  Digest256 digest;
  uint64_t turns = 0;
  uint64_t tokens = 0;
  bool operator==(const LineEnd&) const = default;
};

// Holds a deleted turn in its place: after `parent`, with the line that ended with it as it was.
Digest256 TombstoneDigest(const Digest256& parent, const LineEnd& end, const TurnRow& turn);

}  // namespace tenuto
