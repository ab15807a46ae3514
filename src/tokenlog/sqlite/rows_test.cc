// Rows that somebody changed below sound pages: they are another history and found as such.
#include <gtest/gtest.h>

#include <vector>

#include "tokenlog/sqlite/testing.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

TEST(SqliteRows, RowsThatSayAnotherHistoryAreCorrupt) {
  const std::vector<std::string> tampers = {
      "UPDATE turns SET answer = x'01000000' WHERE id = 'T2'",
      "UPDATE turns SET prompt = answer, answer = prompt WHERE id = 'T1'",
      "UPDATE items SET items_json = '[]' WHERE turn = (SELECT row FROM turns WHERE id = 'T3')",
      "UPDATE items SET recall_json = '[]' WHERE turn = (SELECT row FROM turns WHERE id = 'T1')",
      "UPDATE items SET created_ms = 7 WHERE turn = (SELECT row FROM turns WHERE id = 'T1')",
      "UPDATE items SET tombstone = zeroblob(32) WHERE turn = (SELECT row FROM turns WHERE id = "
      "'T2')",
      "DELETE FROM items WHERE turn = (SELECT row FROM turns WHERE id = 'T2')",
      "DELETE FROM items WHERE turn = (SELECT row FROM turns WHERE id = 'T3')",
      "UPDATE turns SET finish_reason = 'length' WHERE id = 'T1'",
      "UPDATE turns SET incomplete = 1 WHERE id = 'T1'",
      "UPDATE turns SET idempotency_key = 'k' WHERE id = 'T1'",
      "UPDATE turns SET completed_ms = 1 WHERE id = 'T1'",
      "UPDATE turns SET line_tokens = line_tokens + 1 WHERE id = 'T2'",
      "UPDATE turns SET line_turns = 7 WHERE id = 'T2'",
      "UPDATE turns SET parent = '' WHERE id = 'T2'",
      "UPDATE turns SET parent = 'T3' WHERE id = 'T1'",  // a ring
      "DELETE FROM turns WHERE id = 'T2'",
      "DELETE FROM turns WHERE id = 'T3'",
      // A whole session's rows under another session's name.
      "UPDATE sessions SET session = 'stolen' WHERE session = 'chat'",
  };
  for (const std::string& sql : tampers) {
    const TempDir folder;
    const std::string path = folder.File("log.db");
    int64_t id = 0;
    {
      const auto log = OpenOrFail(path);
      id = *CommitOne(*log, MakeCommit(Key("chat"), "T1"));
      ASSERT_TRUE(CommitOne(*log, MakeCommit(Key("chat"), "T2", "T1")).ok());
      ASSERT_TRUE(CommitOne(*log, MakeCommit(Key("chat"), "T3", "T2")).ok());
    }
    Tamper(path, sql);
    const auto turns = OpenOrFail(path)->ReadTurns(id, {"T3"});
    ASSERT_FALSE(turns.ok()) << sql;
    EXPECT_EQ(turns.error().code(), Code::kCorrupt) << sql;
  }
}

TEST(SqliteRows, TurnFoundByItsKeyIsCheckedToo) {
  const TempDir folder;
  const std::string path = folder.File("log.db");
  TurnCommit commit = MakeCommit(Key("chat"), "T1");
  commit.turn.idempotency_key = "k";
  const int64_t id = *CommitOne(*OpenOrFail(path), commit);
  Tamper(path, "UPDATE turns SET outcome_json = '{}'");
  EXPECT_EQ(OpenOrFail(path)->FindByIdempotencyKey(id, "k").error().code(), Code::kCorrupt);
}

// A line T1 to T9 whose turns from T5 on have a window that begins with T4.
struct Windowed {
  Windowed() : path(folder.File("log.db")) {
    const auto log = OpenOrFail(path);
    for (int n = 1; n <= 9; ++n) {
      TurnCommit commit = MakeCommit(Key("chat"), "T" + std::to_string(n),
                                     n == 1 ? "" : "T" + std::to_string(n - 1));
      commit.turn.window_first = n < 5 ? 1 : 4;
      id = *CommitOne(*log, commit);
    }
  }
  // "ok" or the code of what reading gives.
  std::string Window() const { return Verdict(OpenOrFail(path)->ReadWindow(id, {"T9"})); }
  std::string Line() const { return Verdict(OpenOrFail(path)->ReadTurns(id, {"T9"})); }
  std::string Page() const { return Verdict(OpenOrFail(path)->ReadTurnsBack(id, {"T9"}, 6)); }

