#include "crypto/hash.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace tenuto {
namespace {

// FIPS 180-4 / NIST CAVP examples.
TEST(Sha256Test, NistVectors) {
  EXPECT_EQ(Sha256Of("").Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of("abc").Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").Hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Of(std::string(1'000'000, 'a')).Hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PartsEqualTheWholeForEveryCut) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text.push_back(static_cast<char>(i));
  const Digest256 whole = Sha256Of(text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Sha256 hash;
    hash.Update(std::string_view(text).substr(0, cut));
    hash.Update(std::string_view(text).substr(cut));
    EXPECT_EQ(hash.Finish(), whole) << "cut at " << cut;
  }
}

TEST(Sha256Test, FieldsDoNotRunIntoEachOther) {
  Sha256 a;
  a.UpdateField("ab");
  a.UpdateField("c");
  Sha256 b;
  b.UpdateField("a");
  b.UpdateField("bc");
  EXPECT_NE(a.Finish(), b.Finish());
}

TEST(Sha256Test, U64IsLittleEndian) {
  Sha256 hash;
  hash.UpdateU64(0x0102030405060708);
  EXPECT_EQ(hash.Finish(), Sha256Of("\x08\x07\x06\x05\x04\x03\x02\x01"));
}

TEST(Sha256Test, InterleavedHashesDoNotShareState) {
  std::vector<Sha256> hashes(10);
  for (size_t round = 0; round < 3; ++round) {
    for (size_t i = 0; i < hashes.size(); ++i)
      hashes[i].Update(std::string(i + 1, 'x'));
  }
  for (size_t i = 0; i < hashes.size(); ++i) {
    EXPECT_EQ(hashes[i].Finish(), Sha256Of(std::string(3 * (i + 1), 'x')));
  }
  // The contexts given back above are used again: nothing of the past may be left in them.
  hashes.clear();
  EXPECT_EQ(Sha256Of("abc").Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, MovesBetweenThreads) {
  Sha256 hash;
  hash.Update("a");
  Digest256 digest;
  std::thread other([&digest, moved = std::move(hash)]() mutable {
    moved.Update("bc");
    digest = moved.Finish();
  });
  other.join();
  EXPECT_EQ(digest, Sha256Of("abc"));
}

TEST(Sha256DeathTest, FinishIsOnce) {
  Sha256 hash;
  hash.Finish();
  EXPECT_DEATH(hash.Finish(), "internal error");
  EXPECT_DEATH(hash.Update("x"), "internal error");
}

}  // namespace
}  // namespace tenuto
