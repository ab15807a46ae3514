// What each sequence of the executor holds, and all that moves KV other than a step: truncate,
// copy, import, export. Knows the length of every sequence, so that a caller's mistake is an error
// and never reaches the executor. An export goes on piece by piece while its sequence is used;
// whatever would remove what it has not read yet first lets it finish, so that calls take effect in
// the order made. Engine's runner only. Is the only user of the executor's sequences, which must be
// empty at the start.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/embedded/outbox.h"
#include "engine/engine.h"
#include "engine/executor.h"

namespace tenuto {

class SequenceSet {
 public:
  // `piece_bytes_target`: payload of an exported piece, at most kPieceBytesMax.
  SequenceSet(Executor& executor, Outbox& outbox, size_t piece_bytes_target);

  bool Has(SeqId seq) const;
  TokenPos held(SeqId seq) const;            // REQUIRES: Has(seq)
  void Appended(SeqId seq, int32_t tokens);  // a step did

  // kInvalid: no such sequence, or one that does not hold what the call takes for granted; nothing
  // changed.
  Status Truncate(SeqId seq, TokenPos end);
  Status CopyPrefix(SeqId from, SeqId to, TokenPos end);
  Status Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes);
  // Nobody knows what the sequence holds: empties it; its exports end with `why`.
  void Drop(SeqId seq, const Error& why);

  // `done` goes to the outbox when all is read, or at once with kInvalid.
  void StartExport(SeqId seq, TokenRange range, Engine::ExportDone done);
  bool exporting() const { return !exports_.empty(); }
  // One piece of the oldest export. Returns its bytes. REQUIRES: exporting().
  size_t ExportPiece();
  void FailExports(const Error& why);

 private:
  struct ExportJob {
    SeqId seq;
    TokenRange left;
    Engine::ExportDone done;
    std::vector<ExportedPiece> pieces;
  };

  TokenPos& Held(SeqId seq) { return held_[static_cast<size_t>(seq.value)]; }
  Status Check(SeqId seq) const;
  bool ReadPiece(ExportJob& job, size_t& bytes);
  void FinishExportsPast(SeqId seq, TokenPos end);
  void Answer(ExportJob& job, Result<std::vector<ExportedPiece>> result);

  Executor& executor_;
  Outbox& outbox_;
  int32_t piece_tokens_;
  std::vector<TokenPos> held_;  // by SeqId
  std::deque<ExportJob> exports_;
};

}  // namespace tenuto
