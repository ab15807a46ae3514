// What a start clears away: files of KV pieces and recall indexes that the token log does not know.
// Blocking; before the server answers anybody.
#pragma once

#include <cstdint>

#include "base/metrics.h"
#include "base/result.h"
#include "payload/store.h"
#include "session/index_cache.h"
#include "tokenlog/log.h"

namespace tenuto {

// Removes files that no row names: left by a crash between writing and committing, or by a removal
// that did not happen. Where they are of sessions that the log does not know, a warning says so
// before: a log that lost its newest commits looks like that. Costs a look at each file that goes,
// and where there is one at the sessions of the log.
Status SweepPieces(PayloadStore& payloads, TokenLog& log, Metrics& metrics);

// Indexes of sessions that are gone: left by a crash between the deletion and theirs.
Status SweepIndexes(IndexCache& indexes, TokenLog& log);

}  // namespace tenuto
