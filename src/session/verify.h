// Proves that a session's stored KV is what its log says: the bytes survive import and export
// unchanged, and the logits that come from them are those of a recompute. Blocking, on an executor
// of its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "payload/store.h"
#include "session/turn_types.h"
#include "tokenlog/log.h"

namespace tenuto {

struct VerifyReport {
  int32_t log_tokens = 0;
  int32_t stored_tokens = 0;  // usable for this engine
  int32_t pieces = 0;
  uint64_t piece_bytes = 0;
  int32_t pieces_unequal = 0;      // exported again with other bytes
  std::vector<KvReason> unusable;  // stored KV that can't be used, and why
  int32_t damaged_pieces = 0;      // pieces that failed a check on the way in

  std::vector<TokenPos> positions;  // where logits were compared
  // Largest |logit(restored) - logit(recomputed as it was served: prompts in chunks, answers token
  // by token)|. 0 where the session was alone on a server from its start.
  double restored_difference = 0;
  double recompute_difference = 0;  // largest among recomputes in other batches or other cells
  double logit_magnitude = 0;       // largest |logit|, for scale

  double bound() const { return 2 * recompute_difference; }
  bool bytes_equal() const { return pieces_unequal == 0 && damaged_pieces == 0; }
  bool logits_equal() const {
    return std::isfinite(restored_difference) && restored_difference <= bound();
  }
  bool nothing_stored() const { return stored_tokens == 0 && unusable.empty(); }
  // What `tenuto verify` calls OK.
  bool good() const { return unusable.empty() && bytes_equal() && logits_equal(); }
};

// `progress` is told what is being done; may be empty. kNotFound: no such session; kConflict:
// another vocabulary; kExhausted: the executor's cells don't hold the session; kCorrupt, kIo from
// the log.
// REQUIRES: three sequences.
Result<VerifyReport> VerifySession(Executor& executor, TokenLog& log, PayloadStore& store,
                                   const SessionKey& key,
                                   const std::function<void(const std::string&)>& progress);

}  // namespace tenuto
