#include "sweep.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "format/chain.h"
#include "format/piece.h"
#include "format/segment.h"

namespace tenuto {
namespace {

constexpr size_t kSessionsPage = 1000;

Status ForEachSession(TokenLog& log, const std::function<void(const SessionRow&)>& use) {
  std::string after;
  for (bool more = true; more;) {
    TENUTO_ASSIGN(const SessionPage page, log.ListSessions("", "", after, kSessionsPage));
    for (const SessionRow& row : page.sessions) {
      use(row);
      after = row.key.Full();
    }
    more = page.more;
  }
  return Ok();
}

// Whose the file's first piece is; none where that can't be told, as after a crash in its write.
std::optional<Digest256> OwnerOf(PayloadStore& payloads, PayloadFileId file) {
  std::array<std::byte, kPieceHeaderBytes> bytes;
  if (!payloads.Read({file, kSegmentAlignBytes, bytes.size()}, bytes)) return std::nullopt;
  const auto header = DecodePieceHeader(bytes);
  return header ? std::optional(header->owner) : std::nullopt;
}

// Counts and tells the files of sessions that the log does not know.
Status TellUnknown(PayloadStore& payloads, TokenLog& log, std::span<const PayloadFileId> files,
                   Metrics& metrics) {
  Gauge& gauge = metrics.GetGauge("tenuto_kv_unknown_sessions",
                                  "Sessions with KV files at the start that the token log did not "
                                  "know: it may have lost its newest commits.");
  std::map<std::array<std::byte, 32>, uint64_t> owners;  // and how many files each has
  for (const PayloadFileId file : files)
    if (const auto owner = OwnerOf(payloads, file)) ++owners[owner->bytes];
  if (!owners.empty())
    TENUTO_TRY(ForEachSession(
        log, [&](const SessionRow& row) { owners.erase(OwnerDigest(row.key).bytes); }));
  gauge.Set(static_cast<int64_t>(owners.size()));
  if (owners.empty()) return Ok();
  uint64_t count = 0;
  for (const auto& [owner, of_it] : owners)
    count += of_it;
  Log(LogLevel::kWarn, "store.unknown_sessions",
      {{"sessions", uint64_t{owners.size()}},
       {"files", count},
       {"meaning",
        "the folder kv has files of sessions that the token log does not know, which are removed "
        "now: either a deletion was cut off, or log.db has lost its newest commits, as when "
        "log.db-wal was deleted or an older copy put back. If conversations are missing, stop the "
        "server and keep a copy of the store's folder before going on"}});
  return Ok();
}

}  // namespace

Status SweepPieces(PayloadStore& payloads, TokenLog& log, Metrics& metrics) {
  TENUTO_ASSIGN(const auto files, payloads.List());
  TENUTO_ASSIGN(const auto kept, log.ReferencedFiles());
  std::vector<PayloadFileId> unnamed;
  std::ranges::set_difference(files, kept, std::back_inserter(unnamed));
  TENUTO_TRY(TellUnknown(payloads, log, unnamed, metrics));
  for (const PayloadFileId file : unnamed)
    TENUTO_TRY(payloads.Remove(file));
  if (!unnamed.empty()) Log(LogLevel::kInfo, "store.swept", {{"files", uint64_t{unnamed.size()}}});
  return Ok();
}

Status SweepIndexes(IndexCache& indexes, TokenLog& log) {
  TENUTO_ASSIGN(const auto stored, indexes.StoredSessions());
  if (stored.empty()) return Ok();
  std::set<int64_t> known;
  TENUTO_TRY(ForEachSession(log, [&](const SessionRow& row) { known.insert(row.id); }));
  for (const int64_t id : stored)
    if (!known.contains(id)) TENUTO_TRY(indexes.Remove(id));
  return Ok();
}

}  // namespace tenuto
