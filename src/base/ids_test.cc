#include "base/ids.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace tenuto {
namespace {

SessionKey Key(std::string tenant, std::string user, std::string agent, std::string session) {
  return {std::move(tenant), std::move(user), std::move(agent), std::move(session)};
}

void ExpectRefused(std::string_view text, std::string_view part_of_message) {
  const Result<SessionKey> key = ParseSessionKey(text);
  ASSERT_FALSE(key.ok()) << text.substr(0, 40);
  EXPECT_EQ(key.error().code(), Code::kInvalid);
  EXPECT_NE(key.error().message().find(part_of_message), std::string::npos)
      << key.error().message();
}

TEST(SessionKey, OnePartIsASessionOfMe) {
  EXPECT_EQ(ParseSessionKey("chat-1").value(), Key("default", "me", "default", "chat-1"));
}

TEST(SessionKey, TwoPartsAreUserAndSession) {
  EXPECT_EQ(ParseSessionKey("alice::chat-1").value(), Key("default", "alice", "default", "chat-1"));
}

TEST(SessionKey, FourPartsNameEverything) {
  EXPECT_EQ(ParseSessionKey("acme::alice::coder::chat-1").value(),
            Key("acme", "alice", "coder", "chat-1"));
}

TEST(SessionKey, TakesEveryAllowedCharacter) {
  const std::string all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  EXPECT_EQ(ParseSessionKey(all).value().session, all);
}

TEST(SessionKey, EveryOtherByteIsRefused) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool allowed = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
    EXPECT_EQ(ParseSessionKey(std::string("a") + c + "b").ok(), allowed) << byte;
  }
}

TEST(SessionKey, OtherNumbersOfPartsAreRefusedWithTheNumber) {
  ExpectRefused("a::b::c", "3 parts");
  ExpectRefused("a::b::c::d::e", "5 parts");
}

TEST(SessionKey, EmptyPartsAreRefused) {
  for (const char* text : {"", "::", "::a", "a::", "a::::b", "a::b::::c"})
    ExpectRefused(text, "empty part");
}

TEST(SessionKey, SingleAndTripleColonsAreRefused) {
  ExpectRefused("a:b", "letters, digits");
  ExpectRefused("a:::b", "letters, digits");
}

TEST(SessionKey, LengthOfAPartIsOneTo128) {
  const std::string longest(128, 'x');
  EXPECT_TRUE(ParseSessionKey(longest).ok());
  EXPECT_TRUE(ParseSessionKey(longest + "::" + longest + "::" + longest + "::" + longest).ok());
  ExpectRefused(longest + "x", "longer than 128");
  ExpectRefused("a::" + longest + "x", "longer than 128");
}

TEST(SessionKey, LongInputIsRefusedBeforeItIsSplit) {
  ExpectRefused(std::string(10 * 1024, 'x'), "longer than four parts");
  ExpectRefused(std::string(10'000'000, ':'), "longer than four parts");
}

TEST(SessionKey, DotsThatCouldBecomePathsAreRefused) {
  ExpectRefused(".", "start with '.'");
  ExpectRefused("..", "start with '.'");
  ExpectRefused(".hidden", "start with '.'");
  ExpectRefused("alice::.hidden", "start with '.'");
  ExpectRefused("a..b", "'..'");
  ExpectRefused("a..", "'..'");
  EXPECT_TRUE(ParseSessionKey("a.b.c.").ok());
  ExpectRefused("a/b", "letters, digits");
  ExpectRefused(std::string_view("a\0b", 3), "letters, digits");
}

TEST(SessionKey, ShortFormLeavesDefaultsOut) {
  EXPECT_EQ(Key("default", "me", "default", "x").Short(), "x");
  EXPECT_EQ(Key("default", "alice", "default", "x").Short(), "alice::x");
  EXPECT_EQ(Key("acme", "me", "default", "x").Short(), "acme::me::default::x");
  EXPECT_EQ(Key("default", "me", "coder", "x").Short(), "default::me::coder::x");
}

