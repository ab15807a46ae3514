#include "serve/requests/import.h"

#include <gtest/gtest.h>

#include <string>

#include "session/tool_text.h"

namespace tenuto {
namespace {

TEST(ParseTime, FormsThatPeopleWrite) {
  EXPECT_EQ(ParseTime("1970-01-01"), 0);
  EXPECT_EQ(ParseTime("1970-01-02T00:00:01Z"), 86'401'000);
  EXPECT_EQ(ParseTime("2024-05-03T12:30:00+02:00"), ParseTime("2024-05-03T10:30:00Z"));
  EXPECT_EQ(ParseTime("2024-05-03 12:30"), ParseTime("2024-05-03T12:30:00Z"));
  EXPECT_EQ(*ParseTime("2024-05-03T12:30:00.250Z") - *ParseTime("2024-05-03T12:30:00Z"), 250);
  EXPECT_EQ(ParseTime("2024-05-03T12:30:00-0130"), ParseTime("2024-05-03T14:00:00Z"));
}

TEST(ParseTime, TheZoneIsGivenToo) {
  std::optional<int32_t> zone_s;
  EXPECT_TRUE(ParseTime("2024-05-10T02:30:00+09:00", &zone_s));
  EXPECT_EQ(zone_s, 9 * 3600);
  EXPECT_TRUE(ParseTime("2024-05-10T02:30:00-0330", &zone_s));
  EXPECT_EQ(zone_s, -(3 * 3600 + 30 * 60));
  for (const char* text : {"2024-05-10T02:30:00Z", "2024-05-10T02:30:00"}) {
    EXPECT_TRUE(ParseTime(text, &zone_s));
    EXPECT_EQ(zone_s, std::nullopt) << text;
  }
}

TEST(ParseTime, AnythingElseIsNone) {
  for (const char* text : {"", "2024", "2024-02-30", "2024-13-01", "2024-05-03T25:00Z",
                           "2024-05-03T12:60Z", "2024-05-03T12:30:00Zx", "2024-05-03T",
                           "2024-05-03T12:30:00.Z", "yesterday", "2024-05-03T12:30:00+99:00"})
    EXPECT_EQ(ParseTime(text), std::nullopt) << text;
}

TEST(ParseImportBody, OneItemALine) {
  const auto items = ParseImportBody(
      "{\"role\":\"user\",\"content\":\"hi\",\"name\":\"Ann\",\"id\":\"m-1\","
      "\"time\":\"2024-05-03\"}\n\n"
      "{\"role\":\"assistant\",\"content\":\"\",\"time\":1714694400}\r\n"
      "{\"role\":\"developer\",\"content\":\"x\"}");
  ASSERT_TRUE(items.ok()) << items.error().message();
  ASSERT_EQ(items->size(), 3u);
  EXPECT_EQ((*items)[0].message, (ChatMessage{"user", "hi", "Ann"}));
  EXPECT_EQ((*items)[0].client_id, "m-1");
  EXPECT_EQ((*items)[0].unix_ms, (*items)[1].unix_ms);
  EXPECT_EQ((*items)[2].message.role, "system");
  EXPECT_EQ((*items)[2].unix_ms, 0);
}

TEST(ParseImportBody, ToolCallsAndTheirResults) {
  const auto items = ParseImportBody(
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"a\":1}"}}]})"
      "\n"
      R"({"role":"tool","tool_call_id":"c1","content":"done","name":"f"})"
      "\n"
      R"({"role":"assistant","content":"x","tool_calls":[]})"
      "\n");
  ASSERT_TRUE(items.ok()) << items.error().message();
  const auto calls = ToolCallsFromJson((*items)[0].message.tool_calls);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].arguments, R"({"a":1})");
  EXPECT_EQ((*items)[0].message.content, "");
  EXPECT_EQ((*items)[1].message.tool_call_id, "c1");
  EXPECT_EQ((*items)[2].message.tool_calls, "");
}

struct Bad {
  const char* line;
  const char* at;
};

TEST(ParseImportBody, WhatIsWrongIsNamed) {
  const std::string good = "{\"role\":\"user\",\"content\":\"hi\"}\n";
  for (const Bad& bad :
       {Bad{"{", "items[1]"}, Bad{"[]", "items[1]"}, Bad{R"({"content":"x"})", "items[1].role"},
        Bad{R"({"role":"user","content":[]})", "items[1].content"},
        Bad{R"({"role":"user","content":"x","time":"soon"})", "items[1].time"},
        Bad{R"({"role":"user","content":"x","time":-5})", "items[1].time"},
        Bad{R"({"role":"user","content":"x","time":1e300})", "items[1].time"},
        Bad{R"({"role":"user","content":"x","mood":"x"})", "items[1].mood"},
        Bad{R"({"role":"assistant","content":null})", "items[1].content"},
        Bad{R"({"role":"tool","content":"x"})", "items[1].tool_call_id"},
        Bad{R"({"role":"user","content":"x","tool_call_id":"c"})", "items[1].tool_call_id"},
        Bad{R"({"role":"user","content":"x","tool_calls":[]})", "items[1].tool_calls"},
        Bad{R"({"role":"assistant","content":"","tool_calls":{}})", "items[1].tool_calls"},
        Bad{R"({"role":"assistant","content":"","tool_calls":[1]})", "items[1].tool_calls[0]"},
        Bad{R"({"role":"assistant","tool_calls":[{"id":"c","type":"x"}]})",
            "items[1].tool_calls[0].type"},
        Bad{R"({"role":"assistant","tool_calls":[{"type":"function","function":{}}]})",
            "items[1].tool_calls[0].id"},
        Bad{R"({"role":"assistant","tool_calls":[{"id":"c","type":"function","index":0}]})",
            "items[1].tool_calls[0].index"},
        Bad{R"({"role":"user","content":"x","name":7})", "items[1].name"}}) {
    const auto items = ParseImportBody(good + bad.line + "\n" + good);
    ASSERT_FALSE(items.ok()) << bad.line;
    EXPECT_EQ(items.error().code(), Code::kInvalid);
    EXPECT_EQ(items.error().field(), bad.at) << bad.line;
  }
}

TEST(ParseImportBody, WhatIsNoJsonIsSaidOnce) {
  const auto said = [](const char* line) { return ParseImportBody(line).error().message(); };
  EXPECT_EQ(said("hello").rfind("item 1: its line is no valid JSON: ", 0), 0u) << said("hello");
  EXPECT_EQ(said("[]"), "item 1: its line must be a JSON object");
}

TEST(ParseImportBody, TooManyAreRefused) {
  std::string body;
  for (size_t i = 0; i <= kImportItemsMax; ++i)
    body += "{\"role\":\"user\",\"content\":\"\"}\n";
  EXPECT_FALSE(ParseImportBody(body).ok());
}

}  // namespace
}  // namespace tenuto
