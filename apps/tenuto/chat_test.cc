#include "chat.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <sstream>

#include "canned_server.h"

namespace tenuto {
namespace {

const std::string kUnknown = CannedServer::Json(404, R"({"error":{"message":"no such session"}})");

std::string TextEvent(const std::string& text) {
  return R"({"choices":[{"delta":{"content":")" + text + R"("},"finish_reason":null}]})";
}
const std::string kNoteEvent = R"({"choices":[],"usage":{"completion_tokens":2},)"
                               R"("tenuto":{"kv":{"reused":0,"restored":1204,"recomputed":23},)"
                               R"("timing_ms":{"restore":41,"decode":100}}})";

// What a person or a script types, as a descriptor.
class Input {
 public:
  explicit Input(const std::string& text) {
    EXPECT_EQ(::pipe(ends_.data()), 0);
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends_[1]);
  }
  ~Input() { ::close(ends_[0]); }
  int descriptor() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
};

struct ChatRun {
  int status = -1;
  std::string out, note;
};

ChatRun Talk(const ChatOptions& options, const std::string& typed, bool interactive = false,
             bool colours = false) {
  const Input input(typed);
  std::ostringstream out, note;
  ChatRun run;
  run.status = RunChat(options, {input.descriptor(), out, note, interactive, colours});
  run.out = out.str();
  run.note = note.str();
  return run;
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kAskForNames = "GET /v1/sessions?limit=6 ";
const std::string kNoSessions = CannedServer::Json(200, R"({"object":"list","data":[]})");

// All but the looks at what is there before a new session is begun.
std::vector<CannedRequest> Requests(CannedServer& server) {
  std::vector<CannedRequest> requests;
  for (auto& request : server.requests())
    if (!Has(request.head, kAskForNames)) requests.push_back(request);
  return requests;
}

// The answer to any GET of a server without sessions.
std::string AnswerGet(const CannedRequest& request) {
  return Has(request.head, kAskForNames) ? kNoSessions : kUnknown;
}

ChatOptions At(const CannedServer& server) {
  ChatOptions options;
  options.url = server.url();
  return options;
}

std::string Answer(const CannedRequest& request) {
  if (Has(request.head, "GET ")) return AnswerGet(request);
  return CannedServer::Events({TextEvent("Hel"), TextEvent("lo."), kNoteEvent, "[DONE]"});
}

TEST(ChatTest, OneLineIsOneTurnAndTheAnswerAloneGoesToOutput) {
  CannedServer server(Answer);
  const ChatRun run = Talk(At(server), "Hi\n\nAgain");
  EXPECT_EQ(run.status, 0) << run.note;
  EXPECT_EQ(run.out, "Hello.\nHello.\n");
  EXPECT_TRUE(Has(run.note, "new session chat\n")) << run.note;
  EXPECT_TRUE(Has(run.note, "restored 1,204 tokens in 41 ms, computed 23, 20.0 tok/s\n"))
      << run.note;
  EXPECT_FALSE(Has(run.note, "\033")) << run.note;
  EXPECT_FALSE(Has(run.note, "> "));
  const auto requests = Requests(server);
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].Line(), "GET /v1/sessions/default::me::default::chat HTTP/1.1");
  EXPECT_EQ(requests[1].Line(), "POST /v1/chat/completions HTTP/1.1");
  EXPECT_TRUE(Has(requests[1].body, R"("content":"Hi")")) << requests[1].body;
  EXPECT_TRUE(Has(requests[2].body, R"("content":"Again")")) << requests[2].body;
}

TEST(ChatTest, TheSystemPromptGoesWithTheFirstTurnOnly) {
  CannedServer server(Answer);
  ChatOptions options = At(server);
  options.system = "Be terse.";
  EXPECT_EQ(Talk(options, "a\nb\n").status, 0);
  const auto requests = Requests(server);
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_TRUE(Has(requests[1].body, "Be terse."));
  EXPECT_FALSE(Has(requests[2].body, "Be terse."));
}

TEST(ChatTest, AnOldSessionIsShownAndKeepsItsSystemPrompt) {
  CannedServer server([](const CannedRequest& request) {
    if (Has(request.head, "GET /v1/sessions/"))
      return CannedServer::Json(200, R"({"id":"alice::x","turns":12,"tokens":1204})");
    return Answer(request);
  });
  ChatOptions options = At(server);
  options.session = "alice::x";
  options.system = "Be terse.";
  options.api_key = "k1";
  const ChatRun run = Talk(options, "a\n");
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(Has(run.note, "session alice::x: 12 turns, 1,204 tokens\n")) << run.note;
  const auto requests = Requests(server);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_FALSE(Has(requests[1].body, "Be terse."));
  EXPECT_TRUE(Has(requests[1].body, R"("session_id":"alice::x")")) << requests[1].body;
  EXPECT_TRUE(Has(requests[1].head, "Authorization: Bearer k1")) << requests[1].head;
}