  TempDir folder;
  std::string path;
  int64_t id = 0;

 private:
  static std::string Verdict(const Result<std::vector<TurnRow>>& turns) {
    return turns.ok() ? "ok" : std::string(CodeName(turns.error().code()));
  }
};

TEST(SqliteRows, DamageInAWindowIsFound) {
  // Two turns whose rows say each other's id, all else as it was.
  const std::string swap_ids =
      "UPDATE turns SET id = 'x' WHERE id = 'T6'; UPDATE turns SET id = 'T6' WHERE id = 'T7';"
      "UPDATE turns SET id = 'T7' WHERE id = 'x'";
  const std::string swap_answers =
      "UPDATE turns SET prompt = (SELECT prompt FROM turns WHERE id = 'T6'), digest = (SELECT "
      "digest FROM turns WHERE id = 'T6') WHERE id = 'T7'";
  const std::vector<std::string> tampers = {
      "UPDATE turns SET window_first = 1 WHERE id = 'T9'",
      "UPDATE turns SET window_first = 3 WHERE id = 'T9'",
      "UPDATE turns SET window_first = 5 WHERE id = 'T9'",
      "UPDATE turns SET window_first = 9 WHERE id = 'T9'",
      "UPDATE turns SET window_first = 10 WHERE id = 'T9'",
      "UPDATE turns SET window_first = 9223372036854775807 WHERE id = 'T9'",
      "UPDATE turns SET window_first = 1 WHERE id = 'T6'",
      "UPDATE turns SET close_tokens = 2 WHERE id = 'T9'",
      "UPDATE turns SET close_tokens = close_tokens + 4294967296 WHERE id = 'T9'",
      "UPDATE turns SET line_turns = line_turns + 1 WHERE id = 'T9'",
      "UPDATE turns SET line_turns = 9223372036854775807 WHERE id = 'T9'",
      "UPDATE turns SET line_turns = line_turns + 1",
      "UPDATE sessions SET turns = turns + 1",
      "UPDATE sessions SET tokens = 0",
      "UPDATE turns SET line_turns = 9223372036854775807 WHERE id = 'T6'",
      "UPDATE turns SET line_turns = 9223372036854775807 WHERE id = 'T3'",
      "UPDATE turns SET line_tokens = 9223372036854775807 WHERE id = 'T3'",
      "UPDATE turns SET line_tokens = line_tokens + 1 WHERE id = 'T4'",
      "UPDATE turns SET answer = x'ffffffff' WHERE id = 'T6'",
      "UPDATE turns SET parent = '' WHERE id = 'T7'",
      "UPDATE turns SET parent = '' WHERE id = 'T4'",
      "UPDATE turns SET parent = 'T2' WHERE id = 'T4'",
      "UPDATE turns SET parent = 'T9' WHERE id = 'T5'",  // a ring
      "DELETE FROM turns WHERE id = 'T6'",
      "DELETE FROM turns WHERE id = 'T4'",
      // Right before the window: its digest is where the check begins.
      "DELETE FROM turns WHERE id = 'T3'",
      "UPDATE turns SET digest = zeroblob(32) WHERE id = 'T3'",
      "DELETE FROM turns WHERE id = 'T9'",
      swap_ids,
      swap_answers,
  };
  for (const std::string& sql : tampers) {
    const Windowed log;
    ASSERT_EQ(log.Window() + log.Line() + log.Page(), "okokok");
    Tamper(log.path, sql);
    EXPECT_EQ(log.Window(), "corrupt") << sql;
    EXPECT_EQ(log.Page(), "corrupt") << sql;  // six turns back: the window, too
    EXPECT_EQ(log.Line(), "corrupt") << sql;
  }
}

