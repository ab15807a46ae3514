#include "engine/embedded/sequence_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace tenuto {
namespace {

std::string Text(TokenRange range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

}  // namespace

SequenceSet::SequenceSet(Executor& executor, Outbox& outbox, size_t piece_bytes_target)
    : executor_(executor),
      outbox_(outbox),
      held_(static_cast<size_t>(executor.info().sequences), 0) {
  const size_t token_bytes = std::max<size_t>(1, executor.info().kv_bytes_per_token);
  const size_t tokens = std::min(piece_bytes_target, kPieceBytesMax) / token_bytes;
  piece_tokens_ = static_cast<int32_t>(std::clamp<size_t>(tokens, 1, INT32_MAX));
}

bool SequenceSet::Has(SeqId seq) const {
  return seq.value >= 0 && static_cast<size_t>(seq.value) < held_.size();
}

TokenPos SequenceSet::held(SeqId seq) const {
  TENUTO_DCHECK(Has(seq));
  return held_[static_cast<size_t>(seq.value)];
}

void SequenceSet::Appended(SeqId seq, int32_t tokens) {
  Held(seq) += tokens;
}

Status SequenceSet::Check(SeqId seq) const {
  if (Has(seq)) return Ok();
  return Error(Code::kInvalid, "no sequence " + std::to_string(seq.value));
}

Status SequenceSet::Truncate(SeqId seq, TokenPos end) {
  TENUTO_TRY(Check(seq));
  if (end < 0) return Error(Code::kInvalid, "truncate to " + std::to_string(end));
  if (end > 0 && end >= held(seq)) return Ok();
  FinishExportsPast(seq, end);
  TENUTO_TRY(executor_.Truncate(seq, end));
  Held(seq) = end;
  return Ok();
}

Status SequenceSet::CopyPrefix(SeqId from, SeqId to, TokenPos end) {
  TENUTO_TRY(Check(from));
  TENUTO_TRY(Check(to));
  if (end < 0 || end > held(from)) {
    return Error(Code::kInvalid, "copy of " + Text({0, end}) + " from a sequence that holds " +
                                     Text({0, held(from)}));
  }
  if (held(to) != 0) {
    return Error(Code::kInvalid, "copy into a sequence that holds " + Text({0, held(to)}));
  }
  TENUTO_TRY(executor_.CopyPrefix(from, to, end));
  Held(to) = end;
  return Ok();
}

Status SequenceSet::Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes) {
  TENUTO_TRY(Check(seq));
  if (range.begin != held(seq) || range.end <= range.begin) {
    return Error(Code::kInvalid, "import of " + Text(range) + " into a sequence that holds " +
                                     Text({0, held(seq)}));
  }
  TENUTO_TRY(executor_.Import(seq, range, bytes));
  Held(seq) = range.end;
  return Ok();
}

void SequenceSet::Drop(SeqId seq, const Error& why) {
  for (size_t i = 0; i < exports_.size();) {
    if (exports_[i].seq != seq) {
      ++i;
      continue;
    }
    Answer(exports_[i], why);
    exports_.erase(exports_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const Status status = executor_.Truncate(seq, 0);
  TENUTO_CHECK(status.ok());  // removing a whole sequence always works: see Executor
  Held(seq) = 0;
}

void SequenceSet::StartExport(SeqId seq, TokenRange range, Engine::ExportDone done) {
  ExportJob job{seq, range, std::move(done), {}};
  if (const Status status = Check(seq); !status) {
    Answer(job, status.error());
  } else if (range.begin < 0 || range.end <= range.begin || range.end > held(seq)) {
    Answer(job, Error(Code::kInvalid, "export of " + Text(range) + " of a sequence that holds " +
                                          Text({0, held(seq)})));
  } else {
    exports_.push_back(std::move(job));
  }
}

size_t SequenceSet::ExportPiece() {
  size_t bytes = 0;
  if (!ReadPiece(exports_.front(), bytes)) exports_.pop_front();
  return bytes;
}

void SequenceSet::FailExports(const Error& why) {
  for (ExportJob& job : exports_)
    Answer(job, why);
  exports_.clear();
}

// False when the job is answered.
bool SequenceSet::ReadPiece(ExportJob& job, size_t& bytes) {
  ExportedPiece piece;
  piece.range = {job.left.begin, std::min(job.left.end, job.left.begin + piece_tokens_)};
  Status status = executor_.Export(job.seq, piece.range, piece.payload);
  // What an executor adds to the KV itself may carry a piece over the limit.
  while (status.ok() && piece.payload.size() > kPieceBytesMax && piece.range.size() > 1) {
    piece_tokens_ = piece.range.size() / 2;
    piece.range.end = piece.range.begin + piece_tokens_;
    status = executor_.Export(job.seq, piece.range, piece.payload);
  }
  if (status.ok() && piece.payload.size() > kPieceBytesMax) {
    status = Error(Code::kExhausted, "one token's KV is larger than a piece may be");
  }
  if (!status.ok()) {
    Answer(job, std::move(status).error().With("export " + Text(piece.range)));
    return false;
  }
  bytes = piece.payload.size();
  job.left.begin = piece.range.end;
  job.pieces.push_back(std::move(piece));
  if (job.left.size() > 0) return true;
  Answer(job, std::move(job.pieces));
  return false;
}

// Reads to the end what truncating to `end` would take away from under an export.
void SequenceSet::FinishExportsPast(SeqId seq, TokenPos end) {
  for (size_t i = 0; i < exports_.size();) {
    if (exports_[i].seq != seq || exports_[i].left.end <= end) {
      ++i;
      continue;
    }
    size_t bytes = 0;
    while (ReadPiece(exports_[i], bytes)) {
    }
    exports_.erase(exports_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void SequenceSet::Answer(ExportJob& job, Result<std::vector<ExportedPiece>> result) {
  // Shared, so that handing a copyable task around never copies the payloads; the receiver gets
  // them moved.
  auto answer = std::make_shared<Result<std::vector<ExportedPiece>>>(std::move(result));
  outbox_.Add([done = std::move(job.done), answer] { done(std::move(*answer)); });
}

}  // namespace tenuto
