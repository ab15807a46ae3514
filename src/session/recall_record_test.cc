#include "session/recall_record.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

RecallRecord Full() {
  RecallRecord record;
  record.spans_since = 7;
  record.front = {{2, {"P"}}};
  record.prompt_tokens = 900;
  record.mark = "0123abcd";
  record.at = 3;
  record.tokens = 40;
  record.digest = "00112233445566ff";
  record.quotes = {{{"A"}, 4, {0, 9}, {2, 2}, {1, 5}}};
  record.outcome.decision = "injected";
  record.outcome.tokens = 40;
  record.outcome.candidates = {{{"A"}, 2.5, {"cat", "name"}, true, "matches", 3},
                               {{"B"}, 1.25, {}, false, "chance"}};
  return record;
}

TEST(RecallRecord, ComesBackAsItWas) {
  const std::string json = RecordToJson(Full());
  const auto record = RecordFromJson(json);
  ASSERT_TRUE(record.ok()) << record.error().message();
  EXPECT_EQ(RecordToJson(*record), json);
  EXPECT_EQ(record->spans_since, 7u);
  EXPECT_EQ(record->prompt_tokens, 900u);
  ASSERT_EQ(record->front.size(), 1u);
  EXPECT_EQ(record->front[0].line, 2u);
  EXPECT_EQ(record->front[0].turn.value, "P");
  ASSERT_EQ(record->quotes.size(), 1u);
  EXPECT_EQ(record->quotes[0].user, (TextRange{0, 9}));
  EXPECT_EQ(record->quotes[0].tool, (TextRange{1, 5}));
  EXPECT_EQ(record->outcome.tokens, 40);
  ASSERT_EQ(record->outcome.candidates.size(), 2u);
  EXPECT_EQ(record->outcome.candidates[0].terms, (std::vector<std::string>{"cat", "name"}));
  EXPECT_TRUE(record->outcome.candidates[0].injected);
  EXPECT_EQ(record->outcome.candidates[0].newest_of, 3u);
  EXPECT_EQ(record->outcome.candidates[1].newest_of, 1u);
}

TEST(RecallRecord, NothingToSayIsNothing) {
  RecallRecord record;
  record.prompt_tokens = 100;
  EXPECT_EQ(RecordToJson(record), "");
  const auto empty = RecordFromJson("");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->spans_since, 1u);
  record.spans_since = 2;
  EXPECT_NE(RecordToJson(record), "");
}

TEST(RecallRecord, AnythingElseIsCorrupt) {
  for (
      const char* bad :
      {"{", "[]", "{}", R"({"v":2,"since":1})", R"({"v":1,"since":0})", R"({"v":1,"since":-1})",
       R"({"v":1,"since":"x"})", R"({"v":1,"since":1,"at":4294967296})",
       R"({"v":1,"since":1,"tokens":1e30})", R"({"v":1,"since":1,"quotes":[1]})",
       R"({"v":1,"since":1,"quotes":[{"turn":"A","line":0,"user":[0,1],"answer":[0,1]}]})",
       R"({"v":1,"since":1,"quotes":[{"turn":"A","line":1,"user":[2,1],"answer":[0,1]}]})",
       R"({"v":1,"since":1,"quotes":[{"turn":"","line":1,"user":[0,1],"answer":[0,1]}]})",
       R"({"v":1,"since":1,"quotes":[{"turn":"A","line":1,"user":[0],"answer":[0,1]}]})",
       R"({"v":1,"since":1,"quotes":[{"turn":"A","line":1,"user":[0,1],"answer":[0,1],"tool":1}]})",
       R"({"v":1,"since":1,"front":[1]})", R"({"v":1,"since":1,"candidates":["x"]})",
       R"({"v":1,"since":1,"candidates":[{"score":"x"}]})",
       R"({"v":1,"since":1,"candidates":[{"newest_of":0}]})"}) {
    const auto record = RecordFromJson(bad);
    ASSERT_FALSE(record.ok()) << bad;
    EXPECT_EQ(record.error().code(), Code::kCorrupt) << bad;
  }
  std::string many = R"({"v":1,"since":1,"quotes":[)";
  for (size_t i = 0; i <= kRecallQuotesMax; ++i)
    many += std::string(i > 0 ? "," : "") + R"({"turn":"A","line":1,"user":[0,1],"answer":[0,1]})";
  EXPECT_FALSE(RecordFromJson(many + "]}").ok());
}

}  // namespace
}  // namespace tenuto
