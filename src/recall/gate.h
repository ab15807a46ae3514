// Decides what of a ranking goes into the prompt. The measure has no scale of its own: how many
// turns of this session would match as well by chance (RecallHit::log_expected), so that it means
// the same at 30 turns and at 200,000. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "recall/scorer.h"

namespace tenuto {

enum class RecallWhy : uint8_t {
  kMatches,        // injected: too good for chance
  kRanksAbove,     // injected: explained by chance, but it answers better than one that is not
  kCorrection,     // injected: it corrects, or is corrected by, another that is
  kForced,         // injected: the request says so
  kChance,         // as many turns would match as well by chance
  kSmallTalk,      // the message asks for nothing that was said
  kInheritedOnly,  // only words of the last turn match, and the message does not ask
  kInWindow,       // the window has as much about it
  kFarBelowBest,
  kOverLimit,
  kOverBudget,
};
std::string_view RecallWhyName(RecallWhy why);
// Injected for itself, as far as limits allow; not brought along by another.
bool StandsForItself(RecallWhy why);

enum class RecallDecision : uint8_t { kInjected, kGated, kEmpty };

// Chosen on the development set by tests/recall_data/tune_gate.py.
struct GateSettings {
  // Turns that may match by chance, as ln: the gate opens below.
  double log_expected_max = -2.0;
  double log_apart = 0.5;         // taken off for each nat of info in another sentence
  double log_dated = 5.5;         // added for a hit that has the message's day and most other words
  double log_day = 4.25;          // ... for one that has little but the day a question names
  double log_task = -1.0;         // added for a message that looks like work without memory
  double log_proper = 1.5;        // added where a name and another word match
  double log_named_matter = 2.0;  // ... where a name does, and the rest of a question elsewhere
  double log_identifier = 5.0;    // added where a whole identifier matches
  double log_personal = 1.0;      // added for a message about the speaker
  double log_one_word = 2.5;      // added where a question has one, and asks for what is there
  double log_asked_before = 3.0;  // added for a question that was asked before
  double log_inherited = 2.5;     // added where words of the last turn are needed
  double share_of_best = 0.3;
  uint32_t hits_max = 5;
  uint32_t tokens_max = 2048;
  bool force = false;  // inject the best whatever the gate thinks
};

struct RecallVerdict {
  RecallHit hit;
  RecallWhy why = RecallWhy::kChance;
  bool injected = false;
};

struct GateResult {
  RecallDecision decision = RecallDecision::kEmpty;
  std::vector<RecallVerdict> verdicts;  // every hit, best first, then those brought along
  std::vector<uint32_t> injected;       // turns in the order of time
  uint32_t tokens = 0;                  // of the injected
};

// Whether one more turn may be injected where `admitted` are. What an earlier asking of the same
// question had in its prompt may be twice as many: they came together then.
bool HasRoom(const GateSettings& settings, const RecallHit& hit, uint32_t admitted);

GateResult ApplyGate(const Ranking& ranking, const GateSettings& settings);

}  // namespace tenuto
