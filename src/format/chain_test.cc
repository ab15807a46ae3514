#include "format/chain.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tenuto {
namespace {

SessionKey Key() {
  return {.tenant = "default", .user = "me", .agent = "default", .session = "chat-1"};
}

// The values come from tests/vectors/piece/make.py, which computes them from docs/formats/piece.md.
TEST(ChainTest, ValuesOfTheFormatPage) {
  const Digest256 owner = OwnerDigest(Key());
  EXPECT_EQ(owner.Hex(), "4fd8c8b49fd7f262ea07bbaa999d40f633e9cee6d4a0bcb3187c02d8b731b04b");
  const Digest256 start = ChainStart(owner, Sha256Of("model-a"));
  EXPECT_EQ(start.Hex(), "281ca7b061309c1b0e651259b859b12fa26668eba1025db49a3a2cd69cbe2a9c");
  const std::vector<TokenId> first = {1, 2, 3, 4, 5};
  const std::vector<TokenId> second = {6, 7, 8, 49151};
  const Digest256 begin = ChainExtend(start, first);
  EXPECT_EQ(begin.Hex(), "01d834656f8323f782c860c51a5a586d953d447f001761daf58ef81070b3e3af");
  EXPECT_EQ(ChainExtend(begin, second).Hex(),
            "571177fc21475bce62367c96b052fdcf51146d95d9635e8a26913979ed556d46");
}

TEST(ChainTest, OwnersDifferInEachPartAndInHowPartsAreCut) {
  std::set<std::string> digests;
  const auto add = [&digests](const SessionKey& key) { digests.insert(OwnerDigest(key).Hex()); };
  add(Key());
  SessionKey key = Key();
  key.tenant = "x";
  add(key);
  key = Key();
  key.user = "x";
  add(key);
  key = Key();
  key.agent = "x";
  add(key);
  key = Key();
  key.session = "x";
  add(key);
  add({.tenant = "ab", .user = "c", .agent = "d", .session = "e"});
  add({.tenant = "a", .user = "bc", .agent = "d", .session = "e"});
  EXPECT_EQ(digests.size(), 7U);
}

TEST(ChainTest, DependsOnEveryTokenItsOrderAndTheCuts) {
  const Digest256 start = ChainStart(OwnerDigest(Key()), Sha256Of("model-a"));
  std::set<std::string> digests;
  const auto add = [&digests](const Digest256& digest) { digests.insert(digest.Hex()); };
  const std::vector<TokenId> run = {1, 2, 3};
  add(start);
  add(ChainExtend(start, run));
  add(ChainExtend(start, std::vector<TokenId>{1, 3, 2}));
  add(ChainExtend(start, std::vector<TokenId>{1, 2}));
  add(ChainExtend(start, std::vector<TokenId>{1, 2, -3}));
  add(ChainExtend(start, {}));
  add(ChainExtend(ChainExtend(start, std::span(run).first(1)), std::span(run).subspan(1)));
  add(ChainExtend(ChainStart(OwnerDigest(Key()), Sha256Of("model-b")), run));
  EXPECT_EQ(digests.size(), 8U);
}

}  // namespace
}  // namespace tenuto
