#include "serve/json/writer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <limits>
#include <string>

namespace tenuto {
namespace {

TEST(JsonWriter, Escapes) {
  EXPECT_EQ(JsonString("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(JsonString("\n\r\t\b\f\x01\x1f"), R"("\n\r\t\b\f\u0001\u001f")");
  EXPECT_EQ(JsonString(std::string_view("\0x", 2)), R"("\u0000x")");
  EXPECT_EQ(JsonString("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
}

TEST(JsonWriter, EscapesWhatATerminalActsOn) {
  EXPECT_EQ(JsonString("\x7f"), R"("\u007f")");
  EXPECT_EQ(JsonString("a\xc2\x9b"
                       "31m"),
            R"("a\u009b31m")");
  EXPECT_EQ(JsonString("\xe2\x80\xa8\xe2\x80\xa9"), R"("\u2028\u2029")");
  EXPECT_EQ(JsonString("\xc2\xa0"), "\"\xc2\xa0\"");
}

TEST(JsonWriter, ReplacesWhatIsNoUtf8) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(JsonString("a\x80z"), "\"a" + bad + "z\"");
  EXPECT_EQ(JsonString("\xc3"), "\"" + bad + "\"");
  EXPECT_EQ(JsonString("\xc0\xaf"), "\"" + bad + bad + "\"");                      // overlong
  EXPECT_EQ(JsonString("\xed\xa0\x80"), "\"" + bad + bad + bad + "\"");            // surrogate
  EXPECT_EQ(JsonString("\xf4\x90\x80\x80"), "\"" + bad + bad + bad + bad + "\"");  // past U+10FFFF
}

TEST(JsonWriter, AnyBytesBecomeAStringThatParses) {
  EXPECT_TRUE(rc::check("any bytes", [](const std::string& bytes) {
    const std::string json = JsonString(bytes);
    boost::system::error_code ec;
    const auto value = boost::json::parse(json, ec);
    RC_ASSERT(!ec);
    RC_ASSERT(value.is_string());
    if (IsUtf8(bytes)) RC_ASSERT(std::string(value.get_string()) == bytes);
  }));
}

TEST(JsonWriter, PutsCommasAndNumbers) {
  JsonWriter writer;
  writer.BeginObject().Field("a", 1).Key("b").BeginArray().Int(-1).Uint(18446744073709551615U);
  writer.BeginObject().EndObject().Null().EndArray().Field("c", true).Key("d").Raw("[1]");
  writer.Field("e", 0.8).Field("f", std::numeric_limits<double>::infinity());
  writer.Field("g", std::nan("")).Field("h", 1e-5).EndObject();
  EXPECT_EQ(writer.text(),
            R"({"a":1,"b":[-1,18446744073709551615,{},null],"c":true,"d":[1],"e":0.8,)"
            R"("f":null,"g":null,"h":1e-05})");
}

}  // namespace
}  // namespace tenuto
