#include "session/import.h"

#include <gtest/gtest.h>

#include "session/testing.h"

namespace tenuto {
namespace {

SessionKey Key(const std::string& name) {
  return ParseSessionKey(name).value();
}

std::vector<ImportItem> Pairs(int count, const std::string& topic = "topic") {
  std::vector<ImportItem> items;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    items.push_back({{"user", topic + " question " + n, ""}, 1'700'000'000'000 + i, "q" + n});
    items.push_back({{"assistant", topic + " answer " + n, ""}, 0, ""});
  }
  return items;
}

class ImportTest : public ::testing::Test {
 protected:
  Result<ImportOutcome> Import(const std::string& session, std::vector<ImportItem> items) {
    std::optional<Result<ImportOutcome>> result;
    stack->OnCore([&] {
      stack->manager.Import(Key(session), std::move(items),
                            [&](Result<ImportOutcome> outcome) { result = std::move(outcome); });
    });
    EXPECT_TRUE(stack->manager.CheckIdle());
    return *result;
  }
  std::vector<TurnRow> Turns(const std::string& session) {
    const SessionRow row = disk.log.FindSession(Key(session)).value();
    return disk.log.ReadTurns(row.id, row.head).value();
  }

  TestDisk disk;
  std::unique_ptr<TestStack> stack = std::make_unique<TestStack>(disk);
};

TEST_F(ImportTest, ItemsBecomeWholeTurns) {
  const auto outcome = Import("a", Pairs(3));
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_EQ(outcome->turns, 3u);
  const auto turns = Turns("a");
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[1].parent, turns[0].id);
  EXPECT_EQ(turns[1].created_unix_ms, 1'700'000'000'001);
  EXPECT_NE(turns[1].items_json.find("topic answer 1"), std::string::npos);
  EXPECT_NE(turns[1].items_json.find("\"client_id\":\"q1\""), std::string::npos);
  uint64_t tokens = 0;
  for (const TurnRow& turn : turns)
    tokens += turn.prompt.size() + turn.answer.size();
  EXPECT_EQ(outcome->tokens, tokens);
}

// The next turn sees what was imported as if it had been said here: the same tokens, whether it was
// imported at once, in parts, or around turns that were served.
TEST_F(ImportTest, ATurnGoesOnFromWhatWasImported) {
  ASSERT_TRUE(Import("a", Pairs(4)).ok());
  const auto a = stack->Ask("a", "next");
  ASSERT_TRUE(a->ok());
  EXPECT_EQ((**a).window_turns, 5);
  EXPECT_EQ((**a).recomputed, (**a).prompt_tokens);

  auto items = Pairs(4);
  std::vector<ImportItem> rest(items.begin() + 4, items.end());
  items.resize(4);
  ASSERT_TRUE(Import("b", items).ok());
  stack = std::make_unique<TestStack>(disk);
  ASSERT_TRUE(Import("b", rest).ok());
  EXPECT_EQ((**stack->Ask("b", "next")).text, (**a).text);
}

TEST_F(ImportTest, ALiveSessionIsAddedTo) {
  ASSERT_TRUE(stack->Ask("a", "one")->ok());
  ASSERT_TRUE(Import("a", Pairs(2)).ok());
  const auto next = stack->Ask("a", "two");
  ASSERT_TRUE(next->ok());
  EXPECT_EQ((**next).window_turns, 4);
  EXPECT_GT((**next).restored, 0);  // of the turn that was served
}

TEST_F(ImportTest, MoreThanAWindowIsArchiveFromTheStart) {
  ASSERT_TRUE(Import("a", Pairs(300)).ok());
  const auto next = stack->Ask("a", "next");
  ASSERT_TRUE(next->ok()) << next->result->error().message();
  EXPECT_GT((**next).archived_turns, 200);
  EXPECT_EQ((**next).archived_turns + (**next).window_turns, 301);
  EXPECT_LE((**next).window_tokens, (**next).window_limit);
}

