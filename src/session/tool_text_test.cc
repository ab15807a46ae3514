#include "session/tool_text.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

std::vector<ChatMessage> Weather() {
  const std::vector<ToolCall> calls = {{"c1", "weather", R"({"city":"Uppsala"})"},
                                       {"c2", "clock", "{}"}};
  ChatMessage asks{"assistant", "Let me look.", ""};
  asks.tool_calls = ToolCallsToJson(calls);
  ChatMessage first{"tool", "drizzle", ""};
  first.tool_call_id = "c1";
  ChatMessage second{"tool", "09:30", ""};
  second.tool_call_id = "c2";
  return {{"user", "What is it like in Uppsala?", ""}, asks, first, second};
}

TEST(ToolText, CallsThereAndBack) {
  const std::string text = Weather()[1].tool_calls;
  EXPECT_EQ(text.find(R"([{"id":"c1","type":"function","function":{"name":"weather",)"
                      R"("arguments":"{\"city\":\"Uppsala\"}"}},{"id":"c2",)"),
            0u)
      << text;
  const auto calls = ToolCallsFromJson(text);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].arguments, R"({"city":"Uppsala"})");
  EXPECT_EQ(ToolCallsToJson(calls), text);
  EXPECT_EQ(ToolCallsText(calls), "[call weather {\"city\":\"Uppsala\"}]\n[call clock {}]");
  for (const char* bad : {"", "{}", "[1]", "[{}]", R"([{"function":1}])", "["})
    EXPECT_TRUE(ToolCallsFromJson(bad).empty()) << bad;
}

// Roles alternate, and are those that every template knows.
TEST(ToolText, ATemplateSeesText) {
  const auto printed = WithToolsAsText(Weather());
  ASSERT_EQ(printed.size(), 3u);
  EXPECT_EQ(printed[0].content, "What is it like in Uppsala?");
  EXPECT_EQ(printed[1].role, "assistant");
  EXPECT_EQ(printed[1].content,
            "Let me look.\n[call weather {\"city\":\"Uppsala\"}]\n[call clock {}]");
  EXPECT_EQ(printed[2].role, "user");
  EXPECT_EQ(printed[2].content, "[result of weather]\ndrizzle\n[result of clock]\n09:30");
}

}  // namespace
}  // namespace tenuto
