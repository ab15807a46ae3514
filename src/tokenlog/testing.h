// What the tests of this folder share: turns to commit, equality. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"
#include "io/temp_dir.h"
#include "tokenlog/log.h"

namespace tenuto {

// Silences the log lines of failures that a test makes on purpose by the hundred.
class QuietLog {
 public:
  QuietLog() { SetLogLevel(LogLevel::kOff); }
  ~QuietLog() { SetLogLevel(LogLevel::kInfo); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

inline SessionKey Key(const std::string& session, const std::string& user = "alice") {
  return {.tenant = "default", .user = user, .agent = "default", .session = session};
}

// A commit of turn `id` after `parent`, whose content follows from the id.
inline TurnCommit MakeCommit(const SessionKey& key, const std::string& id,
                             const std::string& parent = "") {
  TurnCommit commit;
  commit.key = key;
  commit.expected_head = {parent};
  commit.lease_epoch = 1;
  commit.vocabulary = Sha256Of(std::string_view("vocabulary"));
  commit.system_json = R"([{"role":"system","content":"Be brief."}])";
  commit.head_tokens = {1, 500, 501};
  TurnRow& turn = commit.turn;
  turn.id = {id};
  turn.parent = {parent};
  for (const char c : id)
    turn.prompt.push_back(c);
  turn.answer = {1, 2, 3, 0x7fffffff};
  turn.close_tokens = static_cast<uint32_t>(id.size() / 2);
  turn.items_json = R"([{"role":"user","content":"question )" + id + R"("}])";
  turn.params_json = R"({"seed":7})";
  turn.finish_reason = "stop";
  turn.created_unix_ms = 1000;
  turn.completed_unix_ms = 2000;
  return commit;
}

inline Result<int64_t> CommitOne(TokenLog& log, const TurnCommit& commit) {
  auto verdicts = log.Commit({&commit, 1});
  EXPECT_EQ(verdicts.size(), 1U);
  return std::move(verdicts.front());
}

inline PieceRow MakePiece(TokenPos begin, TokenPos end, uint64_t file, uint64_t offset = 0) {
  PieceRow piece;
  piece.kind = 1;
  piece.range = {begin, end};
  piece.fingerprint = Sha256Of(std::string_view("model"));
  piece.prefix_begin = Sha256Of("prefix" + std::to_string(begin));
  piece.prefix_end = Sha256Of("prefix" + std::to_string(end));
  piece.location = {.file = {file}, .offset = offset, .bytes = 4096};
  return piece;
}

inline void ExpectSame(const TurnRow& a, const TurnRow& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.parent, b.parent);
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(a.answer, b.answer);
  EXPECT_EQ(a.window_first, b.window_first);
  EXPECT_EQ(a.close_tokens, b.close_tokens);
  EXPECT_EQ(a.items_json, b.items_json);
  EXPECT_EQ(a.params_json, b.params_json);
  EXPECT_EQ(a.finish_reason, b.finish_reason);
  EXPECT_EQ(a.incomplete, b.incomplete);
  EXPECT_EQ(a.idempotency_key, b.idempotency_key);
  EXPECT_EQ(a.outcome_json, b.outcome_json);
  EXPECT_EQ(a.recall_json, b.recall_json);
  EXPECT_EQ(a.created_unix_ms, b.created_unix_ms);
  EXPECT_EQ(a.completed_unix_ms, b.completed_unix_ms);
  EXPECT_EQ(a.deleted, b.deleted);
}

inline std::vector<std::string> Ids(const std::vector<TurnRow>& turns) {
  std::vector<std::string> ids;
  ids.reserve(turns.size());
  for (const TurnRow& turn : turns)
    ids.push_back(turn.id.value);
  return ids;
}

// One line that says everything a row holds, so that two logs can be compared whole.
inline std::string Describe(const SessionRow& row) {
  std::string head;
  for (const TokenId token : row.head_tokens)
    head += std::to_string(token) + " ";
  return "[" + head + "] " + row.key.Full() + " #" + std::to_string(row.id) + " head " +
         row.head.value + " epoch " + std::to_string(row.lease_epoch) + " " + row.vocabulary.Hex() +
         " " + row.system_json + " " + std::to_string(row.turns) + "/" +
         std::to_string(row.tokens) + " " + std::to_string(row.created_unix_ms) + "-" +
         std::to_string(row.updated_unix_ms) + " " + std::to_string(row.bytes) + " bytes " +
         row.settings_json;
}

inline std::string Describe(const TurnMarks& marks) {
  return std::to_string(marks.line) + " " + marks.turn.value + (marks.pinned ? " pinned" : "") +
         (marks.recall_off ? " no recall" : "") + " < " + marks.superseded_by.value;
}

inline std::string Describe(const TenantTotals& totals) {
  return std::to_string(totals.sessions) + " sessions " + std::to_string(totals.turns) + " turns " +
         std::to_string(totals.bytes) + " bytes";
}

inline std::string Describe(const TurnRow& turn) {
  std::string text = turn.id.value + "<" + turn.parent.value + " [";
  for (const TokenId token : turn.prompt)
    text += std::to_string(token) + " ";
  text += "|";
  for (const TokenId token : turn.answer)
    text += std::to_string(token) + " ";
  return text + "] " + std::to_string(turn.window_first) + "/" + std::to_string(turn.close_tokens) +
         " " + turn.items_json + turn.params_json + turn.finish_reason +
         (turn.incomplete ? "!" : ".") + turn.idempotency_key + turn.outcome_json +
         turn.recall_json + std::to_string(turn.created_unix_ms) + "-" +
         std::to_string(turn.completed_unix_ms) + (turn.deleted ? " deleted" : "");
}

inline std::string Describe(const ItemsRow& row) {
  return std::to_string(row.line) + " " + row.id.value + " " + row.items_json + row.recall_json +
         std::to_string(row.created_unix_ms) + (row.deleted ? " deleted" : "");
}

// What ReadItems has to say of the turn with number `line`.
inline ItemsRow ItemsOf(const TurnRow& turn, uint64_t line) {
  return {.line = line,
          .id = turn.id,
          .items_json = turn.items_json,
          .recall_json = turn.recall_json,
          .created_unix_ms = turn.created_unix_ms,
          .deleted = turn.deleted};
}

inline std::string Describe(const PieceRow& piece) {
  return std::to_string(piece.id) + ":" + std::to_string(piece.kind) + " [" +
         std::to_string(piece.range.begin) + "," + std::to_string(piece.range.end) + ") " +
         piece.fingerprint.Hex() + piece.prefix_begin.Hex() + piece.prefix_end.Hex() + " " +
         std::to_string(piece.location.file.value) + "+" + std::to_string(piece.location.offset) +
         "x" + std::to_string(piece.location.bytes);
}

// What a log holds of one session, as text.
inline Result<std::string> DumpSession(TokenLog& log, const SessionRow& row) {
  TENUTO_ASSIGN(const SessionRow same, log.FindSession(row.key));
  std::string text = Describe(row) + "\n" +
                     (Describe(same) == Describe(row) ? "" : "found otherwise by its key\n");
  TENUTO_ASSIGN(const std::vector<TurnRow> turns, log.ReadTurns(row.id, row.head));
  TENUTO_ASSIGN(const std::vector<TurnRow> window, log.ReadWindow(row.id, row.head));
  const size_t before = turns.size() - std::min(turns.size(), window.size());
  for (size_t i = 0; i < window.size(); ++i)
    if (turns.size() < window.size() || Describe(window[i]) != Describe(turns[before + i]))
      text += "the window is not the end of the line\n";
  TENUTO_ASSIGN(const std::vector<ItemsRow> items, log.ReadItems(row.id, row.head, 1, 4096));
  for (size_t i = 0; i < std::min<size_t>(turns.size(), 4096); ++i)
    if (items.size() <= i || Describe(items[i]) != Describe(ItemsOf(turns[i], i + 1)))
      text += "the items are not those of the line\n";
  for (const TurnRow& turn : turns) {
    text += "  " + Describe(turn) + "\n";
    if (turn.idempotency_key.empty()) continue;
    TENUTO_ASSIGN(const TurnRow keyed, log.FindByIdempotencyKey(row.id, turn.idempotency_key));
    text += Describe(keyed) == Describe(turn) ? "" : "found otherwise by its idempotency key\n";
  }
  TENUTO_ASSIGN(const std::vector<TurnMarks> marked, log.ReadTurnMarks(row.id));
  for (const TurnMarks& marks : marked)
    text += "  " + Describe(marks) + "\n";
  TENUTO_ASSIGN(const std::vector<PieceRow> pieces, log.ReadPieces(row.id));
  for (const PieceRow& piece : pieces)
    text += "  " + Describe(piece) + "\n";
  return text;
}

// Everything that a log holds, as text; the first error ends it.
inline Result<std::string> Dump(TokenLog& log) {
  std::string text;
  std::string after;
  std::string tenant;
  for (bool more = true; more;) {
    TENUTO_ASSIGN(const SessionPage page, log.ListSessions("", "", after, 100));
    for (const SessionRow& row : page.sessions) {
      TENUTO_ASSIGN(const std::string session, DumpSession(log, row));
      text += session;
      after = row.key.Full();
      if (row.key.tenant == tenant) continue;
      tenant = row.key.tenant;
      TENUTO_ASSIGN(const TenantTotals totals, log.TenantUse(tenant));
      text += tenant + " " + Describe(totals) + "\n";
    }
    more = page.more;
  }
  IdleCursor last;
  for (bool more = true; more;) {
    TENUTO_ASSIGN(const std::vector<SessionRow> idle, log.ListIdleSessions(INT64_MAX, 3, last));
    for (const SessionRow& row : idle)
      text += "idle " + std::to_string(row.id) + " ";
    more = !idle.empty();
    if (more) last = {idle.back().updated_unix_ms, idle.back().id};
  }
  TENUTO_ASSIGN(const std::vector<PayloadFileId> files, log.ReferencedFiles());
  for (const PayloadFileId file : files)
    text += std::to_string(file.value) + " ";
  return text;
}

}  // namespace tenuto
