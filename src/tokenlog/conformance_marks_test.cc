// The contract of log.h over every store: what changes about turns and sessions after a commit.
// Marks, deleted turns, settings, sums, idle sessions.
#include <gtest/gtest.h>

#include "tokenlog/checks.h"
#include "tokenlog/conformance.h"

namespace tenuto {
namespace {

class MarksTest : public TokenLogTest {
 protected:
  std::string Marks(int64_t session) {
    const auto all = log().ReadTurnMarks(session);
    EXPECT_TRUE(all.ok()) << (all.ok() ? "" : all.error().message());
    std::string text;
    for (const TurnMarks& marks : *all)
      text += Describe(marks) + "; ";
    return text;
  }
  Code CodeOfMarks(int64_t session, const TurnMarks& marks) {
    const Status set = log().SetTurnMarks(session, marks);
    EXPECT_FALSE(set.ok());
    return set.ok() ? Code{} : set.error().code();
  }
  // T1 <- T2 <- T3, with everything that a turn may have.
  int64_t CommitFull() {
    int64_t session = 0;
    for (int64_t n = 1; n <= 3; ++n) {
      const std::string id = "T" + std::to_string(n);
      TurnCommit commit = MakeCommit(Key("chat"), id, n == 1 ? "" : "T" + std::to_string(n - 1));
      commit.turn.idempotency_key = "key of " + id;
      commit.turn.outcome_json = "outcome of " + id;
      commit.turn.recall_json = "recall of " + id;
      commit.turn.incomplete = true;
      commit.turn.window_first = static_cast<uint64_t>(n);
      commit.turn.created_unix_ms = 1000 * n;
      commit.turn.completed_unix_ms = 1000 * n + 1;
      const auto done = CommitOne(log(), commit);
      EXPECT_TRUE(done.ok());
      session = *done;
    }
    return session;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, MarksTest,
                         ::testing::Values(StoreKind::kMemory, StoreKind::kSqlite),
                         [](const auto& param_info) {
                           return std::string(param_info.param == StoreKind::kMemory ? "memory"
                                                                                     : "sqlite");
                         });

TEST_P(MarksTest, MarksComeBackByLineAndAreReplaced) {
  const int64_t id = CommitLine(Key("chat"), {"B", "A", "C"});
  TurnCommit branch = MakeCommit(Key("chat"), "A0", "B");
  branch.expected_head = {"C"};
  ASSERT_TRUE(CommitOne(log(), branch).ok());
  EXPECT_EQ(Marks(id), "");
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"C"}, .pinned = true}).ok());
  // The line is the log's to say.
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"A"}, .line = 77, .recall_off = true}).ok());
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"A0"}, .superseded_by = {"C"}}).ok());
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"B"}, .pinned = true, .recall_off = true}).ok());
  store_->Reopen();
  EXPECT_EQ(Marks(id), "1 B pinned no recall < ; 2 A no recall < ; 2 A0 < C; 3 C pinned < ; ");
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"B"}, .superseded_by = {"A"}}).ok());
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"C"}}).ok());
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"C"}}).ok());  // none are none
  EXPECT_EQ(Marks(id), "1 B < A; 2 A no recall < ; 2 A0 < C; ");
  // Nothing of the turns has changed.
  EXPECT_EQ(Ids(*log().ReadTurns(id, {"C"})), (std::vector<std::string>{"B", "A", "C"}));
}

TEST_P(MarksTest, MarksOfWhatIsNotThere) {
  const int64_t id = CommitLine(Key("chat"), {"T1", "T2"});
  const int64_t other = CommitLine(Key("other"), {"X1"});
  EXPECT_EQ(CodeOfMarks(99, {.turn = {"T1"}, .pinned = true}), Code::kNotFound);
  EXPECT_EQ(CodeOfMarks(id, {.turn = {"T9"}, .pinned = true}), Code::kNotFound);
  EXPECT_EQ(CodeOfMarks(id, {.turn = {"T9"}}), Code::kNotFound);
  EXPECT_EQ(CodeOfMarks(id, {.turn = {}, .pinned = true}), Code::kNotFound);
  EXPECT_EQ(CodeOfMarks(id, {.turn = {"X1"}, .pinned = true}), Code::kNotFound);
  EXPECT_EQ(CodeOfMarks(id, {.turn = {"T1"}, .superseded_by = {"X1"}}), Code::kNotFound);
  EXPECT_EQ(CodeOfMarks(id, {.turn = {"T1"}, .superseded_by = {"T1"}}), Code::kInvalid);
  EXPECT_EQ(log().ReadTurnMarks(99).error().code(), Code::kNotFound);
  EXPECT_EQ(Marks(id) + Marks(other), "");
}