TEST(ChatTest, NobodyThereIsExplained) {
  std::string url;
  {
    CannedServer gone(Answer);
    url = gone.url();
  }
  ChatOptions options;
  options.url = url;
  const ChatRun run = Talk(options, "a\n");
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(Has(run.note, "tenuto serve -m model.gguf")) << run.note;
  EXPECT_TRUE(Has(run.note, url.substr(url.rfind('/') + 1))) << run.note;
  options.url = "https://example.org";
  EXPECT_EQ(Talk(options, "a\n").status, 1);
  options.url = "nonsense";
  EXPECT_EQ(Talk(options, "a\n").status, 1);
}

TEST(ChatTest, AServerThatIsNotOursIsNotTrusted) {
  CannedServer html([](const CannedRequest&) {
    return std::string("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n<p>");
  });
  EXPECT_EQ(Talk(At(html), "a\n").status, 1);
  // Another program that knows no such path, in its own words or in OpenAI's.
  for (const char* body : {"<html>", R"({"error":{"message":"File Not Found"}})", "{}"}) {
    for (const int status : {200, 404, 405}) {
      if (status == 405 && body[0] == '{' && body[1] != '}') continue;  // shown as it is
      CannedServer other([&](const CannedRequest&) { return CannedServer::Json(status, body); });
      const ChatRun run = Talk(At(other), "a\n");
      EXPECT_EQ(run.status, 1);
      EXPECT_TRUE(Has(run.note, other.url() + " is not a tenuto server")) << run.note;
    }
  }
  CannedServer noise(
      [](const CannedRequest&) { return std::string("\x16\x03\x01 noise\r\n\r\n"); });
  EXPECT_EQ(Talk(At(noise), "a\n").status, 1);
  CannedServer silent([](const CannedRequest&) { return std::string(); });
  EXPECT_EQ(Talk(At(silent), "a\n").status, 1);
}

TEST(ChatTest, AWrongKeyIsExplained) {
  CannedServer server([](const CannedRequest&) {
    return CannedServer::Json(401, R"({"error":{"message":"no"}})");
  });
  const ChatRun run = Talk(At(server), "a\n");
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(Has(run.note, "TENUTO_API_KEY")) << run.note;
  ChatOptions options = At(server);
  options.api_key = "wrong";
  EXPECT_TRUE(Has(Talk(options, "a\n").note, "the server refused the key"));
}

TEST(ChatTest, ANewNameShowsTheOldOnes) {
  CannedServer server([](const CannedRequest& request) {
    if (Has(request.head, kAskForNames)) {
      return CannedServer::Json(200, R"({"data":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"d"},)"
                                     R"({"id":"e\u001b"},{"id":"f"}]})");
    }
    return Answer(request);
  });
  ChatOptions options = At(server);
  options.session = "tirp";
  const ChatRun run = Talk(options, "");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.note, "new session tirp (existing: a, b, c, d, e , ...)\n");
}

TEST(ChatTest, AnAddressWithAPortNeedsNoScheme) {
  CannedServer server(Answer);
  ChatOptions options = At(server);
  options.url = options.url.substr(std::string("http://").size());
  const ChatRun run = Talk(options, "a\n");
  EXPECT_EQ(run.status, 0) << run.note;
}

TEST(ChatTest, BadNamesAreRefusedBeforeAnythingIsSent) {
  CannedServer server(Answer);
  ChatOptions options = At(server);
  options.session = "../x";
  const ChatRun run = Talk(options, "a\n");
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(Has(run.note, "../x")) << run.note;
  EXPECT_TRUE(Requests(server).empty());
}

// An answer without its end mark was not acknowledged (INV-2), however much text came.
TEST(ChatTest, AnAnswerThatBreaksOffIsNoSuccess) {
  for (const auto& events : std::vector<std::vector<std::string>>{
           {TextEvent("Hel")},
           {TextEvent("Hel"), kNoteEvent},
           {TextEvent("Hel"), R"({"error":{"message":"disk full"}})"},
           {TextEvent("Hel"), "not json"}}) {
    CannedServer server([&](const CannedRequest& request) {
      return Has(request.head, "GET ") ? AnswerGet(request) : CannedServer::Events(events);
    });
    const ChatRun run = Talk(At(server), "a\nb\n");
    EXPECT_EQ(run.status, 1) << run.note;
    EXPECT_EQ(run.out, "Hel\n");
    EXPECT_TRUE(Has(run.note, "tenuto: ")) << run.note;
    EXPECT_EQ(Requests(server).size(), 2U);  // a script does not go on after it
  }
}

