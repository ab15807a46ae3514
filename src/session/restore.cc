#include "session/restore.h"

#include <map>
#include <utility>

#include "base/limits.h"
#include "base/log.h"

namespace tenuto {
namespace {

std::string_view MismatchReason(PieceMismatch mismatch) {
  switch (mismatch) {
    case PieceMismatch::kNone:
      return "";
    case PieceMismatch::kOwner:
      return "owner";
    case PieceMismatch::kFingerprint:
      return "fingerprint";
    case PieceMismatch::kPrefix:
      return "prefix";
    case PieceMismatch::kVersion:
      return "version";
  }
  return "corrupt";
}

std::string ReasonOf(const Error& error) {
  switch (error.code()) {
    case Code::kNotFound:
      return "missing";
    case Code::kInvalid:
      return "version";
    case Code::kCorrupt:
      return "corrupt";
    default:
      return "io";
  }
}

// So many imports are with the engine at a time: it goes on to the next without a way back to here
// in between.
constexpr size_t kImportsQueued = 2;

struct ReadOutcome {
  std::shared_ptr<ReadBuffer> buffer;
  std::variant<std::span<const std::byte>, PieceError> payload;
};

// One restore. Lives as long as a callback holds it; all members belong to the core runner.
class Restore : public std::enable_shared_from_this<Restore> {
 public:
  Restore(const SessionContext& context, std::shared_ptr<BufferPool> buffers, RestoreJob job,
          std::function<void(RestoreResult)> done)
      : context_(context),
        buffers_(std::move(buffers)),
        job_(std::move(job)),
        done_(std::move(done)) {
    result_.end = job_.pieces.empty() ? 0 : job_.pieces.front().range.begin;
  }

  void Advance() {
    if (done_ == nullptr) return;
    const bool stop = failed_ || (job_.cancelled && job_.cancelled());
    if (next_import_ == job_.pieces.size() || stop) {
      if (importing_ == 0) Finish();
      return;
    }
    while (next_read_ < job_.pieces.size() &&
           next_read_ < next_import_ + 1 + context_.settings.restore_reads_ahead)
      StartRead(next_read_++);
    while (importing_ < kImportsQueued && ImportNext()) {
    }
  }

 private:
  void StartRead(size_t index) {
    context_.pool.Post([self = shared_from_this(), index] {
      const PieceRow& row = self->job_.pieces[index];
      ReadOutcome outcome{nullptr, PieceError{"io", Error(Code::kIo, "not read")}};
      if (!PossiblePieceSize(row)) {
        outcome.payload =
            PieceError{"corrupt", Error(Code::kCorrupt, "piece row names an impossible size")};
      } else {
        outcome.buffer = self->buffers_->Get(row.location.bytes);
        outcome.payload = ReadPiece(*self->context_.store, row, self->job_.owner,
                                    self->context_.engine.info().codec,
                                    outcome.buffer->First(row.location.bytes));
      }
      self->context_.core.Post([self, index, outcome = std::move(outcome)]() mutable {
        self->ready_.emplace(index, std::move(outcome));
        self->Advance();
      });
    });
  }

  // False: the next piece is not there yet, or is bad and has to wait for those before it.
  bool ImportNext() {
    const size_t next = next_import_ + importing_;
    const auto it = ready_.find(next);
    if (it == ready_.end()) return false;
    if (const auto* bad = std::get_if<PieceError>(&it->second.payload)) {
      if (importing_ > 0) return false;
      const PieceError error = *bad;
      Fail(error.reason, error.error);
      Finish();
      return false;
    }
    const ReadOutcome outcome = std::move(it->second);
    ready_.erase(it);
    ++importing_;
    context_.engine.Import(
        job_.seq, job_.pieces[next].range, outcome.buffer,
        std::get<std::span<const std::byte>>(outcome.payload),
        [self = shared_from_this()](const Status& status) { self->Imported(status); });
    return true;
  }