// Reading a window costs what is in it, so what lies before is not looked at.
TEST(SqliteRows, DamageBeforeAWindowWaitsForTheWholeLine) {
  for (const char* sql :
       {"DELETE FROM turns WHERE id = 'T2'", "DELETE FROM turns WHERE id IN ('T1', 'T2')",
        "UPDATE turns SET parent = 'T1' WHERE id = 'T3'",
        "UPDATE turns SET answer = x'' WHERE id = 'T1'",
        "UPDATE turns SET window_first = 2 WHERE id = 'T3'",
        // Every turn one number further on, which only the root shows.
        "UPDATE turns SET line_turns = line_turns + 1; UPDATE sessions SET turns = turns + 1",
        // The root is sealed to them.
        "UPDATE systems SET head_tokens = x'02000000'", "UPDATE systems SET head_tokens = x''"}) {
    const Windowed log;
    Tamper(log.path, sql);
    EXPECT_EQ(log.Window(), "ok") << sql;
    EXPECT_EQ(log.Page(), "ok") << sql;
    EXPECT_EQ(log.Line(), "corrupt") << sql;
  }
}

// The line T1 to T9 with T1, T4, T7 and T8 deleted: what is left of them is held in its place.
TEST(SqliteRows, TombstonesHoldTheLineTogether) {
  const auto of = [](const char* id) {
    return "(SELECT row FROM turns WHERE id = '" + std::string(id) + "')";
  };
  const std::vector<std::string> tampers = {
      "UPDATE items SET tombstone = NULL WHERE turn = " + of("T7"),
      "UPDATE items SET tombstone = zeroblob(32) WHERE turn = " + of("T7"),
      "UPDATE items SET tombstone = (SELECT tombstone FROM items WHERE turn = " + of("T8") +
          ") WHERE turn = " + of("T7"),
      "UPDATE items SET items_json = '[1]' WHERE turn = " + of("T7"),
      "UPDATE items SET recall_json = '{}' WHERE turn = " + of("T7"),
      "UPDATE items SET created_ms = 1 WHERE turn = " + of("T7"),
      "UPDATE turns SET completed_ms = 1 WHERE id = 'T7'",
      "UPDATE turns SET answer = x'01000000' WHERE id = 'T7'",
      "UPDATE turns SET finish_reason = 'stop' WHERE id = 'T7'",
      "UPDATE turns SET idempotency_key = 'k' WHERE id = 'T7'",
      "UPDATE turns SET window_first = 5 WHERE id = 'T7'",
      "UPDATE turns SET line_tokens = line_tokens + 1 WHERE id = 'T7'",
      "UPDATE turns SET line_turns = 6 WHERE id = 'T7'",
      "UPDATE turns SET digest = zeroblob(32) WHERE id = 'T7'",
      "UPDATE turns SET digest = zeroblob(32) WHERE id = 'T8'",
      "UPDATE turns SET parent = 'T5' WHERE id = 'T7'",
      // The turn between a tombstone and the one before it.
      "DELETE FROM turns WHERE id = 'T7'; UPDATE turns SET parent = 'T6' WHERE id = 'T8'",
      "DELETE FROM turns WHERE id = 'T6'; UPDATE turns SET parent = 'T5' WHERE id = 'T7'",
      "UPDATE turns SET answer = x'' WHERE id = 'T6'",
      "UPDATE turns SET answer = x'' WHERE id = 'T9'",
  };
  for (const std::string& sql : tampers) {
    const Windowed log;
    for (const char* id : {"T4", "T1", "T8", "T7"})
      ASSERT_TRUE(OpenOrFail(log.path)->DeleteTurn(log.id, {id}).ok());
    ASSERT_EQ(log.Window() + log.Line() + log.Page(), "okokok");
    Tamper(log.path, sql);
    EXPECT_EQ(log.Window(), "corrupt") << sql;
    EXPECT_EQ(log.Page(), "corrupt") << sql;
    EXPECT_EQ(log.Line(), "corrupt") << sql;
  }
}

// Also where the first turn is gone: another session's rows under this one's name.
TEST(SqliteRows, ADeletedRootIsSealedToItsSession) {
  for (const char* sql :
       {"UPDATE sessions SET session = 'stolen'", "UPDATE systems SET head_tokens = x'02000000'"}) {
    const Windowed log;
    ASSERT_TRUE(OpenOrFail(log.path)->DeleteTurn(log.id, {"T1"}).ok());
    Tamper(log.path, sql);
    EXPECT_EQ(log.Line(), "corrupt") << sql;
  }
}

