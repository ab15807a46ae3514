// After the answer: the new KV of a session goes to the store, piece rows follow, what they replace
// is dropped.
#include <algorithm>
#include <array>
#include <utility>

#include "base/limits.h"
#include "base/log.h"
#include "format/chain.h"
#include "session/manager.h"

namespace tenuto {
namespace {

constexpr size_t kSliceBytes = 64 * kMiB;

struct StoreJob {
  PayloadStore& store;
  PayloadFileId file;
  std::vector<ExportedPiece> exported;
  std::vector<TokenId> tokens;  // of the exported range
  Digest256 begin_digest;
  PieceHeader common;  // owner, fingerprint, codec, time
};

// Blocking: encodes the headers and appends all pieces with one sync.
Result<std::vector<PieceRow>> StorePieces(StoreJob& job) {
  std::vector<PieceRow> rows;
  std::vector<std::array<std::byte, kPieceHeaderBytes>> headers(job.exported.size());
  std::vector<PayloadRecord> records;
  Digest256 digest = job.begin_digest;
  const TokenPos base = job.exported.front().range.begin;
  for (size_t i = 0; i < job.exported.size(); ++i) {
    const ExportedPiece& piece = job.exported[i];
    PieceHeader header = job.common;
    header.range = piece.range;
    header.prefix_begin = digest;
    digest = ChainExtend(digest, std::span(job.tokens)
                                     .subspan(static_cast<size_t>(piece.range.begin - base),
                                              static_cast<size_t>(piece.range.size())));
    header.prefix_end = digest;
    EncodePieceHeader(header, piece.payload, headers[i]);
    records.push_back({headers[i], piece.payload});
    PieceRow row;
    row.kind = static_cast<uint8_t>(header.kind);
    row.range = header.range;
    row.fingerprint = header.fingerprint;
    row.prefix_begin = header.prefix_begin;
    row.prefix_end = header.prefix_end;
    rows.push_back(row);
  }
  TENUTO_ASSIGN(const auto locations, job.store.Append(job.file, records));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].location = locations[i];
  return rows;
}

}  // namespace

void SessionManager::SettleKv(const SessionPtr& session) {
  const bool keeps_kv = context_.keeps_kv() && context_.engine.info().range_export;
  if (!keeps_kv || session->deleting || !session->row) return;
  if (session->settling) {
    // One at a time; what is new must stay live until its turn comes.
    if (!session->settle_again) ++session->resident.pins;
    session->settle_again = true;
    return;
  }
  // The last token of the log stays out: it is decoded again with the next prompt (INV-6).
  TokenPos end = std::min(session->resident.live_end, session->window.size() - 1);
  const TokenPos begin = session->chain.end();
  if (!session->resident.live() || begin >= end) {
    DropStaleRows(session);
    return;
  }
  // Exported KV lies in memory until it is written: a long first turn goes in slices.
  const auto slice = static_cast<TokenPos>(std::max<size_t>(
      1, kSliceBytes / std::max<size_t>(1, context_.engine.info().kv_bytes_per_token)));
  if (end - begin > slice) {
    end = begin + slice;
    session->settle_again = true;
    ++session->resident.pins;
  }
  session->settling = true;
  ++settling_;
  ++session->resident.pins;
  context_.engine.Export(session->resident.seq, {begin, end},
                         [this, session](Result<std::vector<ExportedPiece>> exported) {
                           ExportedOn(session, std::move(exported));
                         });
}

void SessionManager::ExportedOn(const SessionPtr& session,
                                Result<std::vector<ExportedPiece>> exported) {
  Unpin(session->resident);
  if (!exported.ok() || exported->empty()) {
    if (!exported.ok())
      PiecesStored(session, std::move(exported).error());
    else
      Settled(session);
    return;
  }
  const auto begin = static_cast<size_t>(exported->front().range.begin);
  const auto end = static_cast<size_t>(exported->back().range.end);
  // The chain may have been cut since: pieces must follow on from what is there.
  if (begin != static_cast<size_t>(session->chain.end()) || end > session->window.tokens().size()) {
    Settled(session);
    return;
  }
  const auto& tokens = session->window.tokens();
  PieceHeader common;
  common.codec = context_.engine.info().codec;
  common.owner = session->owner;
  common.fingerprint = context_.engine.info().fingerprint;
  common.created_unix_ms = context_.clock.UnixMs();
  auto job = std::make_shared<StoreJob>(
      StoreJob{*context_.store, session->file, std::move(*exported),
               std::vector<TokenId>(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(end)),
               session->chain.end_digest, common});
  context_.pool.Post([this, session, job] {
    auto rows = std::make_shared<Result<std::vector<PieceRow>>>(StorePieces(*job));
    context_.core.Post([this, session, rows] { PiecesStored(session, std::move(*rows)); });
  });
}