TEST_P(MarksTest, MarksGoWithTheirSession) {
  const int64_t id = CommitLine(Key("chat"), {"T1"});
  ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {"T1"}, .pinned = true}).ok());
  ASSERT_TRUE(log().DeleteSession(Key("chat")).ok());
  EXPECT_EQ(log().ReadTurnMarks(id).error().code(), Code::kNotFound);
  EXPECT_EQ(Marks(CommitLine(Key("chat"), {"T1"})), "");
}

TEST_P(MarksTest, ADeletedTurnKeepsItsPlaceAndNothingElse) {
  const int64_t id = CommitFull();
  const auto before = log().ReadTurns(id, {"T3"});
  ASSERT_TRUE(before.ok());
  const SessionRow row = *log().FindSession(Key("chat"));
  for (const char* turn : {"T1", "T2", "T3"})
    ASSERT_TRUE(log().SetTurnMarks(id, {.turn = {turn}, .pinned = true}).ok());
  ASSERT_TRUE(log().DeleteTurn(id, {"T2"}).ok());
  store_->Reopen();

  const auto turns = log().ReadTurns(id, {"T3"});
  ASSERT_TRUE(turns.ok()) << turns.error().message();
  ASSERT_EQ(turns->size(), 3U);
  ExpectSame((*turns)[0], (*before)[0]);
  ExpectSame((*turns)[2], (*before)[2]);
  TurnRow left;
  left.id = {"T2"};
  left.parent = {"T1"};
  left.window_first = 2;
  left.items_json = "[]";
  left.created_unix_ms = 2000;
  left.completed_unix_ms = 2001;
  left.deleted = true;
  ExpectSame((*turns)[1], left);

  EXPECT_EQ(Marks(id), "1 T1 pinned < ; 3 T3 pinned < ; ");
  EXPECT_EQ(log().FindByIdempotencyKey(id, "key of T2").error().code(), Code::kNotFound);
  EXPECT_EQ(log().FindByIdempotencyKey(id, "key of T3")->id.value, "T3");
  EXPECT_EQ(Describe((*log().ReadItems(id, {"T3"}, 2, 1))[0]), "2 T2 []2000 deleted");
  SessionRow expected = row;
  expected.bytes -= TurnBytes((*before)[1]);
  EXPECT_EQ(Describe(*log().FindSession(Key("chat"))), Describe(expected));
}

TEST_P(MarksTest, AnyTurnMayBeDeletedAndTheLineGoesOn) {
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"T1", "T2", "T3"}, {"T3", "T2", "T1"}, {"T2", "T3", "T1"}}) {
    store_ = std::make_unique<Store>(GetParam());
    const int64_t id = CommitFull();
    for (const std::string& turn : order) {
      ASSERT_TRUE(log().DeleteTurn(id, {turn}).ok()) << turn;
      Everything();
    }
    EXPECT_EQ(log().FindSession(Key("chat"))->head.value, "T3");
    EXPECT_EQ(log().FindSession(Key("chat"))->head_tokens,
              MakeCommit(Key("chat"), "T1").head_tokens);
    TurnCommit next = MakeCommit(Key("chat"), "T4", "T3");
    next.turn.idempotency_key = "key of T2";  // free again
    ASSERT_TRUE(CommitOne(log(), next).ok());
    TurnCommit branch = MakeCommit(Key("chat"), "B3", "T2");
    branch.expected_head = {"T4"};
    ASSERT_TRUE(CommitOne(log(), branch).ok());
    store_->Reopen();
    const auto turns = log().ReadTurns(id, {"T4"});
    ASSERT_TRUE(turns.ok()) << turns.error().message();
    ExpectSame(turns->back(), next.turn);
    EXPECT_EQ(log().ReadTurnsBack(id, {"B3"}, 2)->size(), 2U);
    // The deleted tokens count on: no cut moves.
    EXPECT_EQ(log().FindSession(Key("chat"))->tokens, 3U * (2 + 4));
    EXPECT_EQ(CodeOf(MakeCommit(Key("chat"), "T1", "B3")), Code::kConflict);  // the id is taken
  }
}