TEST(SqliteRows, ADamagedTurnIsNotMadeASoundTombstone) {
  for (const char* sql : {"UPDATE turns SET answer = x'01000000' WHERE id = 'T6'",
                          "UPDATE turns SET answer = x'ffffffff' WHERE id = 'T6'",
                          "DELETE FROM items WHERE turn = (SELECT row FROM turns WHERE id = 'T6')",
                          "UPDATE turns SET parent = 'gone' WHERE id = 'T6'"}) {
    const Windowed log;
    Tamper(log.path, sql);
    const auto store = OpenOrFail(log.path);
    EXPECT_EQ(store->DeleteTurn(log.id, {"T6"}).error().code(), Code::kCorrupt) << sql;
    EXPECT_TRUE(store->DeleteSession(Key("chat")).ok()) << sql;  // erasing it whole goes
  }
}

// Reading items compares places, not digests.
TEST(SqliteRows, ItemsOfABrokenLineAreCorrupt) {
  for (const char* sql :
       {"DELETE FROM turns WHERE id = 'T5'", "DELETE FROM turns WHERE id = 'T9'",
        "DELETE FROM turns WHERE id = 'T1'",
        "DELETE FROM items WHERE turn = (SELECT row FROM turns WHERE id = 'T5')",
        "UPDATE turns SET parent = 'T2' WHERE id = 'T5'",
        "UPDATE turns SET parent = '' WHERE id = 'T5'",
        "UPDATE turns SET parent = 'T9' WHERE id = 'T1'",
        "UPDATE turns SET line_turns = 6 WHERE id = 'T5'",
        "UPDATE turns SET line_turns = 9223372036854775807 WHERE id = 'T5'",
        "UPDATE turns SET line_turns = line_turns + 1", "UPDATE turns SET line_turns = 1",
        "UPDATE turns SET line_turns = 9223372036854775807 WHERE id = 'T9'",
        "UPDATE sessions SET turns = 8", "UPDATE turns SET id = 'X5' WHERE id = 'T5'"}) {
    const Windowed log;
    Tamper(log.path, sql);
    const auto items = OpenOrFail(log.path)->ReadItems(log.id, {"T9"}, 1, 100);
    ASSERT_FALSE(items.ok()) << sql;
    EXPECT_EQ(items.error().code(), Code::kCorrupt) << sql;
  }
}

TEST(SqliteRows, MarksThatNobodyWroteAreCorrupt) {
  const Windowed log;
  ASSERT_TRUE(OpenOrFail(log.path)->SetTurnMarks(log.id, {.turn = {"T2"}, .pinned = true}).ok());
  Tamper(log.path, "UPDATE turn_marks SET pinned = 0");
  EXPECT_EQ(OpenOrFail(log.path)->ReadTurnMarks(log.id).error().code(), Code::kCorrupt);
}

// Sums steer quotas, and stand in nobody's way.
TEST(SqliteRows, WrongSumsKeepNothingFromBeingErased) {
  for (const char* sql : {"DELETE FROM tenants", "UPDATE tenants SET sessions = 7, turns = 0",
                          "UPDATE tenants SET bytes = 0; UPDATE sessions SET bytes = 1"}) {
    const Windowed log;
    Tamper(log.path, sql);
    const auto store = OpenOrFail(log.path);
    EXPECT_TRUE(store->DeleteTurn(log.id, {"T3"}).ok()) << sql;
    EXPECT_TRUE(CommitOne(*store, MakeCommit(Key("chat"), "T10", "T9")).ok()) << sql;
    EXPECT_TRUE(store->DeleteSession(Key("chat")).ok()) << sql;
  }
}

TEST(SqliteRows, HeadTokensThatNobodyWroteAreCorrupt) {
  const Windowed log;
  Tamper(log.path, "UPDATE systems SET head_tokens = x'ffffffff'");
  const auto session = OpenOrFail(log.path)->FindSession(Key("chat"));
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().code(), Code::kCorrupt);
  EXPECT_EQ(log.Window(), "corrupt");
}

}  // namespace
}  // namespace tenuto
