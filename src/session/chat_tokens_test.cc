#include "session/chat_tokens.h"

#include <gtest/gtest.h>

#include "session/testing.h"

namespace tenuto {
namespace {

TEST(ChatTokenizer, TheSecondTurnOfAKindIsTheSameAsTheFirst) {
  TestDisk disk;
  TestStack stack(disk);
  ChatTokenizer used(stack.engine);
  for (const bool first : {true, false}) {
    for (const char* text : {"one", "another"}) {
      const std::vector<ChatMessage> items = {{"user", text, ""}};
      ChatTokenizer fresh(stack.engine);
      const auto expected = fresh.Turn(items, first);
      const auto tokens = used.Turn(items, first);
      ASSERT_TRUE(expected.ok() && tokens.ok());
      EXPECT_EQ(tokens->suffix, expected->suffix);
      EXPECT_EQ(tokens->close_tokens, expected->close_tokens);
      EXPECT_EQ(tokens->head, expected->head);
      EXPECT_EQ(tokens->text_at, expected->text_at);
    }
  }
}

// Clients may send any mixture of roles.
TEST(ChatTokenizer, ManyShapesOfTurnsAreAllRight) {
  TestDisk disk;
  TestStack stack(disk);
  ChatTokenizer used(stack.engine);
  std::vector<ChatMessage> items;
  for (int i = 0; i < 300; ++i) {
    items.push_back({i % 3 == 0 ? "system" : "user", "x", ""});
    const auto tokens = used.Turn(items, false);
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(tokens->suffix, ChatTokenizer(stack.engine).Turn(items, false)->suffix) << i;
  }
}

}  // namespace
}  // namespace tenuto