TEST_P(MarksTest, DeletingWhatIsNotThere) {
  const int64_t id = CommitLine(Key("chat"), {"T1", "T2"});
  EXPECT_EQ(log().DeleteTurn(99, {"T1"}).error().code(), Code::kNotFound);
  EXPECT_EQ(log().DeleteTurn(id, {"T9"}).error().code(), Code::kNotFound);
  EXPECT_EQ(log().DeleteTurn(id, {}).error().code(), Code::kNotFound);
  ASSERT_TRUE(log().DeleteTurn(id, {"T1"}).ok());
  const std::string once = Everything();
  EXPECT_EQ(log().DeleteTurn(id, {"T1"}).error().code(), Code::kNotFound);
  EXPECT_EQ(CodeOfMarks(id, {.turn = {"T1"}, .pinned = true}), Code::kNotFound);
  EXPECT_EQ(Everything(), once);
  // Others may name it: an older mark does, too.
  EXPECT_TRUE(log().SetTurnMarks(id, {.turn = {"T2"}, .superseded_by = {"T1"}}).ok());
  ASSERT_TRUE(log().DeleteSession(Key("chat")).ok());
  EXPECT_EQ(Describe(*log().TenantUse("default")), "0 sessions 0 turns 0 bytes");
}

TEST_P(MarksTest, NobodyCommitsATombstone) {
  TurnCommit commit = MakeCommit(Key("chat"), "T1");
  commit.turn.deleted = true;
  EXPECT_EQ(CodeOf(commit), Code::kInvalid);
}

TEST_P(MarksTest, SettingsAreTheSessionsOwn) {
  const int64_t id = CommitLine(Key("chat"), {"T1"});
  CommitLine(Key("other"), {"T1"});
  EXPECT_EQ(log().FindSession(Key("chat"))->settings_json, "{}");
  ASSERT_TRUE(log().SetSessionSettings(id, R"({"ttl_s":60})").ok());
  CommitLine(Key("chat"), {"T2"}, "T1");
  store_->Reopen();
  EXPECT_EQ(log().FindSession(Key("chat"))->settings_json, R"({"ttl_s":60})");
  EXPECT_EQ(log().FindSession(Key("other"))->settings_json, "{}");
  const std::string longest(kSettingsBytesMax, 's');
  EXPECT_TRUE(log().SetSessionSettings(id, longest).ok());
  EXPECT_EQ(log().SetSessionSettings(id, longest + "s").error().code(), Code::kInvalid);
  EXPECT_EQ(log().FindSession(Key("chat"))->settings_json, longest);
  EXPECT_EQ(log().SetSessionSettings(99, "{}").error().code(), Code::kNotFound);
}

