// What the engine sees of a session: its head, pinned turns that the cut went past, then whole
// turns from the cut to the head of the line, each perhaps with what recall quoted in it
// (docs/decisions/0009). Pure values and rules: where a cut falls depends on the log, the
// message and the settings, never on how busy the server was (INV-8). Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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
  // Where in `suffix` the first message's text begins: what recall quotes goes there. None: it has
  // no place.
  std::optional<uint32_t> text_at;
};

// What recall quoted for a turn. Not history: the log holds which turns, not these tokens.
struct RecallSpan {
  uint32_t at = 0;  // in the turn's own prompt
  std::vector<TokenId> tokens;
  std::vector<uint64_t> lines;  // the turns that it quotes
};

// A turn that stays in the window when the cut goes past it.
struct PinnedTurn {
  uint64_t line = 0;  // its number, from 1
  TurnId id;
  std::vector<TokenId> tokens;  // prompt (without the session's head) and answer
  uint32_t close_tokens = 0;    // of them: what closes the turn before
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
  // The most that the head and all pinned turns may take: a conversation needs room.
  int32_t stays_tokens() const { return static_cast<int32_t>(0.4 * tokens); }
};

// kInvalid with the numbers: a session's head would leave no room for a conversation.
Status CheckHead(std::span<const TokenId> head, const WindowLimits& limits);

// `prompt` with what is quoted in it.
std::vector<TokenId> WithSpan(std::span<const TokenId> prompt, const RecallSpan& span);

// A window as the log has it.
struct StoredWindow {
  const SessionRow& row;
  std::span<const TurnRow> turns;  // as TokenLog::ReadWindow gives them, not empty
  std::vector<RecallSpan> spans;   // of `turns`, or none at all
  uint64_t spans_since = 1;        // turns before it have lost theirs
  std::vector<PinnedTurn> front;   // pinned turns that stand before the first of `turns`
  std::string mark;                // see SessionWindow::mark
};

class SessionWindow {
 public:
  SessionWindow() = default;
  static SessionWindow FromLog(const StoredWindow& stored);

  const std::vector<TokenId>& tokens() const { return tokens_; }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  size_t turns() const { return turns_.size() - front_.size(); }   // from the cut on
  const std::vector<PinnedTurn>& front() const { return front_; }  // pinned, before the cut
  uint64_t first() const { return first_; }           // line number of its oldest turn, from 1
  uint64_t next() const { return first_ + turns(); }  // line number of the turn to come
  uint64_t archived_turns() const { return first_ - 1 - front_.size(); }
  bool has_deleted() const;  // among turns()
  // No turn stands behind the head: the next one's prompt has nothing to close.
  bool closes_nothing() const { return headed_ && FirstFilled() == turns_.size(); }
  // Tokens of turn `i` < turns() here, its recall span included.
  int32_t turn_size(size_t i) const;
  int32_t recall_size(size_t i) const { return turns_[front_.size() + i].recall_tokens; }
  const std::vector<TokenId>& head() const { return head_; }
  void SetHead(std::vector<TokenId> head) { head_ = std::move(head); }  // with the first turn
  int32_t last_turn_tokens() const { return turns_.empty() ? 0 : turns_.back().tokens; }

  // All pinned turns of the session, by line. In effect with the next cut.
  void SetPins(std::vector<PinnedTurn> pins) { pins_ = std::move(pins); }
  const std::vector<PinnedTurn>& pins() const { return pins_; }
  int32_t pinned_tokens() const;  // of all of them, in the window or not

  // Tokens that recall spans take, and the first turn whose span can still be here: a cut takes
  // them all away.
  int32_t recall_tokens() const { return recall_tokens_; }
  uint64_t spans_since() const { return spans_since_; }
  const std::vector<uint64_t>& quoted_lines() const { return quoted_; }
  // Of the frames around quotes in this session; "": none yet.
  const std::string& mark() const { return mark_; }
  void SetMark(std::string mark) { mark_ = std::move(mark); }

  void Append(std::span<const TokenId> prompt, std::span<const TokenId> answer,
              uint32_t close_tokens, const RecallSpan& span = {});
  // Tokens that are left when the oldest `drop` (<= turns()) turns go, and all recall spans.
  int32_t SizeWithout(size_t drop) const;
  // 0: only the spans go.
  SessionWindow Without(size_t drop) const;

  // How many of the oldest turns must go before `suffix` new tokens follow; nullopt: no cut.
  // kInvalid, with the numbers: not even the head alone leaves room for them and `answer_min` more.
  Result<std::optional<size_t>> PlanCut(int32_t suffix, int32_t answer_min,
                                        const WindowLimits& limits) const;
  // The cut that a next turn of usual size gets, whatever it says.
  size_t UsualCut(const WindowLimits& limits) const;

 private:
  struct Span {
    int32_t tokens = 0;         // prompt and answer, without the recall span
    int32_t close_tokens = 0;   // of them, not in a window that begins here
    int32_t recall_at = 0;      // in the prompt
    int32_t recall_tokens = 0;  // there, beside `tokens`
  };

  // Tokens of turns_[at] in this window, without its recall span.
  int32_t OwnTokens(size_t at) const;
  size_t FirstFilled() const;  // index into turns_ of the first that was not deleted
  void Put(const PinnedTurn& turn);
  size_t PinsBefore(uint64_t line) const;

  std::vector<TokenId> head_;
  std::vector<TokenId> tokens_;
  std::vector<Span> turns_;  // those of front_, then those from first_ on
  std::vector<PinnedTurn> front_;
  std::vector<TokenId> left_out_;  // what the first of them would close, in a cut window
  std::vector<PinnedTurn> pins_;
  uint64_t first_ = 1;
  bool headed_ = false;  // tokens_ begin with head_ by itself: the first turn is not here
  uint64_t spans_since_ = 1;
  uint64_t archived_tokens_ = 0;  // of the line, before first_
  int32_t recall_tokens_ = 0;
  std::vector<uint64_t> quoted_;  // by the spans that are here
  std::string mark_;
};

}  // namespace tenuto
