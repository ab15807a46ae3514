#include "chat.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/ids.h"
#include "base/result.h"
#include "human_text.h"
#include "interrupt.h"
#include "serve/http/client.h"
#include "server_answers.h"

namespace tenuto {
namespace {

constexpr int kListedSessions = 100;
constexpr size_t kNamedSessions = 5;  // beside a new one
constexpr const char* kClearLine = "\r\033[K";

constexpr const char* kHelp =
    "  /new NAME    begin or go on with session NAME\n"
    "  /sessions    list the sessions of this server\n"
    "  /help        this\n"
    "  /quit        leave (so do /exit and Ctrl-D)\n"
    "Ctrl-C stops an answer; what came so far is kept. A line that ends with \\ goes on in the "
    "next one.\n";

class Chat {
 public:
  Chat(const ChatOptions& options, const ChatStreams& streams, HttpClient client,
       Interrupts* interrupts)
      : options_(options),
        streams_(streams),
        client_(std::move(client)),
        interrupts_(interrupts),
        reader_(streams.input, interrupts) {}

  int Run() {
    if (!Enter(options_.session)) return 1;
    if (streams_.interactive) Note("/help lists commands; Ctrl-D leaves");
    std::string line;
    for (;;) {
      switch (ReadMessage(line)) {
        case LineReader::Event::kEnd:
          if (streams_.interactive) streams_.note << "\n";
          return 0;
        case LineReader::Event::kInterrupt:
          streams_.note << "\n";
          Note("Ctrl-D or /quit leaves");
          continue;
        case LineReader::Event::kLine:
          break;
      }
      if (line.find_first_not_of(" \t") == std::string::npos) continue;
      if (line == "/quit" || line == "/exit") return 0;
      const bool good = line.front() == '/' ? Command(line) : Turn(line);
      // A person can go on after an error; a script must see it.
      if (!good && !streams_.interactive) return 1;
    }
  }

 private:
  std::string Dim(const std::string& text) const {
    return streams_.colours ? "\033[2m" + text + "\033[0m" : text;
  }
  void Note(const std::string& text) { streams_.note << Dim(text) << std::endl; }
  bool Fail(const std::string& text) {
    streams_.note << "tenuto: " << text << std::endl;
    return false;
  }

  Result<ClientResponse> Get(std::string target) {
    ClientRequest request;
    request.target = std::move(target);
    return client_.Request(request);
  }

  LineReader::Event ReadMessage(std::string& message) {
    message.clear();
    std::string line;
    const char* prompt = "> ";
    for (;;) {
      if (streams_.interactive) streams_.note << prompt << std::flush;
      const auto event = reader_.Read(line);
      if (event != LineReader::Event::kLine) return event;
      if (!streams_.interactive || line.empty() || line.back() != '\\') {
        message += line;
        return event;
      }
      line.back() = '\n';
      message += line;
      prompt = "  ";
    }
  }

  bool NoServer(const Error& error) {
    if (error.code() == Code::kCorrupt) return NotOurs(error.message());
    return Fail(
        error.message() +
        "\nStart a server with:  tenuto serve -m model.gguf\nor name another one:  tenuto chat "
        "--url URL");
  }

  bool NotOurs(const std::string& why) {
    return Fail(TerminalText(options_.url) + " is not a tenuto server (" + why +
                "); --url names another");
  }

  bool Refused(const ClientResponse& response) {
    return Fail(ErrorSentence(response, !options_.api_key.empty()));
  }

  // Makes `name` the session of the turns that follow, and says what is there.
  bool Enter(const std::string& name) {
    const auto key = ParseSessionKey(name);
    if (!key)
      return Fail("'" + TerminalText(name) + "' is no session's name: " + key.error().message());
    const auto response = Get("/v1/sessions/" + key->Full());
    if (!response) return NoServer(response.error());
    if (response->status == 404) return EnterNew(*key);
    if (response->status != 200) {
      return IsErrorAnswer(*response) ? Refused(*response)
                                      : NotOurs("it answered " + std::to_string(response->status));
    }
    const auto session = ReadRemoteSession(response->body);
    if (!session) return NotOurs(session.error().message());
    session_ = key->Short();
    begun_ = session->turns > 0;
    Note("session " + session_ + ": " + CountText(session->turns, "turn") + ", " +
         CountText(session->tokens, "token"));
    if (begun_ && !options_.system.empty())
      Note("--system is for new sessions; this one keeps the one it has");
    return true;
  }

