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

Status CheckHead(std::span<const TokenId> head, const WindowLimits& limits) {
  const auto most = static_cast<size_t>(limits.stays_tokens());
  if (head.size() <= most) return Ok();
  return Error(Code::kInvalid, "the system prompt has " + std::to_string(head.size()) +
                                   " tokens; at most " + std::to_string(most) +
                                   ", 40 % of the window of " + std::to_string(limits.tokens) +
                                   ", may stay in front of a session's turns");
}

std::vector<TokenId> WithSpan(std::span<const TokenId> prompt, const RecallSpan& span) {
  std::vector<TokenId> whole(prompt.begin(), prompt.end());
  const size_t at = std::min<size_t>(span.at, whole.size());
  whole.insert(whole.begin() + static_cast<std::ptrdiff_t>(at), span.tokens.begin(),
               span.tokens.end());
  return whole;
}

SessionWindow SessionWindow::FromLog(const StoredWindow& stored) {
  SessionWindow window;
  window.head_ = stored.row.head_tokens;
  window.first_ = stored.row.turns + 1 - stored.turns.size();
  window.spans_since_ = stored.spans_since;
  window.mark_ = stored.mark;
  window.archived_tokens_ = stored.row.tokens;
  for (const TurnRow& turn : stored.turns)
    window.archived_tokens_ -= turn.prompt.size() + turn.answer.size();
  window.headed_ = window.first_ > 1 || (!stored.turns.empty() && stored.turns.front().deleted);
  if (window.headed_) window.tokens_ = window.head_;
  for (const PinnedTurn& pinned : stored.front)
    window.Put(pinned);
  for (size_t i = 0; i < stored.turns.size(); ++i) {
    const TurnRow& turn = stored.turns[i];
    window.Append(turn.prompt, turn.answer, turn.close_tokens,
                  i < stored.spans.size() ? stored.spans[i] : RecallSpan{});
  }
  return window;
}

// A pinned turn in front of the others.
void SessionWindow::Put(const PinnedTurn& turn) {
  const size_t close = std::min<size_t>(turn.close_tokens, turn.tokens.size());
  turns_.push_back({.tokens = static_cast<int32_t>(turn.tokens.size()),
                    .close_tokens = static_cast<int32_t>(close)});
  front_.push_back(turn);
  const auto own = std::span(turn.tokens).subspan(turns_.size() == 1 ? close : 0);
  tokens_.insert(tokens_.end(), own.begin(), own.end());
}

void SessionWindow::Append(std::span<const TokenId> prompt, std::span<const TokenId> answer,
                           uint32_t close_tokens, const RecallSpan& span) {
  const size_t close = std::min<size_t>(close_tokens, prompt.size());
  const size_t at = std::clamp<size_t>(span.at, close, prompt.size());
  turns_.push_back({.tokens = static_cast<int32_t>(prompt.size() + answer.size()),
                    .close_tokens = static_cast<int32_t>(close),
                    .recall_at = static_cast<int32_t>(at),
                    .recall_tokens = static_cast<int32_t>(span.tokens.size())});
  recall_tokens_ += turns_.back().recall_tokens;
  quoted_.insert(quoted_.end(), span.lines.begin(), span.lines.end());
  // Right behind the head there is no turn to close.
  const size_t begin = headed_ && FirstFilled() + 1 == turns_.size() ? close : 0;
  if (begin > 0)
    left_out_.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(begin));
  const auto put = [this](std::span<const TokenId> part) {
    tokens_.insert(tokens_.end(), part.begin(), part.end());
  };
  put(prompt.subspan(begin, at - begin));
  put(span.tokens);
  put(prompt.subspan(at));
  put(answer);
}

int32_t SessionWindow::OwnTokens(size_t at) const {
  const Span& turn = turns_[at];
  const bool closes_nothing = headed_ && at == FirstFilled();
  return turn.tokens - (closes_nothing ? turn.close_tokens : 0);
}

size_t SessionWindow::FirstFilled() const {
  const auto filled =
      std::ranges::find_if(turns_, [](const Span& turn) { return turn.tokens > 0; });
  return static_cast<size_t>(filled - turns_.begin());
}

bool SessionWindow::has_deleted() const {
  return std::ranges::any_of(turns_, [](const Span& turn) { return turn.tokens == 0; });
}

int32_t SessionWindow::turn_size(size_t i) const {
  return OwnTokens(front_.size() + i) + turns_[front_.size() + i].recall_tokens;
}

size_t SessionWindow::PinsBefore(uint64_t line) const {
  return static_cast<size_t>(std::ranges::lower_bound(pins_, line, {}, &PinnedTurn::line) -
                             pins_.begin());
}

int32_t SessionWindow::pinned_tokens() const {
  size_t tokens = 0;
  for (const PinnedTurn& pin : pins_)
    tokens += pin.tokens.size();
  return static_cast<int32_t>(tokens);
}