rc::Gen<std::string> PartGen() {
  static const std::string kChars =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const auto any = rc::gen::map(
      rc::gen::resize(
          128, rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(kChars)))),
      [](std::string part) {
        // Repair instead of refuse: the rules about dots would throw most drawn parts away.
        part.resize(std::min(part.size(), kSessionPartBytesMax));
        for (size_t i = 0; i < part.size(); ++i)
          if (part[i] == '.' && (i == 0 || part[i - 1] == '.')) part[i] = '_';
        return part;
      });
  return rc::gen::oneOf(any, rc::gen::element<std::string>("default", "me"));
}

RC_GTEST_PROP(SessionKeyProperty, FullAndShortParseBackAndFullIsUnique, ()) {
  const SessionKey key = Key(*PartGen(), *PartGen(), *PartGen(), *PartGen());
  const SessionKey other = Key(*PartGen(), *PartGen(), *PartGen(), *PartGen());
  RC_ASSERT(ParseSessionKey(key.Full()).value() == key);
  RC_ASSERT(ParseSessionKey(key.Short()).value() == key);
  RC_ASSERT(key.Short().size() <= key.Full().size());
  RC_ASSERT((key.Full() == other.Full()) == (key == other));
}

RC_GTEST_PROP(SessionKeyProperty, WhatParsesObeysTheRules, (const std::string& text)) {
  const Result<SessionKey> key = ParseSessionKey(text);
  if (!key.ok()) return;
  for (const std::string& part : {key->tenant, key->user, key->agent, key->session}) {
    RC_ASSERT(!part.empty() && part.size() <= kSessionPartBytesMax);
    RC_ASSERT(part.front() != '.');
    RC_ASSERT(part.find("..") == std::string::npos);
  }
}

TEST(TurnId, IsTwentySixCharactersOfBase32) {
  const TurnId id = MakeTurnId(1'700'000'000'000, "0123456789");
  ASSERT_EQ(id.value.size(), 26u);
  EXPECT_EQ(id.value.find_first_not_of("0123456789ABCDEFGHJKMNPQRSTVWXYZ"), std::string::npos);
}

TEST(TurnId, KnownValues) {
  EXPECT_EQ(MakeTurnId(0, std::string(10, '\0')).value, std::string(26, '0'));
  EXPECT_EQ(MakeTurnId((int64_t{1} << 48) - 1, std::string(10, '\xFF')).value,
            "7" + std::string(25, 'Z'));
  // 1 in the last bit, and 1 in the last bit of the time: 80 bits are 16 characters.
  EXPECT_EQ(MakeTurnId(0, std::string(9, '\0') + '\x01').value, std::string(25, '0') + "1");
  EXPECT_EQ(MakeTurnId(1, std::string(10, '\0')).value,
            std::string(9, '0') + "1" + std::string(16, '0'));
}

TEST(TurnIdDeathTest, TooLittleEntropyAborts) {
  EXPECT_DEATH(MakeTurnId(0, "short"), "internal error");
}

RC_GTEST_PROP(TurnIdProperty, SortsByTimeThenEntropy, ()) {
  const auto time = rc::gen::inRange<int64_t>(0, int64_t{1} << 48);
  const auto entropy = rc::gen::container<std::string>(10, rc::gen::arbitrary<char>());
  const int64_t a_ms = *time;
  const int64_t b_ms = *rc::gen::oneOf(time, rc::gen::just(a_ms));
  const std::string a_entropy = *entropy;
  const std::string b_entropy = *entropy;
  const TurnId a = MakeTurnId(a_ms, a_entropy);
  const TurnId b = MakeTurnId(b_ms, b_entropy);
  // std::string compares bytes as unsigned, as the id's bits are.
  RC_ASSERT((a < b) == (std::pair(a_ms, a_entropy) < std::pair(b_ms, b_entropy)));
}

TEST(TokenRange, IsHalfOpen) {
  EXPECT_EQ((TokenRange{3, 7}).size(), 4);
  EXPECT_EQ(TokenRange{}.size(), 0);
}

}  // namespace
}  // namespace tenuto
