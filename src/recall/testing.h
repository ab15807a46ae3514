// What tests of recall share: an index that is filled line by line, a minute apart; hits made up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recall/gate.h"

namespace tenuto {

// A hit with two words of a message, in a turn of a hundred.
inline RecallHit Hit(uint32_t turn, double log_expected, double score = 1.0) {
  RecallHit hit;
  hit.turn = turn;
  hit.score = score;
  hit.log_expected = log_expected;
  hit.info = 10.0;
  hit.units = 2;
  hit.tokens = 100;
  return hit;
}

class TestArchive {
 public:
  // Returns the turn's number, counted from 1.
  uint32_t Say(std::string_view user, std::string_view answer = "Noted.",
               std::vector<uint32_t> recalled = {}) {
    ArchivedTurn turn;
    turn.turn = ++turns;
    turn.time = {1715342400 + 86400 * day + 60 * int64_t{turns}, 0};
    turn.user = user;
    turn.answer = answer;
    turn.recalled = recalled;
    index.Add(analyser, turn);
    text_bytes += user.size() + answer.size();
    return turns;
  }

  // Turns about nothing that the tests ask for; each has words of its own.
  void Fill(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const std::string n = std::to_string(turns);
      std::string user = "Today the weather near plume";
      user.append(n).append("x is calm and the river quark").append(n).append("y rises.");
      Say(user, std::string("Rivers like drift").append(n).append("z rise in spring."));
    }
  }

  Ranking Rank(const Question& question, size_t hits_max = 5) {
    const RecallScope scope = {{{0, window_from}}, {{window_from, UINT32_MAX}}};
    return scorer.Rank(index, BuildQuery(analyser, index, question), scope, hits_max);
  }
  Ranking Rank(std::string_view text, size_t hits_max = 5) {
    return Rank(Question{text, {1715429000, 0}, {}, {}}, hits_max);
  }

  Analyser analyser;
  RecallIndex index;
  RecallScorer scorer;
  uint32_t turns = 0;
  int64_t day = 0;  // after 10 May 2024
  uint32_t window_from = UINT32_MAX;
  size_t text_bytes = 0;
};

inline std::vector<uint32_t> TurnsOf(const Ranking& ranking) {
  std::vector<uint32_t> turns;
  for (const RecallHit& hit : ranking.hits)
    turns.push_back(hit.turn);
  return turns;
}

}  // namespace tenuto
