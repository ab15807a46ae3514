#include "engine/embedded/run.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tenuto {
namespace {

constexpr int32_t kReserveTokensMax = 4096;  // max_new_tokens may be anything

std::string Number(int64_t n) {
  return std::to_string(n);
}

}  // namespace

Status CheckRunRequest(const RunRequest& request, const EngineInfo& info) {
  const auto size = static_cast<int64_t>(request.tokens.size());
  if (request.seq.value < 0 || request.seq.value >= info.sequences) {
    return Error(Code::kInvalid, "no sequence " + Number(request.seq.value));
  }
  if (request.begin < 0 || request.begin >= size) {
    return Error(Code::kInvalid, "begin " + Number(request.begin) + " leaves none of " +
                                     Number(size) + " tokens to prefill");
  }
  if (request.answered < 0 || request.answered > size) {
    return Error(Code::kInvalid, "answered " + Number(request.answered) + " of " + Number(size));
  }
  if (request.max_new_tokens < 0) return Error(Code::kInvalid, "max_new_tokens is negative");
  const int64_t window_used = size + (request.max_new_tokens > 0 ? 1 : 0);
  if (info.model_window > 0 && window_used > info.model_window) {
    return Error(Code::kInvalid, Number(size) + " tokens do not fit the model's window of " +
                                     Number(info.model_window));
  }
  if (size > info.cells) {
    return Error(Code::kExhausted,
                 Number(size) + " tokens do not fit " + Number(info.cells) + " KV cells");
  }
  for (const TokenId token : request.tokens) {
    if (token < 0 || token >= info.vocabulary_size) {
      return Error(Code::kInvalid, "token " + Number(token) + " is outside the vocabulary");
    }
  }
  return CheckSampling(request.sampling, info.vocabulary_size);
}

EngineRun::EngineRun(RunId run_id, RunRequest request,
                     std::shared_ptr<const RunListener> run_listener, const Executor& executor)
    : id(run_id),
      seq(request.seq),
      listener(std::move(run_listener)),
      sampler(std::move(request.sampling)),
      ignore_end(request.ignore_end),
      begin(request.begin),
      prompt_tokens(static_cast<int32_t>(request.tokens.size()) - request.answered),
      prefill_end(static_cast<int32_t>(request.tokens.size())),
      prefill_only(request.max_new_tokens == 0),
      tokens(std::move(request.tokens)),
      in_kv(request.begin),
      new_tokens_left(request.max_new_tokens),
      text(executor, std::move(request.stop)) {
  // The earlier part of a preempted run: the same state of the text, without showing it again.
  for (size_t i = static_cast<size_t>(prompt_tokens); i < tokens.size() && !text.stopped(); ++i) {
    text.Add(tokens[i]);
  }
  (void)text.TakeChunk();
  tokens.reserve(tokens.size() + static_cast<size_t>(std::min(new_tokens_left, kReserveTokensMax)));
}

int32_t EngineRun::prefilled() const {
  return std::min(in_kv, prefill_end) - begin;
}

std::vector<TokenId> EngineRun::Answer() const {
  const auto answer_begin = tokens.begin() + prompt_tokens;
  if (!text.stopped()) return {answer_begin, tokens.end()};
  std::vector<TokenId> answer(answer_begin, answer_begin + text.kept());
  answer.insert(answer.end(), text.replacement().begin(), text.replacement().end());
  return answer;
}

TokenPos EngineRun::KvEnd() const {
  return text.stopped() ? std::min(in_kv, prompt_tokens + text.kept()) : in_kv;
}

RunTimes EngineRun::Times(int64_t now_ns) const {
  RunTimes times;
  if (first_step_ns < 0) return times;
  times.prefill_ns = (first_token_ns < 0 ? now_ns : first_token_ns) - first_step_ns;
  if (first_token_ns >= 0) times.decode_ns = now_ns - first_token_ns;
  return times;
}

}  // namespace tenuto
