#include "serve/json/parse.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <string>

#include "base/limits.h"

namespace tenuto {
namespace {

std::string Why(std::string_view text) {
  const auto value = ParseJson(text, RequestJsonLimits());
  EXPECT_FALSE(value.ok()) << text;
  if (value.ok()) return "";
  EXPECT_EQ(value.error().code(), Code::kInvalid);
  return value.error().message();
}

TEST(JsonParse, ReadsWhatIsGood) {
  for (const std::string text :
       {R"({"a":[1,-2,3.5,true,null,"x"],"b":{"c":{}}})", R"("\u00e9\ud83d\ude00")", "[]", "0"}) {
    const auto value = ParseJson(text, RequestJsonLimits());
    ASSERT_TRUE(value.ok()) << text << ": " << value.error().message();
  }
  const auto value = ParseJson("  {\"b\":1,\"a\":[2]}\n ", RequestJsonLimits());
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(boost::json::serialize(*value), R"({"b":1,"a":[2]})");
}

TEST(JsonParse, RefusesWhatTheLibraryAccepts) {
  EXPECT_NE(Why(R"({"a":1,"a":2})").find("'a' appears twice"), std::string::npos);
  EXPECT_NE(Why(R"({"x":{"b":1,"c":2,"b":3}})").find("'b' appears twice"), std::string::npos);
  EXPECT_NE(Why(R"({"a":1e999})").find("too large"), std::string::npos);
  EXPECT_NE(Why(R"([-1e999])").find("too large"), std::string::npos);
  // The same name in two objects is no repetition.
  EXPECT_TRUE(ParseJson(R"([{"a":1},{"a":{"a":2}}])", RequestJsonLimits()).ok());
  // An escape does not hide it.
  EXPECT_NE(Why(R"({"a":1,"\u0061":2})").find("twice"), std::string::npos);
}

TEST(JsonParse, NamesTheFieldAtFault) {
  const auto field = [](std::string_view text) {
    return ParseJson(text, RequestJsonLimits()).error().field();
  };
  EXPECT_EQ(field(R"({"a":1,"max_tokens":1,"max_tokens":2})"), "max_tokens");
  EXPECT_EQ(field(R"({"a":[[1],{"b":2}],"temperature":1e999})"), "temperature");
  EXPECT_EQ(field(R"({"a":[0,{"b":[1,2],"c":[1,"x",1e999]}]})"), "a[1].c[2]");
  EXPECT_EQ(field("[1e999]"), "[0]");
  EXPECT_EQ(field("1e999"), "");
  EXPECT_EQ(field(R"({"a":)"), "");
}

TEST(JsonParse, SaysWhereItIsNotUtf8) {
  for (const std::string bad :
       {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xff", "\xe2\x82", "\xf0\x9f\x98"}) {
    for (const std::string before : {"", "a", "long enough to be given in parts", "\xe2\x82\xac"}) {
      std::string text = R"({"a":[1,{"b":")";
      text.append(before).append(bad).append(R"("}]})");
      const auto value = ParseJson(text, RequestJsonLimits());
      ASSERT_FALSE(value.ok());
      EXPECT_EQ(value.error().field(), "a[1].b");
      EXPECT_EQ(value.error().message(), "the body is no valid JSON: it is not UTF-8 (byte " +
                                             std::to_string(14 + before.size()) + ")");
    }
  }
  EXPECT_NE(Why("{\"a\":\xff}").find("not UTF-8 (byte 5)"), std::string::npos);
  // An error before it is the error.
  EXPECT_EQ(Why("{\"a\":x, \"b\":\"0123456789\xff\"}").find("UTF-8"), std::string::npos);
  EXPECT_EQ(ParseJson(R"({"a":["\udc00x"]})", RequestJsonLimits()).error().field(), "a[0]");
}

