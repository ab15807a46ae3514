// The digest chain over a line of turns: each turn's digest covers its content and the digest of
// its parent, the first one the session's full name and head tokens. So a row that was changed,
// swapped with another session's or left out shows at reading (docs/formats/tokenlog.md, "Turn
// digest"). Pure functions.
#pragma once

#include <vector>

#include "base/ids.h"
#include "crypto/hash.h"
#include "tokenlog/log.h"

namespace tenuto {

// What the first turn of a session has in the place of its parent's digest.
Digest256 LineSeed(const SessionKey& key, const std::vector<TokenId>& head_tokens);

Digest256 TurnDigest(const Digest256& parent, const TurnRow& turn);

}  // namespace tenuto