TEST_F(ImportTest, ATurnLargerThanTheWindowIsKeptAndNotShown) {
  auto items = Pairs(2);
  items[2].message.content = std::string(2000, 'x');
  ASSERT_TRUE(Import("a", items).ok());
  const auto next = stack->Ask("a", "next");
  ASSERT_TRUE(next->ok()) << next->result->error().message();
  EXPECT_EQ((**next).archived_turns, 2);
  EXPECT_NE(Turns("a")[1].items_json.find("xxxx"), std::string::npos);
}

TEST_F(ImportTest, WhatFollowsTheLastAnswerIsATurnWithoutOne) {
  auto items = Pairs(1);
  items.push_back({{"user", "and then?", ""}, 0, ""});
  ASSERT_TRUE(Import("a", items).ok());
  const auto turns = Turns("a");
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_TRUE(turns[1].incomplete);
  EXPECT_TRUE(turns[1].answer.empty());
  EXPECT_TRUE(stack->Ask("a", "go on")->ok());
}

TEST_F(ImportTest, TheSystemItemIsTheSessions) {
  auto items = Pairs(1);
  items.insert(items.begin(), {{"system", "be brief", ""}, 0, ""});
  ASSERT_TRUE(Import("a", items).ok());
  EXPECT_TRUE(Import("a", items).ok());
  items[0].message.content = "be long";
  const auto refused = Import("a", items);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field(), "items[0]");
  EXPECT_EQ(Turns("a").size(), 2u);
}

// Such a session could never run a turn.
TEST_F(ImportTest, ASystemItemThatLeavesNoRoomIsRefusedWithTheNumbers) {
  auto items = Pairs(1);
  items.insert(items.begin(), {{"system", std::string(300, 's'), ""}, 0, ""});
  const auto refused = Import("a", items);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_EQ(refused.error().field(), "items[0]");
  EXPECT_NE(refused.error().message().find("at most 200, 40 % of the window of 500"),
            std::string::npos)
      << refused.error().message();
  EXPECT_FALSE(disk.log.FindSession(Key("a")).ok());
}

TEST_F(ImportTest, ItemsThatCannotStandThereAreNamedAndNothingIsStored) {
  auto two_answers = Pairs(1);
  two_answers.push_back({{"assistant", "again", ""}, 0, ""});
  auto late_system = Pairs(1);
  late_system.push_back({{"system", "late", ""}, 0, ""});
  auto tool = Pairs(1);
  tool.push_back({{"tool", "x", ""}, 0, ""});
  for (const auto& items : {two_answers, late_system, tool}) {
    const auto refused = Import("a", items);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Code::kInvalid);
    EXPECT_EQ(refused.error().field(), "items[2]");
  }
  EXPECT_FALSE(Import("a", {}).ok());
  EXPECT_FALSE(disk.log.FindSession(Key("a")).ok());
}

TEST_F(ImportTest, ARunningTurnIsNotDisturbed) {
  const auto turn = stack->Submit(TestStack::Chat("a", "one"));
  std::optional<Result<ImportOutcome>> result;
  stack->core.Post([&] {
    stack->manager.Import(Key("a"), Pairs(1),
                          [&](Result<ImportOutcome> outcome) { result = std::move(outcome); });
  });
  stack->Settle();
  ASSERT_TRUE(turn->ok());
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->error().code(), Code::kConflict);
}

TEST_F(ImportTest, AFailingWriteIsToldAndTheSessionGoesOn) {
  ASSERT_TRUE(stack->Ask("a", "one")->ok());
  disk.log.FailWrite({.at_write = 1, .code = Code::kExhausted});
  EXPECT_FALSE(Import("a", Pairs(2)).ok());
  EXPECT_EQ((**stack->Ask("a", "two")).window_turns, 2);
}

}  // namespace
}  // namespace tenuto
