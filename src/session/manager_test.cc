#include <gtest/gtest.h>

#include "session/manager_testing.h"

namespace tenuto {
namespace {

TEST_F(ManagerTest, AWarmSessionReusesAllItHas) {
  const auto first = stack->Ask("a", "one");
  ASSERT_TRUE(first->ok());
  EXPECT_EQ((**first).recomputed, (**first).prompt_tokens);
  EXPECT_EQ(first->streamed, (**first).text);
  const auto second = stack->Ask("a", "two");
  ASSERT_TRUE(second->ok());
  EXPECT_EQ((**second).restored, 0);
  EXPECT_GE((**second).reused, (**first).prompt_tokens + (**first).completion_tokens - 1);
  EXPECT_EQ((**second).window_turns, 2);
}

TEST_F(ManagerTest, ARestartedSessionIsRestoredButForItsTail) {
  const auto expected = Reference({"one", "two", "three"});
  const auto first = stack->Ask("a", "one");
  const auto second = stack->Ask("a", "two");
  Restart();
  const auto third = stack->Ask("a", "three");
  ASSERT_TRUE(third->ok());
  const int32_t log_tokens = (**second).prompt_tokens + (**second).completion_tokens;
  EXPECT_EQ((**third).restored, log_tokens - 1);
  EXPECT_EQ((**third).reused, 0);
  EXPECT_EQ(Tokens(**third, "tail"), 1);
  EXPECT_EQ(Tokens(**third, "new") + 1, (**third).recomputed);
  EXPECT_EQ((**third).text, expected[2]);
}

// Batches decide about the last bits of logits, so a restart must not change them.
TEST_F(ManagerTest, ALiveSessionComputesWhatARestoredOneDoes) {
  const auto first = stack->Ask("a", "one");
  ASSERT_EQ((**first).finish_reason, "stop");
  const auto live = stack->Ask("a", "two");
  EXPECT_EQ((**live).reused, (**first).prompt_tokens + (**first).completion_tokens - 1);
  EXPECT_EQ(Tokens(**live, "tail"), 1);
  stack->Ask("b", "one");
  Restart();
  const auto restored = stack->Ask("b", "two");
  EXPECT_EQ((**restored).recomputed, (**live).recomputed);
  EXPECT_EQ((**restored).restored, (**live).reused);
}

TEST_F(ManagerTest, AnEvictedSessionComesBackFromTheStore) {
  stack->Ask("a", "one");
  stack->EvictAll();
  const auto second = stack->Ask("a", "two");
  EXPECT_GT((**second).restored, 0);
  EXPECT_EQ((**second).text, Reference({"one", "two"})[1]);
}

TEST_F(ManagerTest, TheSystemMessageIsSetByTheFirstTurn) {
  auto first = TestStack::Chat("a", "one");
  first.messages.insert(first.messages.begin(), {"system", "be brief", ""});
  ASSERT_TRUE(stack->Ask(first)->ok());
  auto same = TestStack::Chat("a", "two");
  same.messages.insert(same.messages.begin(), {"system", "be brief", ""});
  const auto repeated = stack->Ask(same);
  ASSERT_TRUE(repeated->ok());
  // The repeated system message is not part of the new turn.
  EXPECT_LT(Tokens(**repeated, "new"), 60);
  auto changed = TestStack::Chat("a", "three");
  changed.messages.insert(changed.messages.begin(), {"system", "be long", ""});
  const auto refused = stack->Ask(changed);
  ASSERT_FALSE(refused->ok());
  EXPECT_EQ(refused->code(), Code::kInvalid);
  EXPECT_EQ(refused->result->error().field(), "messages[0]");
  Restart();
  EXPECT_FALSE(stack->Ask(changed)->ok());
  EXPECT_TRUE(stack->Ask(same)->ok());
}

TEST_F(ManagerTest, AnAssistantMessageOpensASessionButIsNotAddedToOne) {
  auto request = TestStack::Chat("a", "one");
  request.messages = {{"user", "q", ""}, {"assistant", "a", ""}, {"user", "one", ""}};
  ASSERT_TRUE(stack->Ask(request)->ok());
  const auto refused = stack->Ask(request);
  ASSERT_FALSE(refused->ok());
  EXPECT_EQ(refused->result->error().field(), "messages[1]");
}

TEST_F(ManagerTest, TurnsOfOneSessionRunOneAfterTheOther) {
  const auto expected = Reference({"one", "two", "three"});
  const auto one = stack->Submit(TestStack::Chat("a", "one"));
  const auto two = stack->Submit(TestStack::Chat("a", "two"));
  const auto three = stack->Submit(TestStack::Chat("a", "three"));
  stack->Settle();
  EXPECT_EQ((**one).text, expected[0]);
  EXPECT_EQ((**two).text, expected[1]);
  EXPECT_EQ((**three).text, expected[2]);
}

TEST_F(ManagerTest, ARetryGetsTheStoredAnswerAlsoAfterARestart) {
  auto request = TestStack::Chat("a", "one");
  request.idempotency_key = "k";
  const auto first = stack->Ask(request);
  const auto retry = stack->Ask(request);
  ASSERT_TRUE(retry->ok());
  EXPECT_TRUE((**retry).replayed);
  EXPECT_EQ((**retry).turn, (**first).turn);
  EXPECT_EQ((**retry).text, (**first).text);
  Restart();
  const auto late = stack->Ask(request);
  EXPECT_EQ((**late).turn, (**first).turn);
  EXPECT_EQ((**late).tokens, (**first).tokens);
  auto other = TestStack::Chat("a", "two");
  other.idempotency_key = "k";
  const auto conflict = stack->Ask(other);
  ASSERT_FALSE(conflict->ok());
  EXPECT_EQ(conflict->code(), Code::kConflict);
  EXPECT_EQ((**stack->Ask("a", "next")).window_turns, 2);
}

TEST_F(ManagerTest, ACancelledTurnKeepsWhatWasSaidAndTheSessionGoesOn) {
  const auto answer = stack->Submit(TestStack::Chat("a", "one"));
  ASSERT_TRUE(stack->world.RunUntil([&] { return answer->streamed.size() > 3; }));
  stack->OnCore([&] { stack->manager.Cancel(answer->turn, false); });
  ASSERT_TRUE(answer->ok());
  EXPECT_TRUE((**answer).incomplete);
  EXPECT_EQ((**answer).finish_reason, "cancelled");
  EXPECT_EQ((**answer).text, answer->streamed);
  Restart();
  EXPECT_EQ((**stack->Ask("a", "two")).window_turns, 2);
}

TEST_F(ManagerTest, ACancelledTurnIsDiscardedWhenSetSo) {
  TestStackOptions options;
  options.session.commit_on_disconnect = false;
  Restart(options);
  stack->Ask("a", "one");
  const auto answer = stack->Submit(TestStack::Chat("a", "two"));
  ASSERT_TRUE(stack->world.RunUntil([&] { return !answer->streamed.empty(); }));
  stack->OnCore([&] { stack->manager.Cancel(answer->turn, false); });
  EXPECT_FALSE(answer->ok());
  const auto again = stack->Ask("a", "two");
  EXPECT_EQ((**again).window_turns, 2);
  EXPECT_EQ((**again).text, Reference({"one", "two"})[1]);
}

TEST_F(ManagerTest, CancelAtEveryStepLeavesNothingBehind) {
  for (int steps = 0; steps < 60; ++steps) {
    TestDisk own;
    TestStack fresh(own);
    fresh.Ask("a", "one");
    fresh.EvictAll();
    const auto answer = fresh.Submit(TestStack::Chat("a", "two"));
    for (int i = 0; i < steps; ++i)
      fresh.world.Step();
    fresh.OnCore([&] { fresh.manager.Cancel(answer->turn, false); });
    ASSERT_TRUE(answer->result.has_value()) << steps;
    ASSERT_TRUE(fresh.manager.CheckIdle()) << steps;
    ASSERT_TRUE(fresh.Ask("a", "three")->ok()) << steps;
  }
}

TEST_F(ManagerTest, APromptThatCannotFitIsRefusedWithTheNumbers) {
  const auto answer = stack->Ask("a", std::string(600, 'x'));
  ASSERT_FALSE(answer->ok());
  EXPECT_EQ(answer->code(), Code::kInvalid);
  EXPECT_EQ(answer->result->error().field(), "messages");
  EXPECT_NE(answer->result->error().message().find("500"), std::string::npos);
  const auto huge = stack->Ask("a", std::string(10'000'000, 'x'));
  EXPECT_EQ(huge->code(), Code::kInvalid);
  EXPECT_TRUE(stack->Ask("a", "short")->ok());
}

TEST_F(ManagerTest, AFailedCommitIsAnErrorAndLeavesTheSessionAsItWas) {
  stack->Ask("a", "one");
  disk.log.FailWrite({1, Code::kExhausted, false});
  const auto failed = stack->Ask("a", "two");
  ASSERT_FALSE(failed->ok());
  EXPECT_EQ(failed->code(), Code::kExhausted);
  const auto again = stack->Ask("a", "two");
  ASSERT_TRUE(again->ok());
  EXPECT_EQ((**again).window_turns, 2);
  EXPECT_EQ((**again).text, Reference({"one", "two"})[1]);
}

TEST_F(ManagerTest, ATurnIsSafeWhenItsKvCannotBeStored) {
  stack->Ask("a", "one");
  disk.payloads.FailNextAppend(Code::kExhausted);
  const auto second = stack->Ask("a", "two");
  ASSERT_TRUE(second->ok());
  Restart();
  const auto third = stack->Ask("a", "three");
  ASSERT_TRUE(third->ok());
  EXPECT_GT((**third).restored, 0);
  EXPECT_GT(Tokens(**third, "missing"), 0);
  EXPECT_EQ((**third).text, Reference({"one", "two", "three"})[2]);
}

TEST_F(ManagerTest, AnotherWriterOnTheSessionGivesAConflictAndNothingIsLost) {
  stack->Ask("a", "one");
  // A later process commits to the same log behind our back.
  TestStack other(disk);
  ASSERT_TRUE(other.Ask("a", "theirs")->ok());
  const auto stale = stack->Ask("a", "ours");
  ASSERT_FALSE(stale->ok());
  EXPECT_EQ(stale->code(), Code::kConflict);
  EXPECT_EQ((**other.Ask("a", "more")).window_turns, 3);
}

TEST_F(ManagerTest, RequestsWithoutASessionShareTheirPrefixAndLeaveNothing) {
  const auto first = stack->Ask("", "the same beginning of both, long enough");
  ASSERT_TRUE(first->ok());
  const auto second = stack->Ask("", "the same beginning of both, long enough, then more");
  ASSERT_TRUE(second->ok());
  EXPECT_GT((**second).reused, 30);
  EXPECT_EQ(disk.log.writes(), 1u);  // the lease epoch
  EXPECT_TRUE(disk.payloads.List().value().empty());
  auto stranger = TestStack::Chat("", "the same beginning of both, long enough, then more");
  stranger.identity = "default::eve::default";
  EXPECT_EQ((**stack->Ask(stranger)).reused, 0);
}

// Seen told as new.
TEST_F(ManagerTest, TheSameRequestWithoutASessionComputesItsTail) {
  const auto first = stack->Ask("", "the same prompt, long enough to be shared");
  EXPECT_EQ(Tokens(**first, "new"), (**first).prompt_tokens);
  EXPECT_EQ((**first).reasons.size(), 1u);
  const auto again = stack->Ask("", "the same prompt, long enough to be shared");
  EXPECT_EQ((**again).reused, (**again).prompt_tokens - 1);
  EXPECT_EQ((**again).recomputed, 1);
  EXPECT_EQ(Tokens(**again, "tail"), 1);
  EXPECT_EQ((**again).reasons.size(), 1u);
  EXPECT_EQ((**again).text, (**first).text);
  // Also where its prefix is copied from one that is running.
  const auto running = stack->Submit(TestStack::Chat("", "another prompt, long enough to share"));
  ASSERT_TRUE(stack->world.RunUntil([&] { return !running->streamed.empty(); }));
  const auto beside = stack->Ask("", "another prompt, long enough to share");
  EXPECT_EQ((**beside).reused, (**beside).prompt_tokens - 1);
  EXPECT_EQ(Tokens(**beside, "tail"), 1);
  EXPECT_EQ((**beside).text, (**running).text);
  // One that goes on from there is new from where they part.
  const auto other = stack->Ask("", "the same prompt, long enough to be shared, then more");
  EXPECT_EQ(Tokens(**other, "new"), (**other).recomputed);
}

// Seen hanging: the idle one that starts alike held the only cells and was pinned while room was
// looked for.
TEST_F(ManagerTest, ARequestThatNeedsTheCellsOfOneThatStartsAlikeIsAdmitted) {
  TestStackOptions options;
  options.model.cells = 500;
  Restart(options);
  ASSERT_TRUE(stack->Ask("", std::string(250, 'a'))->ok());
  const auto other = stack->Ask("", std::string(300, 'b'));
  ASSERT_TRUE(other->result.has_value());
  EXPECT_TRUE(other->ok());
}

// Seen hanging: the cells of a turn that had ended came free only when its KV was stored, and
// nobody was told.
TEST_F(ManagerTest, ATurnThatWaitsForCellsHeldByAnExportIsAdmitted) {
  TestStackOptions options;
  options.model.cells = 500;
  Restart(options);
  const auto first = stack->Submit(TestStack::Chat("a", std::string(250, 'a')));
  const auto second = stack->Submit(TestStack::Chat("b", std::string(300, 'b')));
  stack->Settle();
  EXPECT_TRUE(first->ok());
  ASSERT_TRUE(second->result.has_value());
  EXPECT_TRUE(second->ok());
}

TEST_F(ManagerTest, TheSeedThatWasDrawnIsInTheLog) {
  auto request = TestStack::Chat("a", "one");
  request.seed_given = false;
  const auto answer = stack->Ask(request);
  const SessionRow row = disk.log.FindSession(*request.session).value();
  const auto turns = disk.log.ReadTurns(row.id, row.head).value();
  EXPECT_NE(turns[0].params_json.find(std::to_string((**answer).seed)), std::string::npos);
}

TEST_F(ManagerTest, MoreSessionsThanSequencesAllGoOn) {
  std::vector<std::string> names;
  for (int i = 0; i < 9; ++i)
    names.push_back("s" + std::to_string(i));
  for (const char* text : {"one", "two", "three"}) {
    std::vector<TestStack::AnswerPtr> answers;
    for (const auto& name : names)
      answers.push_back(stack->Submit(TestStack::Chat(name, text)));
    stack->Settle();
    for (const auto& answer : answers)
      EXPECT_TRUE(answer->ok());
  }
  const auto expected = Reference({"one", "two", "three", "four"});
  for (const auto& name : names)
    EXPECT_EQ((**stack->Ask(name, "four")).text, expected[3]);
}

TEST_F(ManagerTest, RunsThatOutgrowTheCellsArePreemptedAndEndTheSame) {
  TestStackOptions options;
  options.model.cells = 150;
  options.model.answer_tokens_min = 50;
  options.model.answer_tokens_max = 60;
  options.session.window_tokens = 140;
  options.session.answer_reserve_tokens = 5;
  Restart(options);
  std::vector<TestStack::AnswerPtr> answers;
  for (const char* name : {"a", "b", "c"})
    answers.push_back(stack->Submit(TestStack::Chat(name, "one")));
  stack->Settle();
  int32_t preemptions = 0;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer->ok());
    EXPECT_EQ((**answer).text, (**answers[0]).text);
    EXPECT_EQ(answer->streamed, (**answer).text);
    preemptions += answer->turn->preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

TEST_F(ManagerTest, DeleteRemovesEverythingAndTheNameStartsAnew) {
  stack->Ask("a", "one");
  std::optional<Status> deleted;
  const SessionKey key = ParseSessionKey("a").value();
  stack->OnCore(
      [&] { stack->manager.Delete(key, [&](Status status) { deleted = std::move(status); }); });
  ASSERT_TRUE(deleted && deleted->ok());
  EXPECT_TRUE(disk.payloads.List().value().empty());
  EXPECT_EQ(disk.log.FindSession(key).error().code(), Code::kNotFound);
  EXPECT_EQ((**stack->Ask("a", "one")).window_turns, 1);
  deleted.reset();
  stack->OnCore([&] {
    stack->manager.Delete(ParseSessionKey("nobody").value(),
                          [&](Status status) { deleted = std::move(status); });
  });
  ASSERT_TRUE(deleted);
  EXPECT_EQ(deleted->error().code(), Code::kNotFound);
}

TEST_F(ManagerTest, DeleteWhileATurnRunsIsAConflict) {
  const auto answer = stack->Submit(TestStack::Chat("a", "one"));
  ASSERT_TRUE(stack->world.RunUntil([&] { return !answer->streamed.empty(); }));
  std::optional<Status> deleted;
  stack->OnCore([&] {
    stack->manager.Delete(ParseSessionKey("a").value(),
                          [&](Status status) { deleted = std::move(status); });
  });
  ASSERT_TRUE(deleted);
  EXPECT_EQ(deleted->error().code(), Code::kConflict);
  EXPECT_TRUE(answer->ok());
}

TEST_F(ManagerTest, IdleSessionsAreForgottenInMemoryNotInTheLog) {
  TestStackOptions options;
  options.session.sessions_cached_max = 2;
  Restart(options);
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(stack->Ask("s" + std::to_string(i), "one")->ok());
  stack->EvictAll();
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ((**stack->Ask("s" + std::to_string(i), "two")).window_turns, 2);
}

}  // namespace
}  // namespace tenuto
