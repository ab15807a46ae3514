#include "tokenlog/sqlite/mark_rows.h"

#include <optional>
#include <string>

#include "tokenlog/checks.h"
#include "tokenlog/sqlite/turn_rows.h"

namespace tenuto {
namespace {

// The line number of a turn that is no tombstone.
Result<uint64_t> SelectMarkable(Database& database, int64_t session, const TurnId& turn) {
  TENUTO_ASSIGN(Statement find,
                database.Use("SELECT t.line_turns FROM turns t JOIN items i ON i.turn = t.row "
                             "WHERE t.session = ? AND t.id = ? AND i.tombstone IS NULL"));
  find.Bind(session).Bind(turn.value);
  TENUTO_ASSIGN(const bool found, find.Step());
  if (!found) return NoSuchTurn("id " + turn.value);
  return static_cast<uint64_t>(find.Int(0));
}

}  // namespace

Status StoreMarks(Database& database, int64_t session, const TurnMarks& marks) {
  TENUTO_ASSIGN(const uint64_t line, SelectMarkable(database, session, marks.turn));
  if (!marks.superseded_by.empty()) {
    TENUTO_ASSIGN(const std::optional<LineEnd> other,
                  SelectLineEnd(database, session, marks.superseded_by));
    if (!other) return NoSuchTurn("id " + marks.superseded_by.value);
  }
  if (SaysNothing(marks)) return RemoveMarks(database, session, line, marks.turn);
  TENUTO_ASSIGN(Statement store,
                database.Use("INSERT OR REPLACE INTO turn_marks(session, line, turn, pinned, "
                             "recall_off, superseded_by) VALUES(?, ?, ?, ?, ?, ?)"));
  store.Bind(session).Bind(static_cast<int64_t>(line)).Bind(marks.turn.value);
  store.Bind(int64_t{marks.pinned}).Bind(int64_t{marks.recall_off});
  store.Bind(marks.superseded_by.value);
  return store.Run();
}

Result<std::vector<TurnMarks>> SelectMarks(Database& database, int64_t session) {
  TENUTO_ASSIGN(Statement list,
                database.Use("SELECT turn, line, pinned, recall_off, superseded_by FROM turn_marks "
                             "WHERE session = ? ORDER BY line, turn"));
  list.Bind(session);
  std::vector<TurnMarks> all;
  for (;;) {
    TENUTO_ASSIGN(const bool row, list.Step());
    if (!row) return all;
    TurnMarks marks{.turn = {std::string(list.Text(0))},
                    .line = static_cast<uint64_t>(list.Int(1)),
                    .pinned = list.Int(2) != 0,
                    .recall_off = list.Int(3) != 0,
                    .superseded_by = {std::string(list.Text(4))}};
    if (list.Int(1) < 1 || SaysNothing(marks))
      return Error(Code::kCorrupt,
                   "the marks of turn " + marks.turn.value + " are damaged in the token log");
    all.push_back(std::move(marks));
  }
}

Status RemoveMarks(Database& database, int64_t session, uint64_t line, const TurnId& turn) {
  TENUTO_ASSIGN(Statement remove,
                database.Use("DELETE FROM turn_marks WHERE session = ? AND line = ? AND turn = ?"));
  remove.Bind(session).Bind(static_cast<int64_t>(line)).Bind(turn.value);
  return remove.Run();
}

}  // namespace tenuto
