#include "engine/embedded/engine.h"

#include <utility>

#include "engine/embedded/core.h"

namespace tenuto {

EmbeddedEngine::EmbeddedEngine(Executor& executor, EngineRunners runners, Clock& clock,
                               EmbeddedSettings settings, Metrics& metrics)
    : executor_(executor),
      core_(std::make_shared<EngineCore>(executor, runners, clock, settings, metrics)) {}

EmbeddedEngine::~EmbeddedEngine() {
  core_->Stop();
}

const EngineInfo& EmbeddedEngine::info() const {
  return executor_.info();
}

Result<std::vector<TokenId>> EmbeddedEngine::Tokenize(std::string_view text, bool add_special,
                                                      bool parse_special) const {
  return executor_.Tokenize(text, add_special, parse_special);
}

std::string EmbeddedEngine::TokenText(TokenId token, bool special) const {
  return executor_.TokenText(token, special);
}

Result<std::string> EmbeddedEngine::RenderChat(std::span<const ChatMessage> messages,
                                               bool open_answer) const {
  return executor_.RenderChat(messages, open_answer);
}

RunId EmbeddedEngine::Start(RunRequest request, RunListener listener) {
  return core_->Start(std::move(request), std::move(listener));
}

void EmbeddedEngine::Cancel(RunId run) {
  core_->End(run, FinishReason::kCancelled);
}

void EmbeddedEngine::Preempt(RunId run) {
  core_->End(run, FinishReason::kPreempted);
}

void EmbeddedEngine::Import(SeqId seq, TokenRange range, std::shared_ptr<const void> buffer,
                            std::span<const std::byte> bytes, StatusDone done) {
  core_->Submit(ImportCall{seq, range, std::move(buffer), bytes, std::move(done)});
}

void EmbeddedEngine::Export(SeqId seq, TokenRange range, ExportDone done) {
  core_->Submit(ExportCall{seq, range, std::move(done)});
}

void EmbeddedEngine::Truncate(SeqId seq, TokenPos end, StatusDone done) {
  core_->Submit(TruncateCall{seq, end, std::move(done)});
}

void EmbeddedEngine::CopyPrefix(SeqId from, SeqId to, TokenPos end, StatusDone done) {
  core_->Submit(CopyCall{from, to, end, std::move(done)});
}

void EmbeddedEngine::SetPressureCallback(std::function<void(RunId starved)> callback) {
  core_->SetPressureCallback(std::move(callback));
}

}  // namespace tenuto
