#include "session_report.h"

#include "human_text.h"
#include "serve/answers/export.h"
#include "serve/answers/sessions.h"
#include "serve/json/writer.h"
#include "session/items.h"
#include "session/tool_text.h"

namespace tenuto {
namespace {

// Items of a turn as clients see them. Later turns may repeat the session's system message (never
// change it).
Result<std::vector<ChatMessage>> ItemsOf(const TurnRow& turn) {
  auto items = ItemsFromJson(turn.items_json);
  if (!items) return std::move(items).error().With("turn " + turn.id.value);
  std::vector<ChatMessage> all = std::move(items).value();
  if (!turn.parent.empty())
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(SystemItems(all).size()));
  return all;
}

// As /v1/sessions says it, less what only a running server knows.
void WriteSession(JsonWriter& json, const StoredSession& session) {
  WriteSessionFields(json, session.row);
  json.Key("kv").BeginObject().Field("stored_bytes", session.kv_bytes).EndObject();
}

void WriteItem(JsonWriter& json, const ChatMessage& item) {
  json.Field("role", item.role).Field("content", item.content);
  if (!item.name.empty()) json.Field("name", item.name);
  if (!item.tool_calls.empty()) json.Key("tool_calls").Raw(item.tool_calls);
  if (!item.tool_call_id.empty()) json.Field("tool_call_id", item.tool_call_id);
}

std::string Indented(const std::string& text, const std::string& indent) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += indent;
  }
  return out;
}

}  // namespace

std::string SessionsTable(const std::vector<StoredSession>& sessions, int64_t now_unix_ms) {
  const std::vector<TableColumn> columns = {{"SESSION"},
                                            {"TURNS", Align::kRight},
                                            {"TOKENS", Align::kRight},
                                            {"KV ON DISK", Align::kRight},
                                            {"LAST TURN"}};
  std::vector<std::vector<std::string>> rows;
  rows.reserve(sessions.size());
  for (const auto& session : sessions)
    rows.push_back({session.row.key.Short(), CountText(session.row.turns),
                    CountText(session.row.tokens), BytesText(session.kv_bytes),
                    AgeText(session.row.updated_unix_ms, now_unix_ms)});
  return TableText(columns, rows);
}

std::string SessionsJson(const std::vector<StoredSession>& sessions) {
  JsonWriter json;
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const auto& session : sessions) {
    json.BeginObject();
    WriteSession(json, session);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

Result<std::string> SessionText(const StoredSession& session, const std::vector<TurnRow>& turns,
                                int64_t now_unix_ms) {
  const SessionRow& row = session.row;
  std::string text = "session  " + row.key.Short() + "\n";
  text += "size     " + CountText(row.turns, "turn") + ", " + CountText(row.tokens, "token") +
          ", " + BytesText(session.kv_bytes) + " of KV on disk\n";
  text += "begun    " + TimeText(row.created_unix_ms) + "\n";
  text += "changed  " + TimeText(row.updated_unix_ms) + " (" +
          AgeText(row.updated_unix_ms, now_unix_ms) + ")\n";
  for (size_t i = 0; i < turns.size(); ++i) {
    const TurnRow& turn = turns[i];
    text += "\n#" + std::to_string(i + 1) + "  " + TimeText(turn.created_unix_ms) + "  " +
            turn.id.value + "  ";
    if (turn.deleted) {
      text += "deleted\n";
      continue;
    }
    text += CountText(turn.prompt.size()) + " + " + CountText(turn.answer.size(), "token") + ", " +
            turn.finish_reason + (turn.incomplete ? ", incomplete" : "") + "\n";
    TENUTO_ASSIGN(const auto items, ItemsOf(turn));
    for (const auto& item : items) {
      const std::string who = item.name.empty() ? item.role : item.role + " (" + item.name + ")";
      std::string said = item.content;
      if (const auto calls = ToolCallsFromJson(item.tool_calls); !calls.empty())
        said += (said.empty() ? "" : "\n") + ToolCallsText(calls);
      text += "  " + TerminalText(who) + ": " + Indented(TerminalText(said), "    ") + "\n";
    }
  }
  return text;
}

Result<std::string> SessionJson(const StoredSession& session, const std::vector<TurnRow>& turns) {
  JsonWriter json;
  json.BeginObject();
  WriteSession(json, session);
  json.Key("data").BeginArray();
  for (const TurnRow& turn : turns) {
    json.BeginObject().Field("id", turn.id.value).Field("object", "turn");
    WriteTurnId(json, "parent", turn.parent);
    if (turn.deleted) json.Field("deleted", true);
    json.Field("finish_reason", turn.finish_reason).Field("incomplete", turn.incomplete);
    json.Field("prompt_tokens", uint64_t{turn.prompt.size()});
    json.Field("completion_tokens", uint64_t{turn.answer.size()});
    json.Field("created_at", turn.created_unix_ms / 1000)
        .Field("completed_at", turn.completed_unix_ms / 1000);
    json.Key("items").BeginArray();
    TENUTO_ASSIGN(const auto items, ItemsOf(turn));
    for (const auto& item : items) {
      json.BeginObject();
      WriteItem(json, item);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

Result<std::string> ExportLines(const std::vector<TurnRow>& turns) {
  std::string lines;
  for (const TurnRow& turn : turns)
    TENUTO_TRY(AppendExport(lines, turn));
  return lines;
}

}  // namespace tenuto
