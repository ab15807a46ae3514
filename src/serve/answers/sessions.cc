#include "serve/answers/sessions.h"

#include <unordered_map>

namespace tenuto {
namespace {

// Stored JSON goes out as it is; a row without any has an empty string.
std::string_view OrElse(const std::string& json, std::string_view otherwise) {
  return json.empty() ? otherwise : std::string_view(json);
}

void WriteSession(JsonWriter& writer, const SessionInfo& session) {
  const SessionRow& row = session.row;
  writer.BeginObject();
  WriteSessionFields(writer, row);
  writer.Key("settings").Raw(OrElse(row.settings_json, "{}"));
  writer.Key("system").Raw(OrElse(row.system_json, "[]"));
  if (session.window) {
    writer.Key("window")
        .BeginObject()
        .Field("tokens", session.window->tokens)
        .Field("archived_turns", session.window->archived_turns)
        .EndObject();
  }
  writer.Key("kv")
      .BeginObject()
      .Field("live_tokens", session.live_tokens)
      .Field("stored_tokens", session.stored_tokens)
      .Field("stored_bytes", session.stored_bytes)
      .EndObject()
      .Field("running", session.running)
      .EndObject();
}

using MarksByTurn = std::unordered_map<std::string_view, const TurnMarks*>;

// Only what differs from a turn that nobody touched.
void WriteMarks(JsonWriter& writer, const TurnRow& turn, const MarksByTurn& all) {
  if (turn.deleted) writer.Field("deleted", true);
  const auto found = all.find(turn.id.value);
  if (found == all.end()) return;
  const TurnMarks& marks = *found->second;
  if (marks.pinned) writer.Field("pinned", true);
  if (marks.recall_off) writer.Field("recall", false);
  if (!marks.superseded_by.empty()) writer.Field("superseded_by", marks.superseded_by.value);
}

void WriteTurn(JsonWriter& writer, const TurnRow& turn, const MarksByTurn& marks) {
  writer.BeginObject().Field("id", turn.id.value).Field("object", "turn");
  WriteTurnId(writer, "parent", turn.parent);
  writer.Key("items").Raw(OrElse(turn.items_json, "[]"));
  writer.Key("params").Raw(OrElse(turn.params_json, "{}"));
  writer.Field("finish_reason", turn.finish_reason)
      .Field("incomplete", turn.incomplete)
      .Field("prompt_tokens", static_cast<uint64_t>(turn.prompt.size()))
      .Field("completion_tokens", static_cast<uint64_t>(turn.answer.size()))
      .Field("created_at", turn.created_unix_ms / 1000)
      .Field("completed_at", turn.completed_unix_ms / 1000);
  WriteMarks(writer, turn, marks);
  writer.EndObject();
}

}  // namespace

void WriteTurnId(JsonWriter& writer, std::string_view name, const TurnId& id) {
  writer.Key(name);
  if (id.empty()) {
    writer.Null();
  } else {
    writer.String(id.value);
  }
}

void WriteSessionFields(JsonWriter& writer, const SessionRow& row) {
  writer.Field("id", row.key.Short())
      .Field("object", "session")
      .Field("tenant", row.key.tenant)
      .Field("user", row.key.user)
      .Field("agent", row.key.agent)
      .Field("created_at", row.created_unix_ms / 1000)
      .Field("updated_at", row.updated_unix_ms / 1000)
      .Field("turns", row.turns)
      .Field("tokens", row.tokens);
  WriteTurnId(writer, "head", row.head);
}

std::string SessionBody(const SessionInfo& session) {
  JsonWriter writer;
  WriteSession(writer, session);
  return writer.Take();
}

std::string SessionListBody(const SessionListing& listing) {
  JsonWriter writer;
  writer.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const SessionInfo& session : listing.sessions)
    WriteSession(writer, session);
  writer.EndArray();
  const auto id_or_null = [&](std::string_view name, bool first) {
    writer.Key(name);
    if (listing.sessions.empty()) {
      writer.Null();
    } else {
      const SessionInfo& session = first ? listing.sessions.front() : listing.sessions.back();
      writer.String(session.row.key.Short());
    }
  };
  id_or_null("first_id", true);
  id_or_null("last_id", false);
  writer.Field("has_more", listing.more).EndObject();
  return writer.Take();
}

std::string TurnListBody(const TurnPage& page) {
  JsonWriter writer;
  writer.BeginObject().Field("object", "list").Key("data").BeginArray();
  MarksByTurn marks;
  for (const TurnMarks& of_one : page.marks)
    marks.emplace(of_one.turn.value, &of_one);
  for (const TurnRow& turn : page.turns)
    WriteTurn(writer, turn, marks);
  writer.EndArray();
  WriteTurnId(writer, "first_id", page.turns.empty() ? TurnId{} : page.turns.front().id);
  WriteTurnId(writer, "last_id", page.turns.empty() ? TurnId{} : page.turns.back().id);
  writer.Field("has_more", page.more).EndObject();
  return writer.Take();
}

std::string ImportBody(const ImportOutcome& outcome) {
  JsonWriter writer;
  writer.BeginObject()
      .Field("id", outcome.session.Short())
      .Field("object", "session.import")
      .Field("turns", outcome.turns)
      .Field("tokens", outcome.tokens);
  if (outcome.replayed) writer.Field("replayed", true);
  writer.EndObject();
  return writer.Take();
}

std::string SessionDeletedBody(const SessionKey& key) {
  JsonWriter writer;
  writer.BeginObject()
      .Field("id", key.Short())
      .Field("object", "session.deleted")
      .Field("deleted", true)
      .EndObject();
  return writer.Take();
}

}  // namespace tenuto
