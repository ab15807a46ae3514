// Turns: a request becomes a TurnRequest, its answer a body or a stream of events.
#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "io/clock.h"
#include "serve/answers/errors.h"
#include "serve/answers/generate.h"
#include "serve/handlers/handlers.h"
#include "serve/routes.h"

namespace tenuto {
namespace {

constexpr int64_t kNoteGapNs = 1'000'000'000;  // between two notes on prefill
constexpr int64_t kTickMsMax = 1'000;

// One turn being answered. Belongs to the loop of its exchange; the service's callbacks post here.
class TurnAnswer : public std::enable_shared_from_this<TurnAnswer> {
 public:
  TurnAnswer(const RouteCall& call, GenerateRequest request);

  void Start();

 private:
  void TokenizeParts();
  void Submit();
  void OnGone(bool slow);
  void OnChunk(const RunChunk& chunk);
  void OnPrefill(int32_t prefilled, int32_t total);
  void OnDone(const Result<TurnOutcome>& outcome);
  void OnTick();
  void Comment();
  void BeginStream();
  void AppendFirst();
  void ReplyError(const Error& error);

  const AppPtr app_;
  const ExchangePtr exchange_;
  const std::string_view route_;
  GenerateRequest request_;
  AnswerMeta meta_;
  std::optional<StreamEncoder> encoder_;  // of a stream
  const bool keyed_;                      // has an idempotency key
  std::optional<TurnTicket> ticket_;
  std::atomic<bool> gone_{false};  // set on the loop, read on the pool too
  bool first_sent_ = false;
  size_t text_bytes_ = 0;  // streamed so far
  int64_t started_ns_ = 0;
  int32_t prefilled_ = 0;
  int32_t prefill_total_ = 0;
  std::string out_;  // reused by every event
};

TurnAnswer::TurnAnswer(const RouteCall& call, GenerateRequest request)
    : app_(call.app),
      exchange_(call.exchange),
      route_(call.route),
      request_(std::move(request)),
      keyed_(!request_.turn.idempotency_key.empty()),
      started_ns_(SystemClock().MonotonicNs()) {
  meta_.api = request_.api;
  meta_.id = RandomId(request_.api == ApiKind::kChat ? "chatcmpl-" : "cmpl-");
  meta_.created = SystemClock().UnixMs() / 1000;
  meta_.model = app_->model;
  meta_.include_usage = request_.include_usage;
  meta_.return_tokens = request_.return_tokens;
  meta_.ignored = request_.ignored;
  meta_.settings_json = request_.turn.params_json;
  if (request_.stream) encoder_.emplace(meta_);
}

void TurnAnswer::Start() {
  app_->NoteIgnored(request_.ignored);
  exchange_->SetGone([self = shared_from_this()](bool slow) { self->OnGone(slow); });
  if (!request_.parts.empty()) return TokenizeParts();
  Submit();
}

// llama-server's mixed prompts: only the first text gets what the model wants at the start.
void TurnAnswer::TokenizeParts() {
  app_->work.Post([self = shared_from_this()] {
    if (self->gone_) return;
    std::vector<TokenId> tokens;
    std::optional<Error> error;
    bool first = true;
    for (const PromptPart& part : self->request_.parts) {
      if (self->app_->stopping) {
        error = Error(Code::kUnavailable, std::string(kStoppingText));
        break;
      }
      if (const auto* ids = std::get_if<std::vector<TokenId>>(&part)) {
        tokens.insert(tokens.end(), ids->begin(), ids->end());
      } else {
        auto piece = self->app_->service.Tokenize(std::get<std::string>(part), first, true);
        if (!piece) {
          error = std::move(piece).error();
          break;
        }
        tokens.insert(tokens.end(), piece->begin(), piece->end());
      }
      first = false;
    }
    self->exchange_->Post([self, error, tokens = std::move(tokens)]() mutable {
      if (self->gone_) return;
      if (error) return self->ReplyError(*error);
      self->request_.turn.tokens = std::move(tokens);
      self->Submit();
    });
  });
}

void TurnAnswer::Submit() {
  const auto self = shared_from_this();
  TurnSink sink;
  sink.on_chunk = [](const RunChunk&) {};
  if (request_.stream) {
    sink.on_chunk = [self](const RunChunk& chunk) {
      self->exchange_->Post([self, chunk] { self->OnChunk(chunk); });
    };
    sink.on_prefill = [self](int32_t prefilled, int32_t total) {
      self->exchange_->Post([self, prefilled, total] { self->OnPrefill(prefilled, total); });
    };
    exchange_->SetTicker(std::clamp<int64_t>(app_->settings.keep_alive_ms / 5, 1, kTickMsMax),
                         [self] { self->OnTick(); });
  }
  sink.on_done = [self](Result<TurnOutcome> outcome) {
    self->exchange_->Post([self, outcome = std::move(outcome)] { self->OnDone(outcome); });
  };
  ticket_ = app_->service.Submit(std::move(request_.turn), std::move(sink));
}

void TurnAnswer::OnGone(bool slow) {
  gone_ = true;
  app_->metrics
      .GetCounter("tenuto_http_clients_lost_total", "Clients that left before their answer's end",
                  slow ? "why=\"slow\"" : "why=\"gone\"")
      .Add();
  // A turn with a key is asked for again: the key must find its answer, not what a lost connection
  // left of it.
  if (ticket_ && !keyed_) app_->service.Cancel(*ticket_);
}

void TurnAnswer::BeginStream() {
  if (exchange_->streaming()) return;
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers.push_back({"X-Request-Id", RequestIdOf(exchange_->request())});
  head.headers.push_back({"X-Accel-Buffering", "no"});
  exchange_->BeginStream(head);
}

void TurnAnswer::AppendFirst() {
  if (std::exchange(first_sent_, true)) return;
  encoder_->AppendFirst(out_);
}

void TurnAnswer::OnChunk(const RunChunk& chunk) {
  if (!exchange_->open()) return;
  BeginStream();
  out_.clear();
  AppendFirst();
  encoder_->AppendText(out_, chunk);
  text_bytes_ += chunk.text.size();
  exchange_->Write(out_);
}

void TurnAnswer::OnPrefill(int32_t prefilled, int32_t total) {
  prefilled_ = prefilled;
  prefill_total_ = total;
  const int64_t now = SystemClock().MonotonicNs();
  if (now - started_ns_ < app_->settings.prefill_note_ms * 1'000'000) return;
  if (exchange_->streaming() && now - exchange_->last_write_ns() < kNoteGapNs) return;
  Comment();
}

void TurnAnswer::OnTick() {
  const int64_t silence = SystemClock().MonotonicNs() - exchange_->last_write_ns();
  if (silence >= app_->settings.keep_alive_ms * 1'000'000) Comment();
}

void TurnAnswer::Comment() {
  if (!exchange_->open()) return;
  BeginStream();
  std::string text = "keep-alive";
  if (!first_sent_ && prefill_total_ > 0) {
    text += ", prefill " + std::to_string(prefilled_) + " of " + std::to_string(prefill_total_) +
            " tokens";
  }
  out_.clear();
  StreamEncoder::AppendComment(out_, text);
  exchange_->Write(out_);
}

// INV-2: this comes after the commit, so only now may the answer be called finished.
void TurnAnswer::OnDone(const Result<TurnOutcome>& outcome) {
  if (!exchange_->open()) return;
  if (!outcome) return ReplyError(outcome.error());
  if (!encoder_) {
    HttpResponse response;
    response.body = AnswerBody(meta_, *outcome);
    return app_->Reply(exchange_, route_, std::move(response));
  }
  BeginStream();
  out_.clear();
  AppendFirst();
  // A stored answer, found by its idempotency key, comes in one piece.
  if (text_bytes_ == 0 && !outcome->text.empty()) {
    encoder_->AppendText(out_, RunChunk{outcome->tokens, outcome->text});
  }
  encoder_->AppendLast(out_, *outcome);
  app_->Count(route_, 200);
  exchange_->Write(out_);
  exchange_->Finish();
}

void TurnAnswer::ReplyError(const Error& error) {
  if (!exchange_->streaming()) return app_->ReplyError(exchange_, route_, error);
  app_->Count(route_, StatusOf(error));
  out_.clear();
  StreamEncoder::AppendError(out_, error);
  exchange_->Write(out_);
  exchange_->Finish();
}

using Parser = Result<GenerateRequest> (*)(std::string_view, const RequestHeaders&,
                                           const RequestContext&);

void HandleTurn(const RouteCall& call, Parser parse) {
  auto headers = ReadRequestHeaders(call.exchange->request());
  if (!headers) return call.app->ReplyError(call.exchange, call.route, headers.error());
  auto request = parse(call.exchange->TakeBody(), *headers, call.app->context);
  if (!request) return call.app->ReplyError(call.exchange, call.route, request.error());
  std::make_shared<TurnAnswer>(call, std::move(request).value())->Start();
}

}  // namespace

void HandleChat(const RouteCall& call) {
  HandleTurn(call, ParseChatRequest);
}

void HandleCompletions(const RouteCall& call) {
  HandleTurn(call, ParseCompletionsRequest);
}

void HandleLlamaCompletion(const RouteCall& call) {
  HandleTurn(call, ParseLlamaRequest);
}

}  // namespace tenuto
