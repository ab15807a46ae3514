// What of ranked turns is quoted, and how much of each: reads them, cuts them to size, puts them
// together in a span that keeps within its budget of tokens. Blocking; one thread. A pure function
// of the question, the ranking and the log (INV-8).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "session/recall_memory.h"

namespace tenuto {

class Quoter {
 public:
  // All outlive it. `ids`: by line, of turns that need not be read to be named.
  Quoter(TokenLog& log, const TokenizeText& tokenize, const RecallQuestion& question,
         const Ranking& ranking, std::map<uint32_t, TurnId> ids);

  // nullptr: deleted, or not to be read. `terms`: those that match, as RecallHit has them.
  const QuotedTurn* Read(uint32_t line, std::span<const std::string> terms);
  // Nothing: deleted, or not to be read.
  std::optional<TurnId> IdOf(const RecallHit& hit);
  // What of the hits the gate lets through, whatever it costs; those that are gone leave the
  // ranking. Those that are held back are not read: a long session's pages are many and cold.
  GateResult Decide(Ranking& ranking, GateSettings gate);

  // How much of a turn that was read is quoted: all that may be, with 0; then step by step less of
  // the sides that were not asked for, then fewer words around the matches. REQUIRES: step is at
  // most LastStep().
  void Resize(uint32_t line, uint32_t step);
  uint32_t LastStep() const;
  // The last step that leaves alone what was asked for.
  static constexpr uint32_t kAsksLess = 2;

  // The span of these lines, which were read: in the order of time, in a frame whose mark neither
  // they nor the message hold. False: that is too long, or leaves
  // one of them without a word.
  bool Compose(const std::set<uint32_t>& lines, RecallChoice& choice);

 private:
  enum class Side : uint8_t { kUser, kAnswer, kTool };
  static constexpr std::array<Side, 3> kSides = {Side::kUser, Side::kAnswer, Side::kTool};
  struct Sized {
    QuotedTurn turn;
    RecallQuote most;               // the most that is quoted of each side
    std::optional<TextRange> kept;  // the most of the side that is kept when the others go
    std::vector<std::string> terms;
    std::optional<Side> keeps;
  };
  static const std::string& TextOf(const ArchivedText& text, Side side);
  static TextRange& PartOf(RecallQuote& quote, Side side);

  uint32_t OtherWords() const;
  uint32_t WordsAt(uint32_t step) const;
  TextRange ToolPart(const Sized& sized) const;
  Side Kept(Sized& sized) const;
  const std::string& FirstTurn();

  TokenLog& log_;
  const TokenizeText& tokenize_;
  const RecallQuestion& question_;
  std::map<uint32_t, TurnId> ids_;
  const uint32_t words_;  // of what was asked for; fewer of the other side
  const bool asks_assistant_;
  std::map<uint32_t, Sized> turns_;
  std::optional<std::string> first_turn_;
};

// Quotes what the gate let through, the best first, each with what must come along: an old fact is
// never left without the newest. What does not fit beside the better ones is shortened; what does
// not fit even so is over the budget. `result`: of Quoter::Decide, its verdicts are brought up.
void FitQuotes(Quoter& quoter, const Ranking& ranking, const GateSettings& gate, GateResult& result,
               RecallChoice& choice);

}  // namespace tenuto
