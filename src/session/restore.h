// Brings stored pieces back into a sequence: read, check and import overlap (read and check on the
// pool, import on the engine). Never fails a request: what can't be used is told, the rest is the
// caller's to compute (INV-3).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "session/buffer_pool.h"
#include "session/chain.h"
#include "session/context.h"

namespace tenuto {

struct RestoreJob {
  SeqId seq;
  std::vector<PieceRow> pieces;  // adjacent; the first begins where the sequence ends
  Digest256 owner;
  std::function<bool()> cancelled;  // asked between pieces, on the core runner; may be empty
};

struct RestoreResult {
  TokenPos end = 0;               // the sequence now holds [0, end)
  std::vector<int64_t> bad_rows;  // pieces that failed a check and those after them
  std::vector<KvReason> reasons;
};

// `done` runs on the core runner, never from within this call.
void RestorePieces(const SessionContext& context, std::shared_ptr<BufferPool> buffers,
                   RestoreJob job, std::function<void(RestoreResult)> done);

// Reads one piece and checks everything that must hold before a byte reaches an engine: header,
// owner, fingerprint, range, prefix, checksums. Blocking. `buffer` has the row's size; the value is
// the payload within it. On error `reason` is its code of docs/reasons.md.
struct PieceError {
  std::string reason;
  Error error;
};
std::variant<std::span<const std::byte>, PieceError> ReadPiece(PayloadStore& store,
                                                               const PieceRow& row,
                                                               const Digest256& owner,
                                                               PieceCodec codec,
                                                               std::span<std::byte> buffer);

// Whether a row names a size that a piece can have: asked before the size is used (INV-12).
bool PossiblePieceSize(const PieceRow& row);

}  // namespace tenuto
