// What the engine sees of a session: its head, then whole turns from the cut to the head of the
// line (docs/decisions/0009). Pure values and rules: where a cut falls depends on the log, the
// message and the settings, never on how busy the server was (INV-8). Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tokenlog/log.h"

namespace tenuto {

// A turn's own part of the prompt.
struct TurnTokens {
  std::vector<TokenId> suffix;
  uint32_t close_tokens = 0;  // of the suffix: what closes the turn before
  // With a session's first turn: what stays at the start of every window. None: all of this turn
  // and `close`, since the system prompt can't be told from the first message.
  std::optional<std::vector<TokenId>> head;
  std::vector<TokenId> close;
};

// The head that a first turn with this answer gives its session.
std::vector<TokenId> HeadOf(const TurnTokens& tokens, std::span<const TokenId> answer);

// Tokens that both begin with.
inline TokenPos CommonPrefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<TokenPos>(std::ranges::mismatch(a, b).in1 - a.begin());
}

struct WindowLimits {
  int32_t tokens = 0;         // most tokens of a prompt and its answer
  int32_t answer_tokens = 0;  // kept free for the answer
  double high = 0.9;          // a prompt that would leave less of this share than the answer is cut
  double low = 0.55;          // what a cut keeps at most
  int32_t grid_tokens = 1;    // cuts fall on the first turn at or behind a multiple of this

  int32_t high_tokens() const { return static_cast<int32_t>(high * tokens) - answer_tokens; }
  int32_t low_tokens() const { return static_cast<int32_t>(low * tokens); }
};

class SessionWindow {
 public:
  SessionWindow() = default;
  // The window as the log has it: `turns` as TokenLog::ReadWindow gives them, not empty.
  static SessionWindow FromLog(const SessionRow& row, std::span<const TurnRow> turns);

  const std::vector<TokenId>& tokens() const { return tokens_; }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  size_t turns() const { return turns_.size(); }
  uint64_t first() const { return first_; }  // line number of its oldest turn, from 1
  uint64_t archived_turns() const { return first_ - 1; }
  const std::vector<TokenId>& head() const { return head_; }
  void SetHead(std::vector<TokenId> head) { head_ = std::move(head); }  // with the first turn
  int32_t last_turn_tokens() const { return turns_.empty() ? 0 : turns_.back().tokens; }

  void Append(std::span<const TokenId> prompt, std::span<const TokenId> answer,
              uint32_t close_tokens);
  // Tokens that are left when the oldest `drop` (<= turns()) turns go.
  int32_t SizeWithout(size_t drop) const;
  SessionWindow Without(size_t drop) const;

  // How many of the oldest turns must go before `suffix` new tokens follow; 0: none. kInvalid, with
  // the numbers: not even the head alone leaves room for them and `answer_min` more.
  Result<size_t> PlanCut(int32_t suffix, int32_t answer_min, const WindowLimits& limits) const;
  // The cut that a next turn of usual size gets, whatever it says.
  size_t UsualCut(const WindowLimits& limits) const;

 private:
  struct Span {
    int32_t tokens = 0;        // prompt and answer
    int32_t close_tokens = 0;  // of them, not in a window that begins here
  };

  std::vector<TokenId> head_;
  std::vector<TokenId> tokens_;
  std::vector<Span> turns_;
  uint64_t first_ = 1;
  uint64_t archived_tokens_ = 0;  // of the line, before first_
};

}  // namespace tenuto
