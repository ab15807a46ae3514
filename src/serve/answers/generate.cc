#include "serve/answers/generate.h"

#include <utility>

#include "serve/answers/errors.h"
#include "serve/answers/memory.h"
#include "serve/json/writer.h"

namespace tenuto {
namespace {

// An answer that was cut by a disconnect or by the server's end did not stop by itself.
std::string_view FinishReasonOf(const TurnOutcome& outcome) {
  return outcome.finish_reason == "stop" ? "stop" : "length";
}

std::string_view StopTypeOf(const TurnOutcome& outcome) {
  if (outcome.finish_reason == "stop") return outcome.stop_string.empty() ? "eos" : "word";
  return outcome.finish_reason == "length" ? "limit" : "none";
}

double PerToken(double milliseconds, int32_t tokens) {
  return tokens > 0 ? milliseconds / tokens : 0;
}

double PerSecond(double milliseconds, int32_t tokens) {
  return milliseconds > 0 ? 1e3 * tokens / milliseconds : 0;
}

void WriteUsage(JsonWriter& writer, const TurnOutcome& outcome) {
  writer.BeginObject()
      .Field("prompt_tokens", outcome.prompt_tokens)
      .Field("completion_tokens", outcome.completion_tokens)
      .Field("total_tokens", outcome.prompt_tokens + outcome.completion_tokens);
  writer.Key("prompt_tokens_details")
      .BeginObject()
      .Field("cached_tokens", outcome.reused + outcome.restored)
      .EndObject()
      .EndObject();
}

void WriteTimings(JsonWriter& writer, const TurnOutcome& outcome) {
  const TurnTimes& times = outcome.times;
  writer.BeginObject()
      .Field("cache_n", outcome.reused + outcome.restored)
      .Field("prompt_n", outcome.recomputed)
      .Field("prompt_ms", times.prefill)
      .Field("prompt_per_token_ms", PerToken(times.prefill, outcome.recomputed))
      .Field("prompt_per_second", PerSecond(times.prefill, outcome.recomputed))
      .Field("predicted_n", outcome.completion_tokens)
      .Field("predicted_ms", times.decode)
      .Field("predicted_per_token_ms", PerToken(times.decode, outcome.completion_tokens))
      .Field("predicted_per_second", PerSecond(times.decode, outcome.completion_tokens))
      .EndObject();
}

void WriteTokens(JsonWriter& writer, const std::vector<TokenId>& tokens) {
  writer.BeginArray();
  for (const TokenId token : tokens)
    writer.Int(token);
  writer.EndArray();
}

void WriteHead(JsonWriter& writer, const AnswerMeta& meta, std::string_view object) {
  writer.Field("id", meta.id)
      .Field("object", object)
      .Field("created", meta.created)
      .Field("model", meta.model);
}

// What stands in every OpenAI answer after its choices.
void WriteTail(JsonWriter& writer, const AnswerMeta& meta, const TurnOutcome& outcome) {
  writer.Key("tenuto").Raw(TenutoJson(outcome, meta.ignored)).Key("timings");
  WriteTimings(writer, outcome);
}

std::string_view ChunkObject(ApiKind api) {
  return api == ApiKind::kChat ? "chat.completion.chunk" : "text_completion";
}

void WriteOpenAiBody(JsonWriter& writer, const AnswerMeta& meta, const TurnOutcome& outcome) {
  const bool chat = meta.api == ApiKind::kChat;
  WriteHead(writer, meta, chat ? "chat.completion" : "text_completion");
  writer.Key("choices").BeginArray().BeginObject().Field("index", 0);
  if (chat) {
    writer.Key("message").BeginObject().Field("role", "assistant").Field("content", outcome.text);
    writer.Key("refusal").Null().EndObject();
  } else {
    writer.Field("text", outcome.text);
  }
  writer.Key("logprobs").Null().Field("finish_reason", FinishReasonOf(outcome));
  writer.EndObject().EndArray().Key("usage");
  WriteUsage(writer, outcome);
  WriteTail(writer, meta, outcome);
}

// llama-server's last object, of a stream as well as whole; `content` is what was not streamed yet.
void WriteLlamaBody(JsonWriter& writer, const AnswerMeta& meta, const TurnOutcome& outcome,
                    std::string_view content) {
  writer.Field("index", 0).Field("content", content).Key("tokens");
  WriteTokens(writer, meta.return_tokens ? outcome.tokens : std::vector<TokenId>());
  writer.Field("id_slot", -1)
      .Field("stop", true)
      .Field("model", meta.model)
      .Field("tokens_predicted", outcome.completion_tokens)
      .Field("tokens_evaluated", outcome.prompt_tokens)
      .Key("generation_settings")
      .Raw(meta.settings_json)
      .Field("truncated", outcome.trimmed_turns > 0)
      .Field("stop_type", StopTypeOf(outcome))
      .Field("stopping_word", outcome.stop_string)
      .Field("tokens_cached", outcome.reused + outcome.restored);
  WriteTail(writer, meta, outcome);
}

void AppendEvent(std::string& out, std::string_view json) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

}  // namespace

std::string TenutoJson(const TurnOutcome& outcome, const std::vector<std::string>& ignored) {
  JsonWriter writer;
  writer.BeginObject().Key("session");
  if (outcome.session) {
    writer.String(outcome.session->Short()).Field("turn", outcome.turn.value);
  } else {
    writer.Null().Key("turn").Null();
  }
  writer.Key("kv")
      .BeginObject()
      .Field("reused", outcome.reused)
      .Field("restored", outcome.restored)
      .Field("recomputed", outcome.recomputed)
      .Key("reasons")
      .BeginArray();
  for (const KvReason& reason : outcome.reasons) {
    writer.BeginObject()
        .Field("code", reason.code)
        .Field("tokens", reason.tokens)
        .Field("detail", reason.detail)
        .EndObject();
  }
  writer.EndArray().EndObject();
  writer.Key("window")
      .BeginObject()
      .Field("turns", outcome.window_turns)
      .Field("tokens", outcome.window_tokens)
      .Field("limit_tokens", outcome.window_limit)
      .Field("archived_turns", outcome.archived_turns)
      .Field("trimmed_turns", outcome.trimmed_turns)
      .EndObject();
  WriteRecall(writer, outcome.recall);
  writer.Key("ignored").BeginArray();
  for (const std::string& name : ignored)
    writer.String(name);
  writer.EndArray();
  writer.Key("timing_ms")
      .BeginObject()
      .Field("queue", outcome.times.queue)
      .Field("restore", outcome.times.restore)
      .Field("prefill", outcome.times.prefill)
      .Field("decode", outcome.times.decode)
      .Field("commit", outcome.times.commit)
      .EndObject();
  writer.Field("seed", outcome.seed);
  if (outcome.replayed) writer.Field("replayed", true);
  if (outcome.incomplete) writer.Field("incomplete", outcome.finish_reason);
  writer.EndObject();
  return writer.Take();
}

std::string AnswerBody(const AnswerMeta& meta, const TurnOutcome& outcome) {
  JsonWriter writer;
  writer.BeginObject();
  if (meta.api == ApiKind::kLlama) {
    WriteLlamaBody(writer, meta, outcome, outcome.text);
  } else {
    WriteOpenAiBody(writer, meta, outcome);
  }
  writer.EndObject();
  return writer.Take();
}

StreamEncoder::StreamEncoder(AnswerMeta meta) : meta_(std::move(meta)) {
  if (meta_.api == ApiKind::kLlama) return;
  JsonWriter writer;
  writer.BeginObject();
  WriteHead(writer, meta_, ChunkObject(meta_.api));
  head_ = "data: " + writer.Take();
  const std::string usage = meta_.include_usage ? R"(,"usage":null)" : "";
  if (meta_.api == ApiKind::kChat) {
    head_ += R"(,"choices":[{"index":0,"delta":{"content":)";
    tail_ = R"(},"logprobs":null,"finish_reason":null}])" + usage + "}\n\n";
  } else {
    head_ += R"(,"choices":[{"index":0,"text":)";
    tail_ = R"(,"logprobs":null,"finish_reason":null}])" + usage + "}\n\n";
  }
}

void StreamEncoder::AppendFirst(std::string& out) const {
  if (meta_.api != ApiKind::kChat) return;
  JsonWriter writer;
  writer.BeginObject();
  WriteHead(writer, meta_, ChunkObject(meta_.api));
  writer.Key("choices").BeginArray().BeginObject().Field("index", 0);
  writer.Key("delta").BeginObject().Field("role", "assistant").Field("content", "").EndObject();
  writer.Key("logprobs").Null().Key("finish_reason").Null().EndObject().EndArray();
  if (meta_.include_usage) writer.Key("usage").Null();
  writer.EndObject();
  AppendEvent(out, writer.text());
}

void StreamEncoder::AppendText(std::string& out, const RunChunk& chunk) {
  tokens_ += static_cast<int64_t>(chunk.tokens.size());
  if (meta_.api != ApiKind::kLlama) {
    if (chunk.text.empty()) return;
    out += head_;
    AppendJsonString(out, chunk.text);
    out += tail_;
    return;
  }
  JsonWriter writer;
  writer.BeginObject().Field("index", 0).Field("content", chunk.text).Key("tokens");
  WriteTokens(writer, chunk.tokens);
  writer.Field("stop", false).Field("id_slot", -1).Field("tokens_predicted", tokens_).EndObject();
  AppendEvent(out, writer.text());
}

void StreamEncoder::AppendOpenAiLast(std::string& out, const TurnOutcome& outcome) const {
  JsonWriter writer;
  writer.BeginObject();
  WriteHead(writer, meta_, ChunkObject(meta_.api));
  writer.Key("choices").BeginArray().BeginObject().Field("index", 0);
  if (meta_.api == ApiKind::kChat) {
    writer.Key("delta").BeginObject().EndObject();
  } else {
    writer.Field("text", "");
  }
  writer.Key("logprobs").Null().Field("finish_reason", FinishReasonOf(outcome));
  writer.EndObject().EndArray();
  if (meta_.include_usage) {
    writer.Key("usage").Null().EndObject();
    AppendEvent(out, writer.Take());
    writer = JsonWriter();
    writer.BeginObject();
    WriteHead(writer, meta_, ChunkObject(meta_.api));
    writer.Key("choices").BeginArray().EndArray().Key("usage");
    WriteUsage(writer, outcome);
  }
  WriteTail(writer, meta_, outcome);
  writer.EndObject();
  AppendEvent(out, writer.text());
  out += "data: [DONE]\n\n";
}

void StreamEncoder::AppendLast(std::string& out, const TurnOutcome& outcome) const {
  if (meta_.api != ApiKind::kLlama) return AppendOpenAiLast(out, outcome);
  JsonWriter writer;
  writer.BeginObject();
  WriteLlamaBody(writer, meta_, outcome, "");
  writer.EndObject();
  AppendEvent(out, writer.text());
}

void StreamEncoder::AppendError(std::string& out, const Error& error) {
  AppendEvent(out, ErrorBody(error));
}

void StreamEncoder::AppendComment(std::string& out, std::string_view text) {
  out += ": ";
  out += text;
  out += "\n\n";
}

}  // namespace tenuto
