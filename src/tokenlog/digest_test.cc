#include "tokenlog/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace tenuto {
namespace {

const SessionKey kKey = {
    .tenant = "default", .user = "alice", .agent = "default", .session = "chat-1"};

// The worked example of docs/formats/tokenlog.md; the expected digests were computed by another
// program.
TurnRow Example() {
  TurnRow turn;
  turn.id = {"01HF7YAT000000000000000001"};
  turn.prompt = {1, 2, 300};
  turn.answer = {7};
  turn.items_json = R"([{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}])";
  turn.params_json = R"({"seed":1})";
  turn.finish_reason = "stop";
  turn.created_unix_ms = 1700000000000;
  turn.completed_unix_ms = 1700000000900;
  return turn;
}

TEST(TurnDigest, WorkedExample) {
  EXPECT_EQ(LineSeed(kKey).Hex(),
            "bc34c7727cdf28eef287dbeb02bc57bb45c730d6f988cbbb151a3394f05434cd");
  EXPECT_EQ(TurnDigest(LineSeed(kKey), Example()).Hex(),
            "7447c615b580cdbb39eb20ccecaab3368805ed177a4da839c6b1a4e316ecff27");
}

TEST(TurnDigest, EveryFieldCounts) {
  const std::vector<std::function<void(TurnRow&)>> changes = {
      [](TurnRow& t) { t.id.value += "X"; },
      [](TurnRow& t) { t.parent.value = "P"; },
      [](TurnRow& t) { t.prompt.back() ^= 1; },
      [](TurnRow& t) { t.answer.push_back(0); },
      // A token that moves from the prompt to the answer.
      [](TurnRow& t) {
        t.answer.insert(t.answer.begin(), t.prompt.back());
        t.prompt.pop_back();
      },
      [](TurnRow& t) { t.items_json += " "; },
      [](TurnRow& t) { t.params_json += " "; },
      [](TurnRow& t) { t.finish_reason = "length"; },
      [](TurnRow& t) { t.incomplete = true; },
      [](TurnRow& t) { t.idempotency_key = "k"; },
      [](TurnRow& t) { t.outcome_json = "k"; },
      [](TurnRow& t) { t.recall_json = "k"; },
      [](TurnRow& t) { ++t.created_unix_ms; },
      [](TurnRow& t) { ++t.completed_unix_ms; },
  };
  std::vector<std::string> digests = {TurnDigest(LineSeed(kKey), Example()).Hex()};
  for (const auto& change : changes) {
    TurnRow turn = Example();
    change(turn);
    digests.push_back(TurnDigest(LineSeed(kKey), turn).Hex());
  }
  SessionKey other = kKey;
  other.session = "chat-2";
  digests.push_back(TurnDigest(LineSeed(other), Example()).Hex());
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
  EXPECT_EQ(digests.size(), changes.size() + 2);
}

}  // namespace
}  // namespace tenuto