  // A name that is new may be a slip of the hand, and a 404 another program's: the list of what is
  // there tells both.
  bool EnterNew(const SessionKey& key) {
    const auto response = Get("/v1/sessions?limit=" + std::to_string(kNamedSessions + 1));
    if (!response) return NoServer(response.error());
    if (response->status != 200)
      return NotOurs("it has no list of sessions, and answered " +
                     std::to_string(response->status));
    const auto sessions = ReadRemoteSessions(response->body);
    if (!sessions) return NotOurs(sessions.error().message());
    session_ = key.Short();
    begun_ = false;
    std::string names;
    for (size_t i = 0; i < sessions->size(); ++i) {
      names += i == 0 ? " (existing: " : ", ";
      names += i < kNamedSessions ? TerminalText((*sessions)[i].name) : "...";
      if (i == kNamedSessions) break;
    }
    Note("new session " + session_ + names + (names.empty() ? "" : ")"));
    return true;
  }

  bool Command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const size_t start = line.find_first_not_of(' ', space);
    std::string argument = start == std::string::npos ? "" : line.substr(start);
    while (!argument.empty() && argument.back() == ' ')
      argument.pop_back();
    if (name == "/help") {
      streams_.note << kHelp << std::flush;
      return true;
    }
    if (name == "/sessions") return ListSessions();
    if (name == "/new") return argument.empty() ? Fail("/new needs a name") : Enter(argument);
    return Fail("there is no command " + TerminalText(name) + "; /help lists them");
  }

  bool ListSessions() {
    const auto response = Get("/v1/sessions?limit=" + std::to_string(kListedSessions));
    if (!response) return NoServer(response.error());
    if (response->status != 200) return Refused(*response);
    const auto sessions = ReadRemoteSessions(response->body);
    if (!sessions) return Fail(sessions.error().message());
    if (sessions->empty()) Note("no sessions yet");
    std::vector<std::vector<std::string>> rows;
    for (const auto& session : *sessions)
      rows.push_back(
          {TerminalText(session.name), CountText(session.turns), CountText(session.tokens)});
    if (!rows.empty())
      streams_.note << TableText({{"SESSION"}, {"TURNS", Align::kRight}, {"TOKENS", Align::kRight}},
                                 rows)
                    << std::flush;
    return true;
  }

  // What one answer has brought so far.
  struct Answer {
    bool any_text = false;
    bool progress_shown = false;
    bool line_open = false;  // the last thing printed was no line's end
    bool done = false;
    bool length = false;
    std::string error;
    std::optional<TurnNote> note;
  };

  // Keep-alive comments tell how far a long prompt has been read.
  void TakeComment(std::string_view comment, Answer& answer) {
    const size_t progress = comment.find("prefill ");
    if (!streams_.colours || answer.any_text || progress == std::string_view::npos) return;
    streams_.out << kClearLine << Dim(TerminalText(comment.substr(progress))) << std::flush;
    answer.progress_shown = true;
  }

  void ClearProgress(Answer& answer) {
    if (answer.progress_shown) streams_.out << kClearLine << std::flush;
    answer.progress_shown = false;
  }

  bool TakeEvent(std::string_view data, Answer& answer) {
    const auto event = ReadChatEvent(data);
    if (!event) {
      answer.error = event.error().message();
      return false;
    }
    if (!event->text.empty()) {
      ClearProgress(answer);
      streams_.out << TerminalText(event->text) << std::flush;
      answer.any_text = true;
      answer.line_open = event->text.back() != '\n';
    }
    if (event->note) answer.note = event->note;
    answer.length = answer.length || event->length;
    answer.done = answer.done || event->done;
    answer.error = event->error;
    return answer.error.empty();
  }

