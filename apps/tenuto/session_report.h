// What `tenuto sessions` prints, from rows of the log: tables for people, JSON for scripts, JSON
// lines for exports. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenlog/log.h"

namespace tenuto {

// A session with what it takes on disk.
struct StoredSession {
  SessionRow row;
  uint64_t kv_bytes = 0;
};

std::string SessionsTable(const std::vector<StoredSession>& sessions, int64_t now_unix_ms);
std::string SessionsJson(const std::vector<StoredSession>& sessions);

// kCorrupt: a turn's items are not the JSON that the log holds.
Result<std::string> SessionText(const StoredSession& session, const std::vector<TurnRow>& turns,
                                int64_t now_unix_ms);
Result<std::string> SessionJson(const StoredSession& session, const std::vector<TurnRow>& turns);

// All turns in the form of AppendExport.
Result<std::string> ExportLines(const std::vector<TurnRow>& turns);

}  // namespace tenuto
