#include "server_answers.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

TEST(ServerAnswersTest, RequestHoldsWhatWasAskedForAndNoMore) {
  ChatOptions options;
  EXPECT_EQ(ChatRequestJson(options, "chat", "", "Say \"hi\"\n"),
            R"({"session_id":"chat","messages":[{"role":"user","content":"Say \"hi\"\n"}],)"
            R"("stream":true,"stream_options":{"include_usage":true}})");
  options.max_tokens = 5;
  options.temperature = 0.0;
  options.seed = 18446744073709551615ULL;
  const std::string full = ChatRequestJson(options, "a::b", "Be terse.", "x");
  EXPECT_NE(full.find(R"([{"role":"system","content":"Be terse."},{"role":"user","content":"x"}])"),
            std::string::npos)
      << full;
  EXPECT_NE(full.find(R"("max_tokens":5)"), std::string::npos) << full;
  EXPECT_NE(full.find(R"("temperature":0)"), std::string::npos) << full;
  EXPECT_NE(full.find(R"("seed":18446744073709551615)"), std::string::npos) << full;
}

TEST(ServerAnswersTest, EventsOfAStream) {
  const auto text =
      ReadChatEvent(R"({"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]})");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->text, "Hel");
  EXPECT_FALSE(text->note.has_value());
  EXPECT_FALSE(text->length);
  const auto last = ReadChatEvent(R"({"choices":[{"delta":{},"finish_reason":"length"}]})");
  EXPECT_TRUE(last->length);
  EXPECT_TRUE(ReadChatEvent("[DONE]")->done);
  const auto note =
      ReadChatEvent(R"({"choices":[],"usage":{"completion_tokens":64},"tenuto":{"session":"chat",)"
                    R"("kv":{"reused":1,"restored":1204,"recomputed":23,)"
                    R"("reasons":[{"code":"tail","tokens":1,"detail":""}]},)"
                    R"("recall":{"decision":"injected","tokens":75,"candidates":[)"
                    R"({"turn":"A","injected":true},{"turn":"B","injected":false}]},)"
                    R"("timing_ms":{"restore":41.4,"decode":5000}}})");
  ASSERT_TRUE(note.ok() && note->note.has_value());
  EXPECT_EQ(note->note->reused, 1);
  EXPECT_EQ(note->note->restored, 1204);
  EXPECT_EQ(note->note->recomputed, 23);
  EXPECT_EQ(note->note->answer_tokens, 64);
  EXPECT_EQ(NoteText(*note->note),
            "restored 1,204 tokens in 41 ms, reused 1, computed 23, recalled 1 turn (75 tokens), "
            "12.8 tok/s");
  EXPECT_EQ(ReadChatEvent(R"({"error":{"message":"the model fell over"}})")->error,
            "the model fell over");
  EXPECT_NE(ReadChatEvent(R"({"error":null})")->error, "");
}

TEST(ServerAnswersTest, NotesSayWhatHappened) {
  TurnNote note;
  note.recomputed = 31;
  EXPECT_EQ(NoteText(note), "computed 31 tokens");
  note.recomputed = 1;
  EXPECT_EQ(NoteText(note), "computed 1 token");
  note.reused = 900;
  note.recomputed = 12;
  EXPECT_EQ(NoteText(note), "reused 900 tokens, computed 12");
  note.reused = 0;
  note.restored = 1;
  note.restore_ms = 0.53;
  note.decode_ms = 100;
  note.answer_tokens = 1;
  EXPECT_EQ(NoteText(note), "restored 1 token in 0.5 ms, computed 12");
  note.reasons = {{"new", 11}, {"tail", 1}, {"corrupt", 800}, {"fingerprint", 1200}};
  note.recomputed = 2012;
  EXPECT_EQ(NoteText(note),
            "restored 1 token in 0.5 ms, computed 2,012 (800 corrupt, 1,200 fingerprint)");
  note.restore_ms = 61'234;
  note.incomplete = "shutdown";
  EXPECT_NE(NoteText(note).find("in 61.2 s"), std::string::npos) << NoteText(note);
  EXPECT_NE(NoteText(note).find("incomplete: shutdown"), std::string::npos);
  note.replayed = true;
  EXPECT_EQ(NoteText(note), "the stored answer of an earlier try");
}

TEST(ServerAnswersTest, WrongTypesCountAsAbsent) {
  for (const char* text :
       {R"({})", R"({"choices":7})", R"({"choices":[7,null,{"delta":[]}]})",
        R"({"choices":[{"delta":{"content":5}}]})", R"({"choices":{"delta":1}})"}) {
    const auto event = ReadChatEvent(text);
    ASSERT_TRUE(event.ok()) << text;
    EXPECT_EQ(event->text, "") << text;
  }
  const auto note = ReadChatEvent(
      R"({"tenuto":{"kv":{"reused":-5,"restored":1e300,"recomputed":"x","reasons":[1]},)"
      R"("timing_ms":[]},"usage":null})");
  ASSERT_TRUE(note.ok() && note->note.has_value());
  EXPECT_EQ(note->note->reused, 0);
  EXPECT_EQ(note->note->restored, 0);
  EXPECT_EQ(NoteText(*note->note), "computed 0 tokens");
  for (const char* text : {"", "x", "[]", "7", "{\"a\":", "\xff"})
    EXPECT_FALSE(ReadChatEvent(text).ok()) << text;
  EXPECT_FALSE(ReadChatEvent(std::string(100000, '[')).ok());
}

TEST(ServerAnswersTest, ErrorsBecomeSentences) {
  ClientResponse response;
  response.status = 400;
  response.body =
      R"({"error":{"message":"'x' is\u001b[31m wrong","type":"invalid_request_error"}})";
  EXPECT_EQ(ErrorSentence(response), "'x' is [31m wrong");
  response.body = "<html>";
  EXPECT_EQ(ErrorSentence(response), "the server answered 400");
  response.status = 401;
  EXPECT_NE(ErrorSentence(response).find("TENUTO_API_KEY"), std::string::npos);
  EXPECT_NE(ErrorSentence(response, /*key_sent=*/true).find("refused the key"), std::string::npos);
  EXPECT_FALSE(IsErrorAnswer(response));
  response.body = R"({"error":{"message":"no"}})";
  EXPECT_TRUE(IsErrorAnswer(response));
}

TEST(ServerAnswersTest, Sessions) {
  const auto one =
      ReadRemoteSession(R"({"id":"alice::x","object":"session","turns":12,"tokens":1204})");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->name, "alice::x");
  EXPECT_EQ(one->turns, 12U);
  EXPECT_EQ(one->tokens, 1204U);
  const auto list =
      ReadRemoteSessions(R"({"data":[{"id":"a","turns":1,"tokens":2},7,{"id":"b"}]})");
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ((*list)[1].name, "b");
  EXPECT_FALSE(ReadRemoteSession("x").ok());
  EXPECT_FALSE(ReadRemoteSessions("[]").ok());
  EXPECT_FALSE(ReadRemoteSessions("{}").ok());
  EXPECT_FALSE(ReadRemoteSession("{}").ok());
}

}  // namespace
}  // namespace tenuto