  // In the order asked for. One behind a piece that failed is refused by the engine, since it does
  // not follow on from what is there: only the first failure says why.
  void Imported(const Status& status) {
    --importing_;
    if (failed_) {
      Advance();
      return;
    }
    if (status.ok()) {
      result_.end = job_.pieces[next_import_].range.end;
      ++next_import_;
    } else if (status.error().code() == Code::kExhausted) {
      // The piece is good; there was no room for it just now.
      result_.reasons.push_back({"policy", job_.pieces.back().range.end - result_.end,
                                 "no free KV cells while restoring"});
      failed_ = true;
    } else {
      Fail("corrupt", status.error());
    }
    Advance();
  }

  void Fail(const std::string& reason, const Error& error) {
    failed_ = true;
    const TokenPos lost = job_.pieces.back().range.end - result_.end;
    Log(LogLevel::kWarn, "kv.dropped",
        {{"reason", reason},
         {"tokens", lost},
         {"begin", result_.end},
         {"detail", error.message()}});
    result_.reasons.push_back({reason, lost, error.message()});
    // Out of descriptors or memory: nothing is wrong with the pieces.
    if (error.code() == Code::kExhausted || error.code() == Code::kUnavailable) return;
    for (size_t i = next_import_; i < job_.pieces.size(); ++i)
      result_.bad_rows.push_back(job_.pieces[i].id);
  }

  void Finish() {
    const auto done = std::exchange(done_, nullptr);
    done(std::move(result_));
  }

  const SessionContext& context_;
  const std::shared_ptr<BufferPool> buffers_;
  const RestoreJob job_;
  std::function<void(RestoreResult)> done_;  // empty: finished
  size_t next_read_ = 0;
  size_t next_import_ = 0;  // the first that is not imported
  size_t importing_ = 0;    // asked for, from next_import_ on
  bool failed_ = false;
  std::map<size_t, ReadOutcome> ready_;
  RestoreResult result_;
};

}  // namespace

bool PossiblePieceSize(const PieceRow& row) {
  return row.location.bytes > kPieceHeaderBytes &&
         row.location.bytes <= kPieceHeaderBytes + kPieceBytesMax;
}

std::variant<std::span<const std::byte>, PieceError> ReadPiece(PayloadStore& store,
                                                               const PieceRow& row,
                                                               const Digest256& owner,
                                                               PieceCodec codec,
                                                               std::span<std::byte> bytes) {
  if (auto read = store.Read(row.location, bytes); !read.ok())
    return PieceError{ReasonOf(read.error()), std::move(read).error()};
  const auto header = DecodePieceHeader(bytes);
  if (!header.ok()) return PieceError{ReasonOf(header.error()), header.error()};
  const PieceMismatch mismatch =
      ComparePiece(*header, {OwnerScope::kSession, codec, owner, row.fingerprint, row.range,
                             row.prefix_begin, row.prefix_end});
  if (mismatch != PieceMismatch::kNone) {
    const std::string reason(MismatchReason(mismatch));
    return PieceError{
        reason, Error(Code::kCorrupt, "stored piece has another " + reason + " than its row")};
  }
  const std::span<const std::byte> payload = bytes.subspan(kPieceHeaderBytes);
  if (payload.size() != header->payload_bytes)
    return PieceError{"corrupt", Error(Code::kCorrupt, "stored piece and its row differ in size")};
  if (auto check = CheckPiecePayload(*header, payload); !check.ok())
    return PieceError{"corrupt", std::move(check).error()};
  return payload;
}

void RestorePieces(const SessionContext& context, std::shared_ptr<BufferPool> buffers,
                   RestoreJob job, std::function<void(RestoreResult)> done) {
  const auto restore =
      std::make_shared<Restore>(context, std::move(buffers), std::move(job), std::move(done));
  context.core.Post([restore] { restore->Advance(); });
}

}  // namespace tenuto
