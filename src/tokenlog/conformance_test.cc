// The contract of log.h over every store: sessions and turns. conformance_windows_test.cc has parts
// of a line, conformance_pieces_test.cc the rest.
#include "tokenlog/conformance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tokenlog/checks.h"

namespace tenuto {
namespace {

INSTANTIATE_TEST_SUITE_P(Stores, TokenLogTest,
                         ::testing::Values(StoreKind::kMemory, StoreKind::kSqlite),
                         [](const auto& param_info) {
                           return std::string(param_info.param == StoreKind::kMemory ? "memory"
                                                                                     : "sqlite");
                         });

TEST_P(TokenLogTest, LeaseEpochsGrowAndOutliveTheWriter) {
  const auto first = log().NextLeaseEpoch();
  ASSERT_TRUE(first.ok());
  store_->Reopen();
  const auto second = log().NextLeaseEpoch();
  ASSERT_TRUE(second.ok());
  EXPECT_GT(*first, 0U);
  EXPECT_GT(*second, *first);
}

TEST_P(TokenLogTest, FirstTurnMakesTheSession) {
  const TurnCommit commit = MakeCommit(Key("chat"), "T1");
  const auto id = CommitOne(log(), commit);
  ASSERT_TRUE(id.ok()) << id.error().message();
  const auto row = log().FindSession(commit.key);
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(row->id, *id);
  EXPECT_EQ(row->key, commit.key);
  EXPECT_EQ(row->head.value, "T1");
  EXPECT_EQ(row->lease_epoch, 1U);
  EXPECT_EQ(row->vocabulary, commit.vocabulary);
  EXPECT_EQ(row->system_json, commit.system_json);
  EXPECT_EQ(row->head_tokens, commit.head_tokens);
  EXPECT_EQ(row->turns, 1U);
  EXPECT_EQ(row->tokens, commit.turn.prompt.size() + commit.turn.answer.size());
  EXPECT_EQ(row->created_unix_ms, 1000);
  EXPECT_EQ(row->updated_unix_ms, 2000);
}

TEST_P(TokenLogTest, EveryFieldOfATurnComesBackAfterReopen) {
  TurnCommit commit = MakeCommit(Key("chat"), "T1");
  TurnRow& turn = commit.turn;
  turn.prompt = {0, 1, 0x7fffffff};
  turn.answer = {};
  turn.close_tokens = 3;
  turn.items_json = std::string("nul \0 and \xff bytes", 16);
  turn.params_json = "";
  turn.finish_reason = "cancelled";
  turn.incomplete = true;
  turn.idempotency_key = "key 1";
  turn.outcome_json = "{\"text\":\"hi\"}";
  turn.recall_json = "{\"decision\":\"gated\"}";
  turn.created_unix_ms = -5;
  turn.completed_unix_ms = INT64_MAX;
  const auto id = CommitOne(log(), commit);
  ASSERT_TRUE(id.ok()) << id.error().message();
  store_->Reopen();
  const auto turns = log().ReadTurns(*id, turn.id);
  ASSERT_TRUE(turns.ok()) << turns.error().message();
  ASSERT_EQ(turns->size(), 1U);
  ExpectSame(turns->front(), turn);
}

TEST_P(TokenLogTest, LineComesBackInOrderWithItsCounts) {
  const int64_t id = CommitLine(Key("chat"), {"T1", "T2", "T3"});
  const auto turns = log().ReadTurns(id, {"T3"});
  ASSERT_TRUE(turns.ok());
  EXPECT_EQ(Ids(*turns), (std::vector<std::string>{"T1", "T2", "T3"}));
  const auto row = log().FindSession(Key("chat"));
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(row->turns, 3U);
  EXPECT_EQ(row->tokens, 3U * (2 + 4));
  // As of an earlier turn.
  const auto earlier = log().ReadTurns(id, {"T2"});
  ASSERT_TRUE(earlier.ok());
  EXPECT_EQ(Ids(*earlier), (std::vector<std::string>{"T1", "T2"}));
  const auto none = log().ReadTurns(id, {});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

TEST_P(TokenLogTest, SystemItemsAndHeadTokensAreThoseOfTheFirstTurn) {
  const int64_t id = CommitLine(Key("chat"), {"T1"});
  const TurnCommit first = MakeCommit(Key("chat"), "T1");
  TurnCommit second = MakeCommit(Key("chat"), "T2", "T1");
  second.system_json = "[\"other\"]";
  second.head_tokens = {};
  ASSERT_TRUE(CommitOne(log(), second).ok());
  // Another root: it is sealed to the session's head tokens, not to its own.
  TurnCommit root = MakeCommit(Key("chat"), "R1");
  root.expected_head = {"T2"};
  root.head_tokens = {9};
  ASSERT_TRUE(CommitOne(log(), root).ok());
  store_->Reopen();
  EXPECT_EQ(log().FindSession(Key("chat"))->system_json, first.system_json);
  EXPECT_EQ(log().FindSession(Key("chat"))->head_tokens, first.head_tokens);
  EXPECT_EQ(Ids(*log().ReadTurns(id, {"T2"})), (std::vector<std::string>{"T1", "T2"}));
  EXPECT_EQ(Ids(*log().ReadTurns(id, {"R1"})), (std::vector<std::string>{"R1"}));
}

TEST_P(TokenLogTest, ASessionMayHaveNoHeadTokens) {
  TurnCommit commit = MakeCommit(Key("chat"), "T1");
  commit.head_tokens = {};
  const auto id = CommitOne(log(), commit);
  ASSERT_TRUE(id.ok()) << id.error().message();
  store_->Reopen();
  EXPECT_TRUE(log().FindSession(Key("chat"))->head_tokens.empty());
  EXPECT_EQ(log().ReadTurns(*id, {"T1"})->size(), 1U);
}

TEST_P(TokenLogTest, BranchesShareTheirTrunk) {
  const int64_t id = CommitLine(Key("chat"), {"T1", "T2", "T3"});
  TurnCommit branch = MakeCommit(Key("chat"), "B3", "T2");
  branch.expected_head = {"T3"};
  ASSERT_TRUE(CommitOne(log(), branch).ok());
  const auto row = log().FindSession(Key("chat"));
  EXPECT_EQ(row->head.value, "B3");
  EXPECT_EQ(row->turns, 3U);
  EXPECT_EQ(Ids(*log().ReadTurns(id, {"B3"})), (std::vector<std::string>{"T1", "T2", "B3"}));
  EXPECT_EQ(Ids(*log().ReadTurns(id, {"T3"})), (std::vector<std::string>{"T1", "T2", "T3"}));

  // A second root: the first message edited.
  TurnCommit root = MakeCommit(Key("chat"), "R1");
  root.expected_head = {"B3"};
  ASSERT_TRUE(CommitOne(log(), root).ok());
  EXPECT_EQ(log().FindSession(Key("chat"))->turns, 1U);
  EXPECT_EQ(Ids(*log().ReadTurns(id, {"R1"})), (std::vector<std::string>{"R1"}));
}

TEST_P(TokenLogTest, StaleHeadIsAConflictThatChangesNothing) {
  CommitLine(Key("chat"), {"T1", "T2"});
  const std::string before = Everything();
  EXPECT_EQ(CodeOf(MakeCommit(Key("chat"), "T3", "T1")), Code::kConflict);
  EXPECT_EQ(CodeOf(MakeCommit(Key("chat"), "T3", "")), Code::kConflict);
  EXPECT_EQ(CodeOf(MakeCommit(Key("gone"), "T3", "T2")), Code::kConflict);
  EXPECT_EQ(Everything(), before);
}

TEST_P(TokenLogTest, StaleLeaseIsAConflict) {
  TurnCommit taken_over = MakeCommit(Key("chat"), "T1");
  taken_over.lease_epoch = 5;
  ASSERT_TRUE(CommitOne(log(), taken_over).ok());
  TurnCommit late = MakeCommit(Key("chat"), "T2", "T1");
  late.lease_epoch = 4;
  const std::string before = Everything();
  EXPECT_EQ(CodeOf(late), Code::kConflict);
  EXPECT_EQ(Everything(), before);
  late.lease_epoch = 5;
  EXPECT_TRUE(CommitOne(log(), late).ok());
  EXPECT_EQ(log().FindSession(Key("chat"))->lease_epoch, 5U);
}

TEST_P(TokenLogTest, OtherVocabularyIsRefused) {
  CommitLine(Key("chat"), {"T1"});
  TurnCommit other = MakeCommit(Key("chat"), "T2", "T1");
  other.vocabulary = Sha256Of(std::string_view("another model"));
  EXPECT_EQ(CodeOf(other), Code::kInvalid);
  EXPECT_EQ(log().FindSession(Key("chat"))->head.value, "T1");
}

TEST_P(TokenLogTest, IdempotencyKeyIsUniqueInItsSession) {
  TurnCommit first = MakeCommit(Key("chat"), "T1");
  first.turn.idempotency_key = "retry-me";
  first.turn.outcome_json = "{}";
  const auto id = CommitOne(log(), first);
  ASSERT_TRUE(id.ok());
  TurnCommit again = MakeCommit(Key("chat"), "T2", "T1");
  again.turn.idempotency_key = "retry-me";
  EXPECT_EQ(CodeOf(again), Code::kConflict);
  const auto found = log().FindByIdempotencyKey(*id, "retry-me");
  ASSERT_TRUE(found.ok());
  ExpectSame(*found, first.turn);

  TurnCommit elsewhere = MakeCommit(Key("other"), "T1");
  elsewhere.turn.idempotency_key = "retry-me";
  const auto other = CommitOne(log(), elsewhere);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(log().FindByIdempotencyKey(*other, "retry-me")->id.value, "T1");

  // On a later turn, too, whose digest follows its parent's.
  TurnCommit later = MakeCommit(Key("chat"), "T2", "T1");
  later.turn.idempotency_key = "second";
  ASSERT_TRUE(CommitOne(log(), later).ok());
  ExpectSame(*log().FindByIdempotencyKey(*id, "second"), later.turn);
}

TEST_P(TokenLogTest, TurnsWithoutAKeyDoNotCollide) {
  const int64_t id = CommitLine(Key("chat"), {"T1", "T2"});
  const auto found = log().FindByIdempotencyKey(id, "");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), Code::kNotFound);
}

TEST_P(TokenLogTest, SameTurnTwiceIsAConflict) {
  CommitLine(Key("chat"), {"T1", "T2"});
  TurnCommit again = MakeCommit(Key("chat"), "T1", "T2");
  EXPECT_EQ(CodeOf(again), Code::kConflict);
  EXPECT_EQ(log().FindSession(Key("chat"))->turns, 2U);
}

TEST_P(TokenLogTest, UnknownParentIsInvalid) {
  CommitLine(Key("chat"), {"T1"});
  TurnCommit orphan = MakeCommit(Key("chat"), "T2", "T9");
  orphan.expected_head = {"T1"};
  EXPECT_EQ(CodeOf(orphan), Code::kInvalid);
  TurnCommit first = MakeCommit(Key("new"), "T2", "T9");
  first.expected_head = {};
  EXPECT_EQ(CodeOf(first), Code::kInvalid);
  EXPECT_EQ(log().FindSession(Key("new")).error().code(), Code::kNotFound);
}

TEST_P(TokenLogTest, MalformedCommitsAreInvalid) {
  const std::vector<std::function<void(TurnCommit&)>> breaks = {
      [](TurnCommit& c) { c.key.session = ""; },
      [](TurnCommit& c) { c.key.user = "a/b"; },
      [](TurnCommit& c) { c.key.agent = "a::b"; },
      [](TurnCommit& c) { c.key.tenant = std::string(129, 'x'); },
      [](TurnCommit& c) { c.turn.id = {}; },
      [](TurnCommit& c) { c.turn.id = {"has space"}; },
      [](TurnCommit& c) { c.turn.id = {std::string(kTurnIdBytesMax + 1, 'A')}; },
      [](TurnCommit& c) { c.turn.parent = {"has'quote"}; },
      [](TurnCommit& c) { c.turn.parent = c.turn.id; },
      [](TurnCommit& c) { c.turn.prompt.push_back(-1); },
      [](TurnCommit& c) { c.turn.answer = {INT32_MIN}; },
      [](TurnCommit& c) { c.turn.prompt.assign(kTurnTokensMax + 1, 0); },
      [](TurnCommit& c) { c.turn.window_first = 0; },
      [](TurnCommit& c) { c.turn.window_first = 2; },  // of a root
      [](TurnCommit& c) { c.turn.window_first = UINT64_MAX; },
      [](TurnCommit& c) { c.turn.close_tokens = 3; },
      [](TurnCommit& c) { c.head_tokens.push_back(-1); },
      [](TurnCommit& c) { c.head_tokens.assign(kTurnTokensMax + 1, 0); },
      [](TurnCommit& c) { c.turn.items_json.assign(kTurnJsonBytesMax + 1, ' '); },
      [](TurnCommit& c) { c.system_json.assign(kTurnJsonBytesMax + 1, ' '); },
      [](TurnCommit& c) { c.turn.idempotency_key.assign(kIdempotencyKeyBytesMax + 1, 'k'); },
      [](TurnCommit& c) { c.turn.finish_reason.assign(kFinishReasonBytesMax + 1, 'f'); },
      [](TurnCommit& c) { c.lease_epoch = UINT64_MAX; },
  };
  for (size_t i = 0; i < breaks.size(); ++i) {
    TurnCommit commit = MakeCommit(Key("chat"), "T1");
    breaks[i](commit);
    EXPECT_EQ(CodeOf(commit), Code::kInvalid) << i;
  }
  EXPECT_EQ(Everything(), "");
}

TEST_P(TokenLogTest, OneCallGivesEachCommitItsOwnVerdict) {
  CommitLine(Key("a"), {"A1"});
  const std::vector<TurnCommit> batch = {
      MakeCommit(Key("a"), "A2", "A1"),  // fits
      MakeCommit(Key("a"), "X2", "A1"),  // the first of the batch moved the head
      MakeCommit(Key("a"), "A3", "A2"),  // follows the first
      MakeCommit(Key("b"), "B1"),        // a new session
      MakeCommit(Key("b"), "B2", "B1"),  // that exists now
      MakeCommit(Key("c"), "", ""),      // malformed
  };
  const auto verdicts = log().Commit(batch);
  ASSERT_EQ(verdicts.size(), batch.size());
  EXPECT_TRUE(verdicts[0].ok());
  EXPECT_EQ(verdicts[1].error().code(), Code::kConflict);
  EXPECT_TRUE(verdicts[2].ok());
  EXPECT_TRUE(verdicts[3].ok());
  EXPECT_TRUE(verdicts[4].ok());
  EXPECT_EQ(verdicts[5].error().code(), Code::kInvalid);
  store_->Reopen();
  EXPECT_EQ(log().FindSession(Key("a"))->turns, 3U);
  EXPECT_EQ(log().FindSession(Key("b"))->turns, 2U);
  EXPECT_EQ(log().FindSession(Key("c")).error().code(), Code::kNotFound);
  EXPECT_TRUE(log().Commit({}).empty());
}

TEST_P(TokenLogTest, WhatDoesNotExistIsNotFound) {
  EXPECT_EQ(log().FindSession(Key("none")).error().code(), Code::kNotFound);
  EXPECT_EQ(log().ReadTurns(99, {}).error().code(), Code::kNotFound);
  EXPECT_EQ(log().ReadWindow(99, {}).error().code(), Code::kNotFound);
  EXPECT_EQ(log().ReadTurnsBack(99, {}, 1).error().code(), Code::kNotFound);
  EXPECT_EQ(log().FindByIdempotencyKey(99, "k").error().code(), Code::kNotFound);
  EXPECT_EQ(log().ReadPieces(99).error().code(), Code::kNotFound);
  EXPECT_EQ(log().DeleteSession(Key("none")).error().code(), Code::kNotFound);
  EXPECT_EQ(log().DropPieces(99, {}).error().code(), Code::kNotFound);
  const PieceRow piece = MakePiece(0, 10, 1);
  EXPECT_EQ(log().AddPieces(99, {&piece, 1}).error().code(), Code::kNotFound);
  const int64_t id = CommitLine(Key("chat"), {"T1"});
  EXPECT_EQ(log().ReadTurns(id, {"T9"}).error().code(), Code::kNotFound);
  EXPECT_EQ(log().ReadWindow(id, {"T9"}).error().code(), Code::kNotFound);
  for (const size_t limit : {0U, 1U, 7U})
    EXPECT_EQ(log().ReadTurnsBack(id, {"T9"}, limit).error().code(), Code::kNotFound);
  EXPECT_EQ(log().FindByIdempotencyKey(id, "k").error().code(), Code::kNotFound);
  EXPECT_TRUE(log().ReadPieces(id)->empty());
  EXPECT_TRUE(log().ReferencedFiles()->empty());
}

TEST_P(TokenLogTest, ListsByKeyAndUser) {
  for (const char* session : {"b", "a", "a-1", "a.1", "Z"})
    CommitLine(Key(session), {"T1"});
  CommitLine(Key("c", "bob"), {"T1"});
  SessionKey agent = Key("q");
  agent.agent = "coder";
  CommitLine(agent, {"T1"});
  SessionKey tenant = Key("t");
  tenant.tenant = "acme";
  CommitLine(tenant, {"T1"});

  const auto names = [&](const std::string& in, const std::string& user, const std::string& after,
                         size_t limit) {
    std::vector<std::string> listed;
    const auto page = log().ListSessions(in, user, after, limit);
    EXPECT_TRUE(page.ok());
    for (const SessionRow& row : page->sessions)
      listed.push_back(row.key.session);
    if (page->more) listed.push_back("...");
    return listed;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("default", "alice", "", 100), (Names{"q", "Z", "a", "a-1", "a.1", "b"}));
  EXPECT_EQ(names("default", "alice", "", 2), (Names{"q", "Z", "..."}));
  EXPECT_EQ(names("default", "alice", "alice::Z", 2), (Names{"a", "a-1", "..."}));
  EXPECT_EQ(names("default", "alice", "alice::a-1", 2), (Names{"a.1", "b"}));
  EXPECT_EQ(names("default", "alice", "alice::b", 2), (Names{}));
  EXPECT_EQ(names("default", "alice", "alice::a-0", 1), (Names{"a-1", "..."}));
  EXPECT_EQ(names("default", "bob", "", 100), (Names{"c"}));
  EXPECT_EQ(names("default", "bob", "alice::zzz", 100), (Names{"c"}));
  EXPECT_EQ(names("default", "bob", "carol::a", 100), (Names{}));
  EXPECT_EQ(names("default", "nobody", "", 100), (Names{}));
  EXPECT_EQ(names("default", "", "", 100), (Names{"q", "Z", "a", "a-1", "a.1", "b", "c"}));
  EXPECT_EQ(names("acme", "alice", "", 100), (Names{"t"}));
  EXPECT_EQ(names("", "", "", 100), (Names{"t", "q", "Z", "a", "a-1", "a.1", "b", "c"}));
  EXPECT_EQ(names("", "", "acme::alice::default::t", 3), (Names{"q", "Z", "a", "..."}));
  EXPECT_EQ(names("", "", "", 0), (Names{"..."}));
  EXPECT_EQ(log().ListSessions("", "", "three::part::key", 1).error().code(), Code::kInvalid);
}

TEST_P(TokenLogTest, ThousandsOfTurnsReadBack) {
  std::vector<TurnCommit> batch;
  for (int i = 0; i < 3000; ++i)
    batch.push_back(MakeCommit(Key("long"), "T" + std::to_string(i),
                               i == 0 ? "" : "T" + std::to_string(i - 1)));
  const auto verdicts = log().Commit(batch);
  for (const auto& verdict : verdicts)
    ASSERT_TRUE(verdict.ok());
  const auto turns = log().ReadTurns(*verdicts.back(), {"T2999"});
  ASSERT_TRUE(turns.ok());
  ASSERT_EQ(turns->size(), 3000U);
  EXPECT_EQ(turns->front().id.value, "T0");
  EXPECT_EQ(turns->back().id.value, "T2999");
  EXPECT_EQ(log().FindSession(Key("long"))->turns, 3000U);
}

TEST_P(TokenLogTest, ThreadsCommitAndReadAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 25;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const auto text = Dump(log());
      EXPECT_TRUE(text.ok()) << text.error().message();
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t)
    writers.emplace_back([&, t] {
      std::string parent;
      for (int i = 0; i < kTurns; ++i) {
        const std::string id = "T" + std::to_string(i);
        EXPECT_TRUE(CommitOne(log(), MakeCommit(Key("s" + std::to_string(t)), id, parent)).ok());
        parent = id;
      }
    });
  for (std::thread& writer : writers)
    writer.join();
  done = true;
  reader.join();
  for (int t = 0; t < kThreads; ++t)
    EXPECT_EQ(log().FindSession(Key("s" + std::to_string(t)))->turns, 25U);
}

}  // namespace
}  // namespace tenuto