TEST(JsonParse, SaysWhereASurrogateLacksItsOtherHalf) {
  for (const std::string half : {R"(\ud800)", R"(\uDBFF)", R"(\\\ud9aB)"}) {
    for (const std::string before :
         {"", "a", "long enough to be given in parts", R"(\ud83d\ude00)"}) {
      for (const std::string after : {"", "x", "\u20ac", R"(\n)", R"(\u0041)", R"(\ud800)", "\n"}) {
        std::string text = R"({"a":[1,{"b":")";
        text.append(before).append(half).append(after).append(R"("}]})");
        const auto value = ParseJson(text, RequestJsonLimits());
        ASSERT_FALSE(value.ok());
        EXPECT_EQ(value.error().field(), "a[1].b") << text;
        EXPECT_NE(value.error().message().find("surrogate"), std::string::npos)
            << text << ": " << value.error().message();
      }
    }
  }
  // Text that only looks like one, and a string that does not end, are other errors.
  EXPECT_EQ(Why("{\"a\":\"\\\\ud800\n\"}").find("surrogate"), std::string::npos);
  EXPECT_EQ(Why(R"({"a":"\ud800)").find("surrogate"), std::string::npos);
}

// The value before it is not at fault.
TEST(JsonParse, ABadNameIsAtTheObjectThatHasIt) {
  const auto field = [](const std::string& text) {
    return ParseJson(text, RequestJsonLimits()).error().field();
  };
  EXPECT_EQ(field("{\"a\":{\"b\":1,\"c\xff\":2}}"), "a");
  EXPECT_EQ(field(R"({"a":{"b":1,"c\ud800":2}})"), "a");
  EXPECT_EQ(field(R"({"b":[1],"c\udc00":2})"), "");
}

TEST(JsonParse, WhatIsTooDeepIsAtItsOutermostField) {
  const auto field = [](const std::string& text) {
    return ParseJson(text, RequestJsonLimits()).error().field();
  };
  const std::string deep(1000, '[');
  EXPECT_EQ(field(R"({"x":1,"messages":)" + deep), "messages");
  EXPECT_EQ(field(R"({"messages":[{"content":)" + deep), "messages");
  EXPECT_EQ(field(deep), "[0]");
}

TEST(JsonParse, RefusesWhatIsNoJson) {
  for (const std::string text : {"",
                                 " ",
                                 "{",
                                 "[1,]",
                                 "{\"a\":}",
                                 "{'a':1}",
                                 "NaN",
                                 "[Infinity]",
                                 "nul",
                                 "{} {}",
                                 "1 2",
                                 "[1] x",
                                 "\"\x80\"",
                                 "\"\xc0\xaf\"",
                                 "\"\xed\xa0\x80\"",
                                 "\"a\nb\"",
                                 R"("\ud800")",
                                 R"("\udc00")",
                                 R"("\ud800\u0041")",
                                 R"("\x41")",
                                 "// c\n1",
                                 "01",
                                 "+1",
                                 "\xef\xbb\xbf{}"}) {
    EXPECT_FALSE(Why(text).empty()) << text;
  }
}

TEST(JsonParse, BoundsDepthMembersAndMemory) {
  const size_t n = 200'000;
  EXPECT_NE(Why(std::string(n, '[')).find("too deeply"), std::string::npos);
  std::string objects;
  for (size_t i = 0; i < n; ++i)
    objects += "{\"a\":";
  EXPECT_NE(Why(objects).find("too deeply"), std::string::npos);
  const std::string deepest = std::string(kJsonDepthMax, '[') + std::string(kJsonDepthMax, ']');
  EXPECT_TRUE(ParseJson(deepest, RequestJsonLimits()).ok());
  Why("[" + deepest + "]");

  std::string many = "{";
  for (int i = 0; i < 70'000; ++i) {
    many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  }
  EXPECT_NE(Why(many + "}").find("too many names"), std::string::npos);

  const JsonLimits tight{8, 100, 4096};
  std::string numbers = "[0";
  for (int i = 0; i < 1000; ++i)
    numbers += ",0";
  const auto value = ParseJson(numbers + "]", tight);
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.error().code(), Code::kInvalid);
}

TEST(JsonParse, AnObjectIsWanted) {
  EXPECT_TRUE(ParseJsonObject(R"({"a":1})").ok());
  EXPECT_FALSE(ParseJsonObject("[1]").ok());
  EXPECT_FALSE(ParseJsonObject("\"a\"").ok());
}

}  // namespace
}  // namespace tenuto
