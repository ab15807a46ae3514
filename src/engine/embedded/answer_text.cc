#include "engine/embedded/answer_text.h"

#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace tenuto {

std::vector<TokenId> TokensOf(const Executor& executor, const std::string& text) {
  Result<std::vector<TokenId>> tokens = executor.Tokenize(text, false, false);
  if (tokens) {
    std::string back;
    for (const TokenId token : *tokens)
      back += executor.TokenText(token, false);
    if (back == text) return std::move(tokens).value();
  }
  // Walks the whole vocabulary once per piece: tens of milliseconds, for the few tokenizers that
  // need it.
  std::vector<TokenId> pieces;
  size_t at = 0;
  while (at < text.size()) {
    TokenId best = -1;
    size_t best_bytes = 0;
    for (TokenId token = 0; token < executor.info().vocabulary_size; ++token) {
      const std::string piece = executor.TokenText(token, false);
      if (piece.size() > best_bytes && text.compare(at, piece.size(), piece) == 0) {
        best = token;
        best_bytes = piece.size();
      }
    }
    if (best < 0) break;
    pieces.push_back(best);
    at += best_bytes;
  }
  return pieces;
}

AnswerText::AnswerText(const Executor& executor, std::vector<std::string> stops)
    : executor_(executor), stops_(std::move(stops)), matcher_(stops_) {}

const std::string& AnswerText::stop_string() const {
  static const std::string kNone;
  return stopped_ ? stops_[stop_index_] : kNone;
}

void AnswerText::Add(TokenId token) {
  TENUTO_DCHECK(!stopped_);
  const std::string text = executor_.TokenText(token, false);
  raw_ += text;
  added_ += text.size();
  pending_.push_back({token, added_});
  if (const auto match = matcher_.Feed(text)) {
    stopped_ = true;
    stop_index_ = match->index;
    CutAt(match->begin);
    return;
  }
  ShowUpTo(added_ - matcher_.held());
  ReleaseTokens();
}

void AnswerText::Finish() {
  if (stopped_) return;
  AppendLastUtf8(raw_, chunk_.text);
  shown_ = added_;
  raw_.clear();
  ReleaseTokens();
}

RunChunk AnswerText::TakeChunk() {
  return std::exchange(chunk_, RunChunk{});
}

void AnswerText::ShowUpTo(size_t offset) {
  const size_t bytes =
      AppendWholeUtf8(std::string_view(raw_).substr(0, offset - shown_), chunk_.text);
  raw_.erase(0, bytes);
  shown_ += bytes;
}

void AnswerText::ReleaseTokens() {
  size_t n = 0;
  while (n < pending_.size() && pending_[n].end <= shown_) {
    chunk_.tokens.push_back(pending_[n].token);
    pending_begin_ = pending_[n].end;
    ++n;
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(n));
  visible_tokens_ += static_cast<int32_t>(n);
}

// Ends the answer before byte `offset`.
void AnswerText::CutAt(size_t offset) {
  ShowUpTo(offset);
  // Bytes before the stop that began a character which never came. Where the stop string itself
  // goes on with it (it is not whole UTF-8 then), the character belongs to the stop.
  if (shown_ < offset && !IsUtf8Continuation(raw_[offset - shown_])) {
    chunk_.text.append(kReplacementCharacter);
    shown_ = offset;
  }
  ReleaseTokens();
  // A token without text behind the cut came after the stop had begun; one right at it was released
  // above.
  if (pending_begin_ < shown_) Replace(pending_.front().token, shown_ - pending_begin_);
  pending_.clear();
  raw_.clear();
}

void AnswerText::Replace(TokenId token, size_t visible_bytes) {
  replacement_ = TokensOf(executor_, executor_.TokenText(token, false).substr(0, visible_bytes));
  chunk_.tokens.insert(chunk_.tokens.end(), replacement_.begin(), replacement_.end());
}

}  // namespace tenuto