  bool Turn(const std::string& message) {
    ClientRequest request;
    request.method = "POST";
    request.target = "/v1/chat/completions";
    request.body = ChatRequestJson(options_, session_, begun_ ? "" : options_.system, message);
    Answer answer;
    std::atomic<bool> interrupted{false};
    Result<ClientResponse> response = ClientResponse{};
    {
      if (interrupts_ != nullptr)
        interrupts_->Take();  // one that came too late for the last answer
      const OnInterrupt watch(interrupts_, [&] {
        interrupted = true;
        client_.Abort();
      });
      response = client_.Stream(
          request, [&](std::string_view data) { return !interrupted && TakeEvent(data, answer); },
          [&](std::string_view comment) { TakeComment(comment, answer); });
    }
    if (interrupts_ != nullptr) interrupts_->Take();
    ClearProgress(answer);
    if (answer.line_open || (answer.done && !answer.any_text)) streams_.out << std::endl;
    if (interrupted && !answer.done) {
      Note("stopped");
      return true;
    }
    return Judge(response, answer);
  }

  bool Judge(const Result<ClientResponse>& response, const Answer& answer) {
    if (!response && !answer.any_text) return NoServer(response.error());
    if (!response)
      return Fail("the answer broke off, its turn is not confirmed: " + response.error().message());
    if (response->status != 200) return Refused(*response);
    if (!answer.error.empty()) return Fail(TerminalText(answer.error));
    // Only the end mark says that the turn is stored.
    if (!answer.done) return Fail("the answer broke off, its turn is not confirmed");
    begun_ = true;
    std::string text = answer.note ? NoteText(*answer.note) : "";
    if (answer.length) text += (text.empty() ? "" : ", ") + std::string("cut at the length limit");
    if (!text.empty()) Note(text);
    return true;
  }

  const ChatOptions& options_;
  const ChatStreams& streams_;
  HttpClient client_;
  Interrupts* interrupts_;
  LineReader reader_;
  std::string session_;
  // It has a confirmed turn: its system prompt is settled. Until then the prompt is sent along; a
  // server that has stored it already accepts the same one again.
  bool begun_ = false;
};

// "127.0.0.1:8585" for "http://127.0.0.1:8585": what ends in a port can be nothing else.
std::string WithScheme(const std::string& url) {
  const size_t colon = url.rfind(':');
  const bool has_port = colon != std::string::npos && colon > 0 && colon + 1 < url.size() &&
                        url.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  const bool has_scheme = url.starts_with("unix:") || url.find("://") != std::string::npos;
  return has_port && !has_scheme ? "http://" + url : url;
}

}  // namespace

int RunChat(const ChatOptions& given, const ChatStreams& streams) {
  ChatOptions options = given;
  options.url = WithScheme(given.url);
  auto client = HttpClient::Open(options.url);
  if (!client) {
    streams.note << "tenuto: --url " << TerminalText(options.url) << ": "
                 << client.error().message() << "\n";
    return 1;
  }
  client->SetApiKey(options.api_key);
  std::unique_ptr<Interrupts> interrupts;
  if (streams.interactive) {
    // Without them Ctrl-C ends the program, as it does everywhere.
    if (auto opened = Interrupts::Open()) interrupts = std::move(opened).value();
  }
  return Chat(options, streams, std::move(client).value(), interrupts.get()).Run();
}

int RunChat(const ChatOptions& options) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const bool interactive = ::isatty(STDIN_FILENO) != 0 && terminal;
  // https://no-color.org; read before there are threads.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): see above.
  const bool colours = terminal && interactive && std::getenv("NO_COLOR") == nullptr;
  // At a terminal notes belong between the answers; elsewhere they must not get into the answers'
  // text.
  return RunChat(options, {.input = STDIN_FILENO,
                           .out = std::cout,
                           .note = terminal ? std::cout : std::cerr,
                           .interactive = interactive,
                           .colours = colours});
}

}  // namespace tenuto
