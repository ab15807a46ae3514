#include "serve/answers/memory.h"

#include <algorithm>
#include <span>

#include "serve/answers/export.h"
#include "serve/answers/ignored.h"
#include "serve/answers/sessions.h"

namespace tenuto {
namespace {

constexpr size_t kUsedByMax = 1000;  // turns that a deletion names, the newest

void WriteStrings(JsonWriter& writer, std::string_view name, const std::vector<std::string>& all) {
  writer.Key(name).BeginArray();
  for (const std::string& text : all)
    writer.String(text);
  writer.EndArray();
}

void WriteTurnIds(JsonWriter& writer, std::string_view name, std::span<const TurnId> turns) {
  writer.Key(name).BeginArray();
  for (const TurnId& turn : turns)
    writer.String(turn.value);
  writer.EndArray();
}

void WriteHit(JsonWriter& writer, const MemoryHit& hit) {
  writer.BeginObject().Field("session", hit.session.Short()).Field("turn", hit.turn.value);
  writer.Key("client_id");
  if (hit.client_id.empty()) {
    writer.Null();
  } else {
    writer.String(hit.client_id);
  }
  writer.Field("score", hit.score);
  WriteStrings(writer, "terms", hit.terms);
  writer.Field("time", WallTimeText(hit.unix_ms)).Field("text", hit.text);
  writer.Field("excerpt", hit.excerpt).EndObject();
}

}  // namespace

void WriteRecall(JsonWriter& writer, const RecallOutcome& recall) {
  writer.Key("recall").BeginObject();
  writer.Field("decision", recall.decision).Field("tokens", recall.tokens);
  writer.Key("candidates").BeginArray();
  for (const RecallCandidate& candidate : recall.candidates) {
    writer.BeginObject().Field("turn", candidate.turn.value).Field("score", candidate.score);
    WriteStrings(writer, "terms", candidate.terms);
    writer.Field("injected", candidate.injected).Field("why", candidate.why);
    if (candidate.newest_of > 1) writer.Field("newest_of", uint64_t{candidate.newest_of});
    writer.EndObject();
  }
  writer.EndArray();
  if (recall.indexed_now > 0) writer.Field("indexed_now", recall.indexed_now);
  writer.EndObject();
}

std::string SearchBody(const MemoryAnswer& answer, const std::vector<std::string>& ignored) {
  JsonWriter writer;
  writer.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const MemoryHit& hit : answer.hits)
    WriteHit(writer, hit);
  writer.EndArray().Field("decision", answer.decision);
  WriteIgnored(writer, ignored);
  writer.EndObject();
  return writer.Take();
}

std::string ExplanationBody(const SessionKey& key, const TurnExplanation& explanation) {
  JsonWriter writer;
  writer.BeginObject()
      .Field("object", "session.turn.explanation")
      .Field("session", key.Short())
      .Field("turn", explanation.turn.value)
      .Field("line", explanation.line)
      .Field("prompt_tokens", explanation.prompt_tokens)
      .Field("same_prompt", explanation.same_prompt)
      .Key("spans")
      .BeginArray();
  for (const PromptSpan& span : explanation.spans) {
    writer.BeginObject().Field("kind", span.kind);
    WriteTurnId(writer, "turn", span.turn);
    writer.Field("tokens", span.tokens);
    WriteTurnIds(writer, "quoted", span.quoted);
    writer.EndObject();
  }
  writer.EndArray();
  WriteRecall(writer, explanation.recall);
  writer.EndObject();
  return writer.Take();
}

std::string ReplayAnswerBody(const SessionKey& key, const ReplayOutcome& outcome,
                             const std::vector<std::string>& ignored) {
  JsonWriter writer;
  writer.BeginObject()
      .Field("object", "session.turn.replay")
      .Field("session", key.Short())
      .Field("turn", outcome.turn.value);
  WriteTurnId(writer, "without", outcome.without);
  writer.Field("text", outcome.text)
      .Field("stored_text", outcome.stored_text)
      .Field("equal", outcome.equal)
      .Field("same_prompt", outcome.differs.empty());
  if (!outcome.differs.empty()) writer.Field("why", outcome.differs);
  writer.Field("prompt_tokens", outcome.prompt_tokens)
      .Field("completion_tokens", outcome.completion_tokens)
      .Field("finish_reason", outcome.finish_reason);
  WriteIgnored(writer, ignored);
  writer.EndObject();
  return writer.Take();
}

std::string TurnStateBody(const SessionKey& key, const TurnState& state,
                          const std::vector<std::string>& ignored) {
  JsonWriter writer;
  writer.BeginObject()
      .Field("object", "session.turn.state")
      .Field("session", key.Short())
      .Field("id", state.turn.value)
      .Field("pinned", state.pinned)
      .Field("recall", state.recall);
  WriteTurnId(writer, "superseded_by", state.superseded_by);
  WriteIgnored(writer, ignored);
  writer.EndObject();
  return writer.Take();
}

std::string TurnDeletedBody(const TurnDeletion& deletion) {
  JsonWriter writer;
  writer.BeginObject()
      .Field("object", "session.turn.deleted")
      .Field("id", deletion.turn.value)
      .Field("deleted", true);
  const size_t named = std::min(deletion.used_by.size(), kUsedByMax);
  WriteTurnIds(writer, "used_by", std::span(deletion.used_by).last(named));
  if (named < deletion.used_by.size())
    writer.Field("used_by_total", uint64_t{deletion.used_by.size()});
  writer.EndObject();
  return writer.Take();
}

}  // namespace tenuto