TEST_P(MarksTest, TenantsAreAddedUpOverAllBranches) {
  const auto use = [&](const char* tenant) { return Describe(*log().TenantUse(tenant)); };
  EXPECT_EQ(use("default"), "0 sessions 0 turns 0 bytes");
  TurnCommit first = MakeCommit(Key("a"), "T1");
  first.turn.outcome_json = "{}";
  first.turn.recall_json = "{\"n\":1}";
  const uint64_t system = first.system_json.size() + 12;
  const uint64_t each = 24 + first.turn.items_json.size() + first.turn.params_json.size();
  const int64_t a = *CommitOne(log(), first);
  CommitLine(Key("a"), {"T2"}, "T1");
  TurnCommit branch = MakeCommit(Key("a"), "B2", "T1");
  branch.expected_head = {"T2"};
  ASSERT_TRUE(CommitOne(log(), branch).ok());
  EXPECT_EQ(CodeOf(MakeCommit(Key("a"), "C2", "T1")), Code::kConflict);  // counts for nothing
  CommitLine(Key("b"), {"T1"});
  SessionKey elsewhere = Key("a");
  elsewhere.tenant = "acme";
  CommitLine(elsewhere, {"T1"});
  store_->Reopen();
  EXPECT_EQ(log().FindSession(Key("a"))->bytes, system + 3 * each + 9);
  EXPECT_EQ(log().FindSession(elsewhere)->bytes, system + each);
  const auto sums = [](int sessions, int turns, uint64_t bytes) {
    return std::to_string(sessions) + " sessions " + std::to_string(turns) + " turns " +
           std::to_string(bytes) + " bytes";
  };
  EXPECT_EQ(use("default"), sums(2, 4, 2 * system + 4 * each + 9));
  EXPECT_EQ(use("acme"), sums(1, 1, system + each));
  ASSERT_TRUE(log().DeleteTurn(a, {"T1"}).ok());
  EXPECT_EQ(use("default"), sums(2, 3, 2 * system + 3 * each));
  ASSERT_TRUE(log().DeleteSession(Key("a")).ok());
  EXPECT_EQ(use("default"), sums(1, 1, system + each));
  ASSERT_TRUE(log().DeleteSession(elsewhere).ok());
  EXPECT_EQ(use("acme"), sums(0, 0, 0));
}

TEST_P(MarksTest, IdleSessionsComeOldestFirst) {
  const std::vector<std::pair<std::string, int64_t>> ends = {{"a", 50}, {"b", 10}, {"c", 30},
                                                             {"d", 30}, {"e", 20}, {"f", -5}};
  for (const auto& [name, end] : ends) {
    TurnCommit commit = MakeCommit(Key(name, name == "c" ? "bob" : "alice"), "T1");
    commit.turn.completed_unix_ms = end;
    ASSERT_TRUE(CommitOne(log(), commit).ok());
  }
  const auto list = [&](int64_t before, size_t limit, IdleCursor after = {}) {
    const auto idle = log().ListIdleSessions(before, limit, after);
    EXPECT_TRUE(idle.ok());
    std::string names;
    for (const SessionRow& row : *idle)
      names += row.key.session;
    return names;
  };
  EXPECT_EQ(list(INT64_MAX, 100), "fbecda");
  EXPECT_EQ(list(30, 100), "fbe");
  EXPECT_EQ(list(31, 4), "fbec");
  EXPECT_EQ(list(INT64_MAX, 0), "");
  EXPECT_EQ(list(INT64_MIN, 100), "");
  const SessionRow c = *log().FindSession(Key("c", "bob"));
  EXPECT_EQ(list(INT64_MAX, 100, {c.updated_unix_ms, c.id}), "da");
  EXPECT_EQ(list(INT64_MAX, 100, {50, INT64_MAX}), "");
  // A new turn is work; marks and settings are none.
  TurnCommit next = MakeCommit(Key("f"), "T2", "T1");
  next.turn.completed_unix_ms = 40;
  ASSERT_TRUE(CommitOne(log(), next).ok());
  const int64_t b = log().FindSession(Key("b"))->id;
  ASSERT_TRUE(log().SetSessionSettings(b, "{\"a\":1}").ok());
  ASSERT_TRUE(log().SetTurnMarks(b, {.turn = {"T1"}, .pinned = true}).ok());
  ASSERT_TRUE(log().DeleteTurn(b, {"T1"}).ok());
  store_->Reopen();
  EXPECT_EQ(list(INT64_MAX, 100), "becdfa");
  // An import is work now, however long ago its turns were said.
  TurnCommit imported = MakeCommit(Key("e"), "T2", "T1");
  imported.turn.completed_unix_ms = 1;
  imported.stored_unix_ms = 1000;
  ASSERT_TRUE(CommitOne(log(), imported).ok());
  EXPECT_EQ(list(INT64_MAX, 100), "bcdfae");
  EXPECT_EQ(log().FindSession(Key("e"))->updated_unix_ms, 1000);
}

}  // namespace
}  // namespace tenuto
