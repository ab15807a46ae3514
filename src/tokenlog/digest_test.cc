#include "tokenlog/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tokenlog/checks.h"

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

TurnRow SecondExample() {
  TurnRow turn = Example();
  turn.parent = turn.id;
  turn.id = {"01HF7YAT000000000000000002"};
  turn.prompt = {8, 2, 5};
  turn.answer = {9, 4};
  turn.window_first = 2;
  turn.close_tokens = 1;
  turn.created_unix_ms = 1700000001000;
  turn.completed_unix_ms = 1700000001500;
  return turn;
}

const std::vector<TokenId> kHead = {1};

TEST(TurnDigest, WorkedExample) {
  const Digest256 seed = LineSeed(kKey, kHead);
  EXPECT_EQ(seed.Hex(), "3309638a3d7c5470ff6925b356a7a19e1182260689febefbcc651a2078870bca");
  const Digest256 first = TurnDigest(seed, Example());
  EXPECT_EQ(first.Hex(), "233be8c351743a6f7c46f4d875f64cc7f6ef280e35bac1cef1d2e35639615d5c");
  EXPECT_EQ(TurnDigest(first, SecondExample()).Hex(),
            "20c372fb8a1f7dd7516e124145f05618d510704192135cd1cc7c968f77b7e7f2");
  const Digest256 second = TurnDigest(first, SecondExample());
  EXPECT_EQ(TombstoneDigest(seed, {first, 1, 4}, Example()).Hex(),
            "2418afea109260c0406319148816073c0e041fbbf83e88158b8588b5304f3e69");
  EXPECT_EQ(TombstoneDigest(first, {second, 2, 9}, SecondExample()).Hex(),
            "8687d98e563ae94bee601848044beaf9a243f3712d6ccd60c060b7596fa93adf");
}

TEST(TombstoneDigest, HoldsThePlaceAndNothingElse) {
  const Digest256 seed = LineSeed(kKey, kHead);
  const LineEnd end = {TurnDigest(seed, SecondExample()), 2, 9};
  const Digest256 held = TombstoneDigest(seed, end, SecondExample());
  const std::vector<std::function<void(TurnRow&)>> changes = {
      [](TurnRow& t) { t.id.value += "X"; },     [](TurnRow& t) { t.parent.value += "X"; },
      [](TurnRow& t) { t.window_first = 1; },    [](TurnRow& t) { ++t.created_unix_ms; },
      [](TurnRow& t) { ++t.completed_unix_ms; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    TurnRow turn = SecondExample();
    changes[i](turn);
    EXPECT_NE(TombstoneDigest(seed, end, turn), held) << i;
  }
  EXPECT_NE(TombstoneDigest(end.digest, end, SecondExample()), held);
  EXPECT_NE(TombstoneDigest(seed, {seed, 2, 9}, SecondExample()), held);
  EXPECT_NE(TombstoneDigest(seed, {end.digest, 3, 9}, SecondExample()), held);
  EXPECT_NE(TombstoneDigest(seed, {end.digest, 2, 8}, SecondExample()), held);
  EXPECT_EQ(TombstoneDigest(seed, end, TombstoneOf(SecondExample())), held);
}

TEST(TurnDigest, EveryFieldCounts) {
  const std::vector<std::function<void(TurnRow&)>> changes = {
      [](TurnRow& t) { t.id.value += "X"; },
      [](TurnRow& t) { t.parent.value = "P"; },
      [](TurnRow& t) { t.window_first = 0; },
      [](TurnRow& t) { t.window_first = 2; },
      [](TurnRow& t) { t.close_tokens = 1; },
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
  std::vector<std::string> digests = {TurnDigest(LineSeed(kKey, kHead), Example()).Hex()};
  for (const auto& change : changes) {
    TurnRow turn = Example();
    change(turn);
    digests.push_back(TurnDigest(LineSeed(kKey, kHead), turn).Hex());
  }
  SessionKey other = kKey;
  other.session = "chat-2";
  digests.push_back(TurnDigest(LineSeed(other, kHead), Example()).Hex());
  digests.push_back(TurnDigest(LineSeed(kKey, {1, 1}), Example()).Hex());
  digests.push_back(TurnDigest(LineSeed(kKey, {}), Example()).Hex());
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
  EXPECT_EQ(digests.size(), changes.size() + 4);
}

}  // namespace
}  // namespace tenuto
