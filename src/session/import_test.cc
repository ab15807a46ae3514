#include "session/import.h"

#include <gtest/gtest.h>

#include "session/testing.h"
#include "session/tool_text.h"

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
  Result<ImportOutcome> Import(const std::string& session, std::vector<ImportItem> items,
                               const ImportKey& once = {}) {
    std::optional<Result<ImportOutcome>> result;
    stack->OnCore([&] {
      stack->manager.Import(
          Key(session), std::move(items),
          [&](Result<ImportOutcome> outcome) { result = std::move(outcome); }, once);
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

// Half past two in the night of the 10th in Japan is still the 9th in Greenwich: "yesterday" is the
// speaker's.
// More than two slices of tokenizing, with a last one that is not full.
TEST_F(ImportTest, ManyTurnsKeepTheirOrderAndTheirOwnTokens) {
  const auto outcome = Import("a", Pairs(300));
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_EQ(outcome->turns, 300u);
  const auto turns = Turns("a");
  ASSERT_EQ(turns.size(), 300u);
  const auto text_of = [](const std::vector<TokenId>& tokens) {
    std::string text;
    for (const TokenId token : tokens)
      if (token < 256) text += static_cast<char>(token);
    return text;
  };
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string n = std::to_string(i);
    EXPECT_NE(text_of(turns[i].prompt).find("topic question " + n + "\n"), std::string::npos) << i;
    EXPECT_EQ(text_of(turns[i].answer), "topic answer " + n);
  }
}

TEST_F(ImportTest, YesterdayIsTheSpeakers) {
  const int64_t unix_ms = 1'715'275'800'000;  // 2024-05-09T17:30:00Z
  const auto night = [&](std::optional<int32_t> zone_s) {
    std::vector<ImportItem> items = Pairs(3);
    items.push_back({{"user", "Yesterday I planted a magnolia.", ""}, unix_ms, "m", zone_s});
    items.push_back({{"assistant", "It will bloom.", ""}, 0, ""});
    return items;
  };
  const auto day_of = [&](const std::string& session) {
    std::string terms;
    std::optional<Result<MemoryAnswer>> found;
    for (const char* day : {"2024-05-08", "2024-05-09"}) {
      MemorySearch wanted;
      wanted.session = Key(session);
      wanted.query = "What did I plant on " + std::string(day) + "?";
      stack->OnCore([&] {
        stack->manager.Search(std::move(wanted),
                              [&](Result<MemoryAnswer> result) { found = std::move(result); });
      });
      EXPECT_TRUE(found->ok());
      if (!found->ok() || found->value().hits.empty()) continue;
      EXPECT_EQ(found->value().hits.front().client_id, "m");
      for (const std::string& term : found->value().hits.front().terms)
        if (term.find(day) != std::string::npos) terms += term;
    }
    return terms;
  };
  ASSERT_TRUE(Import("tokyo", night(9 * 3600)).ok());
  EXPECT_NE(Turns("tokyo").back().items_json.find("\"zone\":\"+09:00\""), std::string::npos);
  EXPECT_EQ(day_of("tokyo"), "2024-05-09");
  ASSERT_TRUE(Import("greenwich", night(std::nullopt)).ok());
  EXPECT_EQ(Turns("greenwich").back().items_json.find("zone"), std::string::npos);
  EXPECT_EQ(day_of("greenwich"), "2024-05-082024-05-09");  // the day before, and its own

  // A session that says where it is, for items that do not.
  ASSERT_TRUE(Import("set", Pairs(1)).ok());
  SettingsPatch patch;
  patch.timezone = "Asia/Tokyo";
  stack->OnCore([&] { stack->manager.ChangeSettings(Key("set"), patch, [](const auto&) {}); });
  ASSERT_TRUE(Import("set", night(std::nullopt)).ok());
  EXPECT_EQ(day_of("set"), "2024-05-09");
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

std::vector<ImportItem> WithATool() {
  const std::vector<ToolCall> calls = {{"c1", "weather", R"({"city":"Uppsala"})"}};
  std::vector<ImportItem> items = {{{"user", "What is it like in Uppsala?", ""}, 0, "m0"},
                                   {{"assistant", "", ""}, 0, "m1"},
                                   {{"tool", "drizzle from the northwest", ""}, 0, "m2"},
                                   {{"assistant", "It drizzles.", ""}, 0, "m3"}};
  items[1].message.tool_calls = ToolCallsToJson(calls);
  items[2].message.tool_call_id = "c1";
  return items;
}

// A call, its result and the answer to it are one turn: what is cut or quoted whole.
TEST_F(ImportTest, AToolCallIsOfTheTurnItBelongsTo) {
  auto items = WithATool();
  const auto pairs = Pairs(1);
  items.insert(items.end(), pairs.begin(), pairs.end());
  ASSERT_TRUE(Import("a", items).ok());
  const auto turns = Turns("a");
  ASSERT_EQ(turns.size(), 2u);
  const auto stored = StoredItemsFromJson(turns[0].items_json).value();
  ASSERT_EQ(stored.size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(stored[i].message, items[i].message) << i;
  std::string prompt;
  for (const TokenId token : turns[0].prompt)
    prompt += stack->engine.TokenText(token, false);
  EXPECT_NE(prompt.find("[call weather {\"city\":\"Uppsala\"}]"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("[result of weather]\ndrizzle"), std::string::npos) << prompt;
  const ArchivedText text = ArchivedTextOf(turns[0].items_json).value();
  EXPECT_EQ(text.tool, "[call weather {\"city\":\"Uppsala\"}]\ndrizzle from the northwest");
  EXPECT_EQ(text.answer, "It drizzles.");
  EXPECT_TRUE(stack->Ask("a", "next")->ok());

  std::optional<Result<MemoryAnswer>> found;
  MemorySearch wanted;
  wanted.session = Key("a");
  wanted.query = "northwest";
  stack->OnCore([&] {
    stack->manager.Search(std::move(wanted),
                          [&](Result<MemoryAnswer> result) { found = std::move(result); });
  });
  ASSERT_TRUE(found->ok());
  ASSERT_FALSE(found->value().hits.empty());
  EXPECT_EQ(found->value().hits.front().turn, turns[0].id);
}

TEST_F(ImportTest, ACallThatNobodyAnsweredIsATurnWithoutAnAnswer) {
  auto items = WithATool();
  items.resize(3);
  const auto pairs = Pairs(1);
  items.insert(items.end(), pairs.begin(), pairs.end());
  ASSERT_TRUE(Import("a", items).ok());
  const auto turns = Turns("a");
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_TRUE(turns[0].incomplete);
  EXPECT_FALSE(turns[1].incomplete);
}

TEST_F(ImportTest, AResultNeedsItsCallInTheSameTurn) {
  auto other = WithATool();
  other[2].message.tool_call_id = "c2";
  auto twice = WithATool();
  twice.insert(twice.begin() + 2, twice[2]);
  auto late = WithATool();
  std::swap(late[2], late[3]);
  late.insert(late.begin() + 2, {{"user", "still there?", ""}, 0, ""});
  for (const auto& [items, at] :
       {std::pair(other, "items[2]"), std::pair(twice, "items[3]"), std::pair(late, "items[4]")}) {
    const auto refused = Import("a", items);
    ASSERT_FALSE(refused.ok()) << at;
    EXPECT_EQ(refused.error().field(), at) << refused.error().message();
  }
}

TEST_F(ImportTest, ASystemItemAloneIsRefused) {
  const auto refused = Import("a", {{{"system", "be brief", ""}, 0, ""}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
}

TEST_F(ImportTest, ARetryWithTheSameKeyAddsNothing) {
  const auto first = Import("a", Pairs(3), {"key", "d1"});
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_FALSE(first->replayed);
  stack = std::make_unique<TestStack>(disk);
  const auto again = Import("a", Pairs(3), {"key", "d1"});
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(again->turns, first->turns);
  EXPECT_EQ(again->tokens, first->tokens);
  EXPECT_EQ(Turns("a").size(), 3u);
  EXPECT_EQ(Import("a", Pairs(2), {"key", "d2"}).error().code(), Code::kConflict);
  ASSERT_TRUE(Import("a", Pairs(2), {"other", "d2"}).ok());
  EXPECT_EQ(Turns("a").size(), 5u);

  // A key stands for one request of a session, of whichever kind.
  TurnRequest request = TestStack::Chat("a", "hello");
  request.idempotency_key = "key";
  EXPECT_EQ(stack->Ask(request)->code(), Code::kConflict);
  request.idempotency_key = "turn";
  ASSERT_TRUE(stack->Ask(request)->ok());
  EXPECT_EQ(Import("a", Pairs(3), {"turn", "d1"}).error().code(), Code::kConflict);
}

TEST_F(ImportTest, ALineIsReadInPages) {
  ASSERT_TRUE(Import("a", Pairs(100)).ok());
  const auto turns = Turns("a");
  LineCursor at;
  std::vector<TurnRow> read;
  for (int pages = 0; pages < 20; ++pages) {
    std::optional<Result<LinePage>> page;
    stack->OnCore([&] {
      stack->manager.ReadLine(Key("a"), at, [&](Result<LinePage> got) { page = std::move(got); });
    });
    ASSERT_TRUE(page->ok()) << page->error().message();
    read.insert(read.end(), page->value().turns.begin(), page->value().turns.end());
    at = page->value().next;
    if (!page->value().more) break;
    EXPECT_TRUE(pages > 0 || Import("a", Pairs(1)).ok());  // of a later line
  }
  EXPECT_EQ(read, turns);
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