TEST(ChatTest, ARefusedTurnEndsAScriptButNotAPerson) {
  CannedServer server([](const CannedRequest& request) {
    if (Has(request.head, "GET ")) return AnswerGet(request);
    return CannedServer::Json(400, R"({"error":{"message":"the window is full"}})");
  });
  const ChatRun script = Talk(At(server), "a\nb\n");
  EXPECT_EQ(script.status, 1);
  EXPECT_TRUE(Has(script.note, "tenuto: the window is full")) << script.note;
  EXPECT_EQ(Requests(server).size(), 2U);
  const ChatRun person = Talk(At(server), "a\nb\n", true);
  EXPECT_EQ(person.status, 0);
  EXPECT_EQ(Requests(server).size(), 5U);
}

TEST(ChatTest, Commands) {
  CannedServer server([](const CannedRequest& request) {
    if (Has(request.head, "GET /v1/sessions?"))
      return CannedServer::Json(200, R"({"data":[{"id":"chat","turns":3,"tokens":1204}]})");
    return Answer(request);
  });
  const ChatRun run = Talk(
      At(server), "/help\n/sessions\n/new bob::y \n/new\n/nonsense\nhello\n/quit\nnever\n", true);
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(Has(run.note, "/new NAME")) << run.note;
  EXPECT_TRUE(Has(run.note, "/exit")) << run.note;
  EXPECT_TRUE(Has(run.note, "SESSION  TURNS  TOKENS\nchat         3   1,204\n")) << run.note;
  EXPECT_TRUE(Has(run.note, "new session bob::y (existing: chat)\n")) << run.note;
  EXPECT_TRUE(Has(run.note, "/new needs a name")) << run.note;
  EXPECT_TRUE(Has(run.note, "no command /nonsense")) << run.note;
  const auto requests = Requests(server);
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_TRUE(Has(requests[3].body, R"("session_id":"bob::y")")) << requests[3].body;
}

TEST(ChatTest, APersonCanWriteSeveralLines) {
  CannedServer server(Answer);
  EXPECT_EQ(Talk(At(server), "one\\\ntwo\n", true).status, 0);
  const auto requests = Requests(server);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_TRUE(Has(requests[1].body, R"("content":"one\ntwo")")) << requests[1].body;
}

TEST(ChatTest, AnswersCannotReachTheTerminal) {
  CannedServer server([](const CannedRequest& request) {
    if (Has(request.head, "GET ")) return AnswerGet(request);
    return CannedServer::Events({TextEvent("\\u001b[2Jx"), kNoteEvent, "[DONE]"});
  });
  EXPECT_EQ(Talk(At(server), "a\n").out, " [2Jx\n");
}

TEST(ChatTest, NotesAreDimWithColours) {
  CannedServer server(Answer);
  EXPECT_TRUE(Has(Talk(At(server), "a\n", true, true).note, "\033[2mrestored 1,204 tokens"))
      << "no dim note";
}

TEST(ChatTest, ALongPromptShowsItsProgressUntilTheAnswerBegins) {
  CannedServer server([](const CannedRequest& request) {
    if (Has(request.head, "GET ")) return AnswerGet(request);
    std::string answer = CannedServer::Events({TextEvent("Hello."), kNoteEvent, "[DONE]"});
    return answer.insert(answer.find("data: "),
                         ": keep-alive\n\n: keep-alive, prefill 512 of 1024 tokens\n\n");
  });
  const ChatRun person = Talk(At(server), "a\n", true, true);
  EXPECT_TRUE(Has(person.out, "\r\033[K\033[2mprefill 512 of 1024 tokens\033[0m\r\033[KHello.\n"))
      << person.out;
  EXPECT_EQ(Talk(At(server), "a\n").out, "Hello.\n") << "not where a script reads";
}

TEST(ChatTest, CtrlCStopsTheAnswerAndTheChatGoesOn) {
  std::atomic<int> turns{0};
  CannedServer server([&](const CannedRequest& request) {
    if (Has(request.head, "GET ")) return AnswerGet(request);
    if (++turns > 1) return Answer(request);
    // The person interrupts while the server is still thinking; it would think for ever.
    ::kill(::getpid(), SIGINT);
    return std::string("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n") +
           CannedServer::kHold + "\r\n: keep-alive, prefill 1 of 2 tokens\n\n";
  });
  const ChatRun run = Talk(At(server), "a\nb\n", true);
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(Has(run.note, "stopped")) << run.note;
  EXPECT_EQ(run.out, "Hello.\n");
  EXPECT_EQ(turns, 2);
}

}  // namespace
}  // namespace tenuto
