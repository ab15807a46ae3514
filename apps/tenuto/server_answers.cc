#include "server_answers.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "human_text.h"
#include "serve/json/parse.h"
#include "serve/json/writer.h"

namespace tenuto {
namespace {

namespace json = boost::json;

const json::object& ObjectAt(const json::object& object, std::string_view name) {
  static const json::object kEmpty;
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? value->get_object() : kEmpty;
}

// Elements that are objects.
std::vector<const json::object*> ObjectsAt(const json::object& object, std::string_view name) {
  std::vector<const json::object*> found;
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_array()) return found;
  for (const json::value& element : value->get_array())
    if (element.is_object()) found.push_back(&element.get_object());
  return found;
}

std::string TextAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

double NumberAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code error;
  const double number = value->to_number<double>(error);
  return error ? 0 : number;
}

int64_t CountAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code error;
  const int64_t number = value->to_number<int64_t>(error);
  return error || number < 0 ? 0 : number;
}

bool TrueAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

TurnNote ReadNote(const json::object& event) {
  const json::object& tenuto = ObjectAt(event, "tenuto");
  const json::object& kv = ObjectAt(tenuto, "kv");
  const json::object& times = ObjectAt(tenuto, "timing_ms");
  TurnNote note;
  note.reused = CountAt(kv, "reused");
  note.restored = CountAt(kv, "restored");
  note.recomputed = CountAt(kv, "recomputed");
  for (const auto* reason : ObjectsAt(kv, "reasons"))
    note.reasons.emplace_back(TextAt(*reason, "code"), CountAt(*reason, "tokens"));
  const json::object& recall = ObjectAt(tenuto, "recall");
  note.recalled_tokens = CountAt(recall, "tokens");
  for (const auto* candidate : ObjectsAt(recall, "candidates"))
    note.recalled_turns += TrueAt(*candidate, "injected") ? 1 : 0;
  note.restore_ms = NumberAt(times, "restore");
  note.decode_ms = NumberAt(times, "decode");
  note.answer_tokens = CountAt(ObjectAt(event, "usage"), "completion_tokens");
  note.replayed = TrueAt(tenuto, "replayed");
  note.incomplete = TextAt(tenuto, "incomplete");
  return note;
}

RemoteSession ReadSession(const json::object& object) {
  RemoteSession session;
  session.name = TextAt(object, "id");
  session.turns = static_cast<uint64_t>(CountAt(object, "turns"));
  session.tokens = static_cast<uint64_t>(CountAt(object, "tokens"));
  const json::value* replayed = object.if_contains("replayed");
  session.replayed = replayed != nullptr && replayed->is_bool() && replayed->get_bool();
  return session;
}

// A list of sessions may be larger than a request.
Result<json::object> ParseAnswer(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return Error(Code::kCorrupt, "the server's answer is not JSON");
  return std::move(value.get_object());
}

std::string MillisText(double ms) {
  return ms < 10       ? fmt::format("{:.1f} ms", ms)
         : ms < 10'000 ? fmt::format("{:.0f} ms", ms)
                       : fmt::format("{:.1f} s", ms / 1000);
}

}  // namespace

std::string ChatRequestJson(const ChatOptions& options, const std::string& session,
                            std::string_view system, std::string_view message) {
  JsonWriter out;
  out.BeginObject().Field("session_id", session).Key("messages").BeginArray();
  if (!system.empty())
    out.BeginObject().Field("role", "system").Field("content", system).EndObject();
  out.BeginObject().Field("role", "user").Field("content", message).EndObject().EndArray();
  out.Field("stream", true)
      .Key("stream_options")
      .BeginObject()
      .Field("include_usage", true)
      .EndObject();
  if (options.max_tokens) out.Field("max_tokens", *options.max_tokens);
  if (options.temperature) out.Field("temperature", *options.temperature);
  if (options.seed) out.Field("seed", *options.seed);
  out.EndObject();
  return out.Take();
}

