#include "sessions_command.h"

#include <fstream>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "human_text.h"
#include "import_command.h"
#include "io/clock.h"
#include "payload/segment/store.h"
#include "serve/http/client.h"
#include "serve/json/writer.h"
#include "server_answers.h"
#include "session/index_cache.h"
#include "session_report.h"
#include "store_layout.h"
#include "tokenlog/sqlite/log.h"

namespace tenuto {
namespace {

constexpr size_t kPageSessions = 500;
constexpr size_t kNameBytesShown = 200;

// Null: a store without a log, as a first start that ended early leaves it.
Result<std::unique_ptr<SqliteTokenLog>> OpenLogForReading(const StorePaths& paths) {
  auto log = SqliteTokenLog::Open(paths.log, SqliteMode::kReader);
  if (!log && log.error().code() == Code::kNotFound) return std::unique_ptr<SqliteTokenLog>();
  return log;
}

Result<StoredSession> WithSize(TokenLog& log, SessionRow row) {
  StoredSession session{std::move(row), 0};
  TENUTO_ASSIGN(const auto pieces, log.ReadPieces(session.row.id));
  for (const auto& piece : pieces)
    session.kv_bytes += piece.location.bytes;
  return session;
}

Result<std::vector<StoredSession>> ReadAll(TokenLog& log) {
  std::vector<StoredSession> sessions;
  std::string after;
  for (;;) {
    TENUTO_ASSIGN(SessionPage page, log.ListSessions("", "", after, kPageSessions));
    for (auto& row : page.sessions) {
      after = row.key.Full();
      auto session = WithSize(log, std::move(row));
      // A running server may delete it meanwhile.
      if (!session && session.error().code() == Code::kNotFound) continue;
      if (!session) return std::move(session).error();
      sessions.push_back(std::move(session).value());
    }
    if (!page.more || page.sessions.empty()) return sessions;
  }
}

Status List(const SessionsOptions& options, std::ostream& out) {
  TENUTO_ASSIGN(const StorePaths paths, OpenStoreForReading(options.store));
  TENUTO_ASSIGN(const auto log, OpenLogForReading(paths));
  std::vector<StoredSession> sessions;
  if (log) {
    TENUTO_ASSIGN(sessions, ReadAll(*log));
  }
  if (options.json) {
    out << SessionsJson(sessions);
  } else if (sessions.empty()) {
    out << "no sessions in store " << paths.root << " yet; 'tenuto chat' begins one\n";
  } else {
    out << SessionsTable(sessions, SystemClock().UnixMs());
  }
  return Ok();
}

// show and export: both read one session with its turns.
Status ReadOne(const SessionsOptions& options, std::ostream& out) {
  TENUTO_ASSIGN(const SessionKey key, ReadSessionName(options.session));
  TENUTO_ASSIGN(const StorePaths paths, OpenStoreForReading(options.store));
  TENUTO_ASSIGN(const auto log, OpenLogForReading(paths));
  if (!log) return NoSession(key, paths.root);
  auto row = log->FindSession(key);
  if (!row && row.error().code() == Code::kNotFound) return NoSession(key, paths.root);
  if (!row) return std::move(row).error();
  TENUTO_ASSIGN(const auto turns, log->ReadTurns(row->id, row->head));
  std::string text;
  if (options.action == SessionsOptions::Action::kExport) {
    TENUTO_ASSIGN(text, ExportLines(turns));
  } else {
    TENUTO_ASSIGN(const StoredSession session, WithSize(*log, std::move(row).value()));
    if (options.json) {
      TENUTO_ASSIGN(text, SessionJson(session, turns));
    } else {
      TENUTO_ASSIGN(text, SessionText(session, turns, SystemClock().UnixMs()));
    }
  }
  out << text;
  return Ok();
}

Status DeleteThroughServer(const StorePaths& paths, const SessionKey& key, const Error& locked) {
  TENUTO_ASSIGN(HttpClient client, HttpClient::Open("unix:" + paths.control_socket));
  ClientRequest request;
  request.method = "DELETE";
  // The characters of a session id need no escapes in a path.
  request.target = "/v1/sessions/" + key.Full();
  const auto response = client.Request(request);
  if (!response)
    return Error(Code::kUnavailable,
                 locked.message() + "; and its control socket does not answer (" +
                     response.error().message() + "); is it starting or stopping? Try again");
  if (response->status == 404) return NoSession(key, paths.root);
  if (response->status < 200 || response->status >= 300) {
    const Code code = response->status == 409 ? Code::kConflict : Code::kIo;
    Error error(code, ErrorSentence(*response));
    // What is wrong with the disk comes without its folders over HTTP.
    return response->status < 500 ? error : std::move(error).With("store " + paths.root);
  }
  return Ok();
}

// The log's row goes first: a kill in between leaves KV files that no row names, which the next
// start sweeps.
Status DeleteAlone(WritableStore& store, const SessionKey& key) {
  auto log = SqliteTokenLog::Open(store.paths.log, SqliteMode::kWriter);
  if (!log) return std::move(log).error();
  const auto row = (*log)->FindSession(key);
  auto files = (*log)->DeleteSession(key);
  if (!files && files.error().code() == Code::kNotFound) return NoSession(key, store.paths.root);
  if (!files) return std::move(files).error();
  TENUTO_ASSIGN(const auto payload, SegmentStore::Open(std::move(store.kv), SystemRandom()));
  for (const PayloadFileId file : *files)
    TENUTO_TRY(payload->Remove(file));
  Metrics metrics;
  IndexCache indexes(std::move(store.recall), SystemClock(), metrics);
  return row.ok() ? indexes.Remove(row->id) : Ok();
}

Status Delete(const SessionsOptions& options, std::ostream& out) {
  TENUTO_ASSIGN(const SessionKey key, ReadSessionName(options.session));
  // First as a reader: deleting from a store that does not exist must not make one.
  TENUTO_ASSIGN(const StorePaths paths, OpenStoreForReading(options.store));
  auto store = OpenStoreForWriting(options.store);
  const Status deleted = store ? DeleteAlone(*store, key) : Status(store.error());
  if (!store && store.error().code() == Code::kConflict) {
    TENUTO_TRY(DeleteThroughServer(paths, key, store.error()));
  } else if (!deleted && deleted.error().code() == Code::kExhausted) {
    return StoreIsFull(options.store);
  } else {
    TENUTO_TRY(deleted);
  }
  if (options.json) {
    out << "{\"id\":\"" << key.Short() << "\",\"object\":\"session.deleted\",\"deleted\":true}\n";
  } else {
    out << "deleted " << key.Short() << "\n";
  }
  return Ok();
}

Status Import(const SessionsOptions& options, std::ostream& out, std::ostream& err) {
  TENUTO_ASSIGN(const SessionKey key, ReadSessionName(options.session));
  TENUTO_ASSIGN(const StorePaths paths, OpenStoreForReading(options.store));
  const bool standard_input = options.file == "-";
  std::ifstream file;
  if (!standard_input) {
    file.open(options.file, std::ios::binary);
    if (!file) return Error(Code::kNotFound, "can't open " + options.file);
  }
  TENUTO_ASSIGN(const ImportTotal total,
                ImportThroughServer(paths.control_socket, key,
                                    standard_input ? ImportSource{std::cin, "standard input"}
                                                   : ImportSource{file, options.file},
                                    err));
  if (options.json) {
    JsonWriter json;
    json.BeginObject().Field("id", key.Short()).Field("object", "session.import");
    json.Field("items", total.items).Field("turns", total.turns).Field("tokens", total.tokens);
    json.Field("items_known", total.items_known);
    out << json.EndObject().Take() << "\n";
  } else {
    out << "imported " << CountText(total.items, "item") << " as " << CountText(total.turns, "turn")
        << " (" << CountText(total.tokens, "token") << ") into " << key.Short() << "\n";
    if (total.items_known > 0)
      out << CountText(total.items_known, "item")
          << " more of this file were there from an earlier import and were left as they are\n";
  }
  return Ok();
}

Status Run(const SessionsOptions& options, std::ostream& out, std::ostream& err) {
  switch (options.action) {
    case SessionsOptions::Action::kList:
      return List(options, out);
    case SessionsOptions::Action::kDelete:
      return Delete(options, out);
    case SessionsOptions::Action::kImport:
      return Import(options, out, err);
    case SessionsOptions::Action::kShow:
    case SessionsOptions::Action::kExport:
      return ReadOne(options, out);
  }
  return Error(Code::kInvalid, "unknown action");
}

}  // namespace

Result<SessionKey> ReadSessionName(const std::string& name) {
  auto key = ParseSessionKey(name);
  if (key) return key;
  return std::move(key).error().With("session '" + TerminalText(name.substr(0, kNameBytesShown)) +
                                     "'");
}

Error NoSession(const SessionKey& key, const std::string& store) {
  return Error(Code::kNotFound, "there is no session '" + key.Short() + "' in store " + store +
                                    "; 'tenuto sessions list' shows them");
}

int RunSessions(const SessionsOptions& options, std::ostream& out, std::ostream& err) {
  const Status status = Run(options, out, err);
  if (!status) err << "tenuto: " << status.error().message() << "\n";
  out.flush();
  if (status && !out) err << "tenuto: can't write the output\n";
  return status && out ? 0 : 1;
}

}  // namespace tenuto
