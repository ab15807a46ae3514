// What every TokenLog checks before it stores a row, and the verdict on a commit: one place, so
// that the stores agree. Pure functions.
#pragma once

#include "base/limits.h"
#include "base/result.h"
#include "tokenlog/log.h"

namespace tenuto {

// Limits of one row. A turn is bounded by the window and by the request body; these stop what is
// far beyond both.
inline constexpr size_t kTurnTokensMax = 4 * kMiB;      // prompt, answer, and head tokens
inline constexpr size_t kTurnJsonBytesMax = 64 * kMiB;  // each JSON column
inline constexpr size_t kTurnIdBytesMax = 64;           // [A-Za-z0-9_-]
inline constexpr size_t kFinishReasonBytesMax = 64;
inline constexpr size_t kSessionPageMax = 1000;  // rows that one ListSessions returns at most
inline constexpr size_t kTurnPageMax = 1000;     // rows that one ReadTurnsBack returns at most
inline constexpr size_t kSettingsBytesMax = 4 * kKiB;
inline constexpr size_t kItemsPageMax = 4096;  // rows that one ReadItems returns at most

// The shape of a commit: key, ids, sizes, token ids >= 0. kInvalid. What its place in the line
// decides is CheckWindow's.
Status CheckTurnCommit(const TurnCommit& commit);

// Turns [first, end) of a line, counted from 1.
struct LineRange {
  uint64_t first = 1;
  uint64_t end = 1;
};
// What ReadItems(first_line, limit) reads of a line of `line_turns`.
LineRange ItemsRange(uint64_t first_line, size_t limit, uint64_t line_turns);

// The turn's window begins in the line that ends with it, whose length is `line_turns`. kInvalid.
Status CheckWindow(const TurnRow& turn, uint64_t line_turns);

Status CheckSettings(const std::string& settings_json);  // kInvalid
Status CheckTurnMarks(const TurnMarks& marks);           // kInvalid
bool SaysNothing(const TurnMarks& marks);

// What is left of a turn that is deleted.
TurnRow TombstoneOf(const TurnRow& turn);

// When the commit updates its session.
int64_t UpdateTime(const TurnCommit& commit);

// What `bytes` of a session counts: for its first turn's system, and for each turn.
uint64_t SystemBytes(const TurnCommit& first);
uint64_t TurnBytes(const TurnRow& turn);

// The shape of a piece row: kind, range, file and place. kInvalid.
Status CheckPieceRow(const PieceRow& piece);

// Compare-and-swap on head and lease epoch (INV-13) against the session as stored; null: there is
// none. kConflict; kInvalid when the session was written with another vocabulary.
Status JudgeCommit(const TurnCommit& commit, const SessionRow* session);

Error DuplicateTurn(const TurnCommit& commit);  // kConflict
Error DuplicateIdempotencyKey();                // kConflict
Error MissingParent(const TurnCommit& commit);  // kInvalid
Error NoSuchSession(const std::string& name);   // kNotFound
Error NoSuchTurn(const std::string& what);      // kNotFound
Error BrokenLine(const TurnId& at);             // kCorrupt

}  // namespace tenuto