std::string NoteText(const TurnNote& note) {
  if (note.replayed) return "the stored answer of an earlier try";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const auto count = [](int64_t n) { return CountText(static_cast<uint64_t>(n)); };
  if (note.restored > 0)
    add("restored " + CountText(static_cast<uint64_t>(note.restored), "token") + " in " +
        MillisText(note.restore_ms));
  if (note.reused > 0)
    add("reused " + count(note.reused) +
        (text.empty() ? (note.reused == 1 ? " token" : " tokens") : ""));
  std::string computed = "computed " + count(note.recomputed);
  if (text.empty()) computed += note.recomputed == 1 ? " token" : " tokens";
  // What is new and the last token are always computed: that is no news.
  std::string news;
  for (const auto& [code, tokens] : note.reasons)
    if (code != "new" && code != "tail" && tokens > 0)
      news += (news.empty() ? "" : ", ") + count(tokens) + " " + code;
  add(computed + (news.empty() ? "" : " (" + news + ")"));
  if (note.recalled_tokens > 0)
    add("recalled " + CountText(static_cast<uint64_t>(note.recalled_turns), "turn") + " (" +
        CountText(static_cast<uint64_t>(note.recalled_tokens), "token") + ")");
  // One token has no rate: decoding begins after it.
  if (note.decode_ms > 0 && note.answer_tokens > 1)
    add(fmt::format("{:.1f} tok/s",
                    static_cast<double>(note.answer_tokens) * 1000 / note.decode_ms));
  if (!note.incomplete.empty()) add("incomplete: " + note.incomplete);
  return TerminalText(text);
}

Result<ChatEvent> ReadChatEvent(std::string_view data) {
  ChatEvent event;
  if (data == "[DONE]") {
    event.done = true;
    return event;
  }
  TENUTO_ASSIGN(const json::object object, ParseAnswer(data));
  if (object.contains("error")) {
    event.error = TextAt(ObjectAt(object, "error"), "message");
    if (event.error.empty()) event.error = "the server ended the answer with an error";
    return event;
  }
  for (const auto* choice : ObjectsAt(object, "choices")) {
    event.text += TextAt(ObjectAt(*choice, "delta"), "content");
    event.length = event.length || TextAt(*choice, "finish_reason") == "length";
  }
  if (object.contains("tenuto")) event.note = ReadNote(object);
  return event;
}

std::string ErrorSentence(const ClientResponse& response, bool key_sent) {
  if (response.status == 401 && key_sent)
    return "the server refused the key: is it the one of its --api-key?";
  if (response.status == 401) return "the server wants a key: set TENUTO_API_KEY or give --api-key";
  if (const auto body = ParseAnswer(response.body)) {
    const std::string message = TextAt(ObjectAt(*body, "error"), "message");
    if (!message.empty()) return TerminalText(message);
  }
  return "the server answered " + std::to_string(response.status);
}

bool IsErrorAnswer(const ClientResponse& response) {
  const auto body = ParseAnswer(response.body);
  return body && !TextAt(ObjectAt(*body, "error"), "message").empty();
}

Result<RemoteSession> ReadRemoteSession(std::string_view body) {
  TENUTO_ASSIGN(const json::object object, ParseAnswer(body));
  RemoteSession session = ReadSession(object);
  if (session.name.empty()) return Error(Code::kCorrupt, "the server's answer is no session");
  return session;
}

Result<std::vector<RemoteSession>> ReadRemoteSessions(std::string_view body) {
  TENUTO_ASSIGN(const json::object object, ParseAnswer(body));
  const json::value* data = object.if_contains("data");
  if (data == nullptr || !data->is_array())
    return Error(Code::kCorrupt, "the server's answer is no list of sessions");
  std::vector<RemoteSession> sessions;
  for (const auto* entry : ObjectsAt(object, "data"))
    sessions.push_back(ReadSession(*entry));
  return sessions;
}

}  // namespace tenuto
