#include "serve/answers/export.h"

#include <gtest/gtest.h>

#include "serve/requests/import.h"
#include "session/items.h"

namespace tenuto {
namespace {

constexpr int64_t kNight = 1'715'275'800'000;  // 2024-05-09T17:30:00Z

TEST(WallTimeText, HasMillisecondsAndTakesTimesBefore1970) {
  EXPECT_EQ(WallTimeText(1'700'000'000'123), "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(WallTimeText(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(WallTimeText(-1), "1969-12-31T23:59:59.999Z");
  EXPECT_EQ(WallTimeText(kNight, 9 * 3600), "2024-05-10T02:30:00.000+09:00");
  EXPECT_EQ(WallTimeText(kNight, -12600), "2024-05-09T14:00:00.000-03:30");
}

// What was imported comes out as it went in.
TEST(Export, IsWhatAnImportTakes) {
  const std::string given =
      R"({"role":"user","content":"And in Uppsala?","name":"Ann",)"
      R"("time":"2024-05-10T02:30:00.000+09:00","id":"m0"})"
      "\n"
      R"({"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"weather","arguments":"{\"city\":\"Uppsala\"}"}}],)"
      R"("time":"2024-05-10T02:30:00.000+09:00","id":"m1"})"
      "\n"
      R"({"role":"tool","content":"drizzle","tool_call_id":"c1",)"
      R"("time":"2024-05-10T02:30:00.000+09:00","id":"m2"})"
      "\n"
      R"({"role":"assistant","content":"It drizzles.","time":"2024-05-10T02:30:05.000+09:00",)"
      R"("id":"m3"})"
      "\n";
  const auto items = ParseImportBody(given);
  ASSERT_TRUE(items.ok()) << items.error().message();
  std::vector<StoredItem> stored;
  for (const ImportItem& item : *items)
    stored.push_back({item.message, item.client_id, item.zone_s.value_or(0)});
  TurnRow turn;
  turn.id.value = "t1";
  turn.parent.value = "t0";
  turn.items_json = StoredItemsJson(stored);
  turn.created_unix_ms = kNight;
  turn.completed_unix_ms = kNight + 5000;
  std::string lines;
  ASSERT_TRUE(AppendExport(lines, turn));
  EXPECT_EQ(lines, given);
}

TEST(Export, WhoHasNoNameGetsTheTurns) {
  TurnRow turn;
  turn.id.value = "t1";
  turn.parent.value = "t0";
  turn.items_json = R"([{"role":"system","content":"s"},{"role":"user","content":"u"},)"
                    R"({"role":"assistant","content":"a"}])";
  std::string lines;
  ASSERT_TRUE(AppendExport(lines, turn));
  EXPECT_EQ(lines.find("system"), std::string::npos);
  EXPECT_NE(lines.find(R"("id":"t1.0")"), std::string::npos);
  EXPECT_NE(lines.find(R"("id":"t1.1")"), std::string::npos);
  turn.items_json = "[{";
  EXPECT_EQ(AppendExport(lines, turn).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace tenuto