void SessionManager::PiecesStored(const SessionPtr& session, Result<std::vector<PieceRow>> rows) {
  if (!rows.ok()) {
    // The turn is acknowledged and safe; it is only its KV that will be computed again.
    counters_.kv_store_failures.Add();
    Log(LogLevel::kWarn, "kv.not_stored",
        {{"session", session->key.Full()},
         {"code", CodeName(rows.error().code())},
         {"detail", rows.error().message()}});
    session->file = PayloadFileId{};
    // Not again at once: the next turn tries anew.
    if (std::exchange(session->settle_again, false)) Unpin(session->resident);
    Settled(session);
    return;
  }
  session->file = rows->back().location.file;
  context_.writer.AddPieces(
      session->row->id, *rows,
      [this, session, stored = *rows](Result<std::vector<int64_t>> ids) mutable {
        RowsAdded(session, std::move(stored), std::move(ids));
      });
}

void SessionManager::RowsAdded(const SessionPtr& session, std::vector<PieceRow> rows,
                               Result<std::vector<int64_t>> ids) {
  if (!ids.ok()) {
    // kNotFound: the session was deleted meanwhile. No row names the bytes then: they are garbage.
    counters_.kv_store_failures.Add();
    if (ids.error().code() == Code::kNotFound) RemoveFiles({rows.back().location.file});
    if (std::exchange(session->settle_again, false)) Unpin(session->resident);
    Settled(session);
    return;
  }
  const bool follows_on = rows.front().range.begin == session->chain.end() &&
                          rows.front().prefix_begin == session->chain.end_digest;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].id = (*ids)[i];
    counters_.kv_bytes_stored.Add(rows[i].location.bytes);
    if (follows_on) {
      session->chain.pieces.push_back(rows[i]);
      session->chain.end_digest = rows[i].prefix_end;
    } else {
      session->stale_rows.push_back(rows[i].id);
    }
  }
  Settled(session);
}

void SessionManager::Settled(const SessionPtr& session) {
  session->settling = false;
  const bool again = std::exchange(session->settle_again, false);
  if (again) Unpin(session->resident);
  DropStaleRows(session);
  if (cutting_ahead_ != session)
    for (const auto& task : std::exchange(session->after_settle, {}))
      task();
  if (again) SettleKv(session);
  SettlingEnded();
}

void SessionManager::SettlingEnded() {
  if (--settling_ > 0) return;
  for (const auto& task : std::exchange(when_settled_, {}))
    task();
}

void SessionManager::DropStaleRows(const SessionPtr& session) {
  if (session->stale_rows.empty() || !session->row || session->deleting) return;
  auto ids = std::exchange(session->stale_rows, {});
  context_.writer.DropPieces(session->row->id, std::move(ids),
                             [this](Result<std::vector<PayloadFileId>> files) {
                               if (files.ok()) RemoveFiles(std::move(*files));
                             });
}

void SessionManager::RemoveFiles(std::vector<PayloadFileId> files) {
  if (files.empty() || context_.store == nullptr) return;
  context_.pool.Post([store = context_.store, files = std::move(files)] {
    for (const PayloadFileId file : files)
      if (auto removed = store->Remove(file); !removed.ok())
        Log(LogLevel::kWarn, "kv.remove_failed", {{"detail", removed.error().message()}});
  });
}

void SessionManager::WhenSettled(std::function<void()> done) {
  if (settling_ == 0) {
    context_.core.Post(std::move(done));
    return;
  }
  when_settled_.push_back(std::move(done));
}

}  // namespace tenuto
