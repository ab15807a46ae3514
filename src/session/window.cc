#include "session/window.h"

#include <algorithm>
#include <string>

namespace tenuto {

std::vector<TokenId> HeadOf(const TurnTokens& tokens, std::span<const TokenId> answer) {
  if (tokens.head) return *tokens.head;
  std::vector<TokenId> head = tokens.suffix;
  head.insert(head.end(), answer.begin(), answer.end());
  head.insert(head.end(), tokens.close.begin(), tokens.close.end());
  return head;
}

SessionWindow SessionWindow::FromLog(const SessionRow& row, std::span<const TurnRow> turns) {
  SessionWindow window;
  window.head_ = row.head_tokens;
  window.first_ = row.turns + 1 - turns.size();
  window.archived_tokens_ = row.tokens;
  for (const TurnRow& turn : turns)
    window.archived_tokens_ -= turn.prompt.size() + turn.answer.size();
  if (window.first_ > 1) window.tokens_ = window.head_;
  for (const TurnRow& turn : turns)
    window.Append(turn.prompt, turn.answer, turn.close_tokens);
  return window;
}

void SessionWindow::Append(std::span<const TokenId> prompt, std::span<const TokenId> answer,
                           uint32_t close_tokens) {
  const size_t close = std::min<size_t>(close_tokens, prompt.size());
  turns_.push_back(
      {static_cast<int32_t>(prompt.size() + answer.size()), static_cast<int32_t>(close)});
  // The oldest turn of a cut window has no turn before it to close.
  const auto own = turns_.size() == 1 && first_ > 1 ? prompt.subspan(close) : prompt;
  tokens_.insert(tokens_.end(), own.begin(), own.end());
  tokens_.insert(tokens_.end(), answer.begin(), answer.end());
}

int32_t SessionWindow::SizeWithout(size_t drop) const {
  if (drop == 0) return size();
  auto kept = static_cast<int32_t>(head_.size());
  for (size_t i = drop; i < turns_.size(); ++i)
    kept += turns_[i].tokens - (i == drop ? turns_[i].close_tokens : 0);
  return kept;
}

SessionWindow SessionWindow::Without(size_t drop) const {
  if (drop == 0) return *this;
  SessionWindow cut;
  cut.head_ = head_;
  cut.tokens_ = head_;
  const auto kept = SizeWithout(drop) - static_cast<int32_t>(head_.size());
  cut.tokens_.insert(cut.tokens_.end(), tokens_.end() - kept, tokens_.end());
  cut.turns_.assign(turns_.begin() + static_cast<std::ptrdiff_t>(drop), turns_.end());
  cut.first_ = first_ + drop;
  cut.archived_tokens_ = archived_tokens_;
  for (size_t i = 0; i < drop; ++i)
    cut.archived_tokens_ += static_cast<uint64_t>(turns_[i].tokens);
  return cut;
}

// Down to the low water, on the grid. The grid makes the cut the same for windows that differ by a
// few tokens, so that what was prepared after one turn is still right after the next.
size_t SessionWindow::UsualCut(const WindowLimits& limits) const {
  uint64_t line = archived_tokens_;
  for (const Span& turn : turns_)
    line += static_cast<uint64_t>(turn.tokens);
  const auto kept_max =
      static_cast<uint64_t>(std::max(0, limits.low_tokens() - static_cast<int32_t>(head_.size())));
  const auto grid = static_cast<uint64_t>(std::max(1, limits.grid_tokens));
  const uint64_t wanted = line > kept_max ? line - kept_max : 0;
  const uint64_t cut = (wanted + grid - 1) / grid * grid;
  size_t drop = 0;
  // The last turn stays, however long: what is said next is mostly about it.
  for (uint64_t before = archived_tokens_; before < cut && drop + 1 < turns_.size(); ++drop)
    before += static_cast<uint64_t>(turns_[drop].tokens);
  return drop;
}

Result<size_t> SessionWindow::PlanCut(int32_t suffix, int32_t answer_min,
                                      const WindowLimits& limits) const {
  const auto fits = [&](size_t drop, int32_t mark) { return SizeWithout(drop) + suffix <= mark; };
  const int32_t most = limits.tokens - answer_min;
  if (fits(0, std::min(most, limits.high_tokens()))) return size_t{0};
  size_t drop = UsualCut(limits);
  while (drop < turns_.size() && !fits(drop, std::min(most, limits.high_tokens())))
    ++drop;
  // Dropping all does not help a message that is large by itself: keep what there is room for.
  if (drop == turns_.size() && !fits(drop, limits.high_tokens())) {
    drop = UsualCut(limits);
    while (drop < turns_.size() && !fits(drop, most))
      ++drop;
  }
  if (fits(drop, most)) return drop;
  return Error(Code::kInvalid, "the prompt does not fit: " + std::to_string(head_.size()) +
                                   " tokens of system prompt and " + std::to_string(suffix) +
                                   " new ones are more than the window of " +
                                   std::to_string(limits.tokens));
}

}  // namespace tenuto