int32_t SessionWindow::SizeWithout(size_t drop) const {
  // Else the first turn's prompt begins with the head.
  bool behind_head = headed_ || first_ + drop > 1;
  auto kept = static_cast<int64_t>(behind_head ? head_.size() : 0);
  const auto add = [&](int64_t tokens, int64_t close_tokens) {
    kept += tokens - (behind_head ? close_tokens : 0);
    behind_head = behind_head && tokens == 0;
  };
  const size_t pins = PinsBefore(first_ + drop);
  for (size_t i = 0; i < pins; ++i)
    add(static_cast<int64_t>(pins_[i].tokens.size()), pins_[i].close_tokens);
  for (size_t i = front_.size() + drop; i < turns_.size(); ++i)
    add(turns_[i].tokens, turns_[i].close_tokens);
  return static_cast<int32_t>(kept);
}

SessionWindow SessionWindow::Without(size_t drop) const {
  SessionWindow cut;
  cut.head_ = head_;
  cut.pins_ = pins_;
  cut.first_ = first_ + drop;
  cut.spans_since_ = next();
  cut.mark_ = mark_;
  cut.archived_tokens_ = archived_tokens_;
  cut.headed_ = headed_ || cut.first_ > 1;
  if (cut.headed_) cut.tokens_ = head_;
  const size_t pins = PinsBefore(cut.first_);
  for (size_t i = 0; i < pins; ++i)
    cut.Put(pins_[i]);
  auto from = tokens_.end();
  for (size_t i = turns_.size(); i-- > front_.size() + drop;)
    from -= OwnTokens(i) + turns_[i].recall_tokens;
  for (size_t i = front_.size() + drop; i < turns_.size(); ++i) {
    Span turn = turns_[i];
    // The tokens that close the turn before were already left out where this one stands first.
    const int32_t left_out = turn.tokens - OwnTokens(i);
    const bool closes_nothing = cut.headed_ && cut.FirstFilled() == cut.turns_.size();
    auto begin = from;
    if (closes_nothing && left_out == 0) {
      begin += turn.close_tokens;
      cut.left_out_.assign(from, begin);
    } else if (left_out > 0) {
      auto& kept = closes_nothing ? cut.left_out_ : cut.tokens_;
      kept.insert(kept.end(), left_out_.begin(), left_out_.end());
    }
    const auto span = from + (turn.recall_at - left_out);
    const auto end = from + OwnTokens(i) + turn.recall_tokens;
    cut.tokens_.insert(cut.tokens_.end(), begin, span);
    cut.tokens_.insert(cut.tokens_.end(), span + turn.recall_tokens, end);
    turn.recall_tokens = 0;
    cut.turns_.push_back(turn);
    from = end;
  }
  for (size_t i = front_.size(); i < front_.size() + drop; ++i)
    cut.archived_tokens_ += static_cast<uint64_t>(turns_[i].tokens);
  return cut;
}

// Down to the low water, on the grid. The grid makes the cut the same for windows that differ by a
// few tokens, so that what was prepared after one turn is still right after the next.
size_t SessionWindow::UsualCut(const WindowLimits& limits) const {
  uint64_t line = archived_tokens_;
  for (size_t i = front_.size(); i < turns_.size(); ++i)
    line += static_cast<uint64_t>(turns_[i].tokens);
  const int32_t stays = static_cast<int32_t>(head_.size()) + pinned_tokens();
  const auto kept_max = static_cast<uint64_t>(std::max(0, limits.low_tokens() - stays));
  const auto grid = static_cast<uint64_t>(std::max(1, limits.grid_tokens));
  const uint64_t wanted = line > kept_max ? line - kept_max : 0;
  const uint64_t cut = (wanted + grid - 1) / grid * grid;
  size_t drop = 0;
  // The last turn stays, however long: what is said next is mostly about it.
  for (uint64_t before = archived_tokens_; before < cut && drop + 1 < turns(); ++drop)
    before += static_cast<uint64_t>(turns_[front_.size() + drop].tokens);
  return drop;
}

Result<std::optional<size_t>> SessionWindow::PlanCut(int32_t suffix, int32_t answer_min,
                                                     const WindowLimits& limits) const {
  const auto fits = [&](size_t drop, int32_t mark) { return SizeWithout(drop) + suffix <= mark; };
  const int32_t most = limits.tokens - answer_min;
  const int32_t high = std::min(most, limits.high_tokens());
  if (size() + suffix <= high) return std::optional<size_t>();
  size_t drop = UsualCut(limits);
  while (drop < turns() && !fits(drop, high))
    ++drop;
  // Dropping all does not help a message that is large by itself: keep what there is room for.
  if (drop == turns() && !fits(drop, limits.high_tokens())) {
    drop = UsualCut(limits);
    while (drop < turns() && !fits(drop, most))
      ++drop;
  }
  if (fits(drop, most)) {
    const bool same = drop == 0 && SizeWithout(0) == size();
    return same ? std::optional<size_t>() : std::optional<size_t>(drop);
  }
  std::string parts = std::to_string(suffix) + " tokens, the system prompt among them,";
  if (next() > 1) {  // a first turn brings the head along
    parts = std::to_string(head_.size()) + " tokens of system prompt";
    if (!pins_.empty()) parts += ", " + std::to_string(pinned_tokens()) + " of pinned turns";
    parts += " and " + std::to_string(suffix) + " new ones";
  }
  return Error(Code::kInvalid, "the prompt does not fit: " + parts +
                                   " are more than the window of " + std::to_string(limits.tokens) +
                                   " can hold beside an answer");
}

}  // namespace tenuto
