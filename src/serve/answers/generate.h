// Answers of the generating endpoints: whole bodies and server-sent events, in OpenAI's form and in
// llama-server's. docs/api.md shows each. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/requests/generate.h"
#include "session/turn_types.h"

namespace tenuto {

// What an answer needs to know of its request.
struct AnswerMeta {
  ApiKind api = ApiKind::kChat;
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // unix seconds
  std::string model;
  bool include_usage = false;
  bool return_tokens = false;
  std::vector<std::string> ignored;
  std::string settings_json;  // resolved settings, an object
};

std::string AnswerBody(const AnswerMeta& meta, const TurnOutcome& outcome);

// The `tenuto` member of every answer (docs/api.md).
std::string TenutoJson(const TurnOutcome& outcome, const std::vector<std::string>& ignored);

// Writes the events of one stream. The constant head and tail of a text event are made once, so
// that a token costs little more than its escape. Thread-compatible.
class StreamEncoder {
 public:
  explicit StreamEncoder(AnswerMeta meta);

  // The event that opens the stream: the role. Nothing for the other forms.
  void AppendFirst(std::string& out) const;
  void AppendText(std::string& out, const RunChunk& chunk);
  // Finish reason, usage, `tenuto`, and the end mark. Only after the commit (INV-2).
  void AppendLast(std::string& out, const TurnOutcome& outcome) const;
  // Ends the stream without the end mark.
  static void AppendError(std::string& out, const Error& error);
  // A comment, which clients skip.
  static void AppendComment(std::string& out, std::string_view text);

 private:
  void AppendOpenAiLast(std::string& out, const TurnOutcome& outcome) const;

  const AnswerMeta meta_;
  std::string head_;
  std::string tail_;
  int64_t tokens_ = 0;
};

}  // namespace tenuto
