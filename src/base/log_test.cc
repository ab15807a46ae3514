#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>
#include <vector>

namespace tenuto {
namespace {

std::string Json(std::vector<LogField> fields, std::string_view event = "e") {
  return FormatLogLine(LogFormat::kJson, 0, LogLevel::kInfo, event, fields);
}

std::string Text(std::vector<LogField> fields, std::string_view event = "e") {
  return FormatLogLine(LogFormat::kText, 0, LogLevel::kInfo, event, fields);
}

constexpr char kJsonHead[] = R"({"ts":"1970-01-01T00:00:00.000Z","level":"info","event":"e")";

std::string WithHead(const std::string& rest) {
  return kJsonHead + rest;
}

// Standard error in a file for the time of a test.
class CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()), saved_(dup(STDERR_FILENO)) {
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~CapturedStderr() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    std::fclose(file_);
  }
  std::vector<std::string> Lines() const {
    std::rewind(file_);
    std::vector<std::string> lines(1);
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_))
      if (c == '\n')
        lines.emplace_back();
      else
        lines.back() += static_cast<char>(c);
    lines.pop_back();
    return lines;
  }

 private:
  std::FILE* file_;
  int saved_;
};

TEST(FormatLogLine, JsonHasTimeLevelEventThenFieldsInOrder) {
  const std::vector<LogField> fields = {
      {"turn", 7}, {"session", "a::b"}, {"ok", true}, {"s", 0.25}};
  EXPECT_EQ(
      FormatLogLine(LogFormat::kJson, 1'700'000'000'123, LogLevel::kWarn, "turn.done", fields),
      R"({"ts":"2023-11-14T22:13:20.123Z","level":"warn","event":"turn.done",)"
      R"("turn":7,"session":"a::b","ok":true,"s":0.25})");
}

TEST(FormatLogLine, TimesBeforeTheEpochAreRight) {
  EXPECT_NE(FormatLogLine(LogFormat::kJson, -1, LogLevel::kInfo, "e", {})
                .find("1969-12-31T23:59:59.999Z"),
            std::string::npos);
}

TEST(FormatLogLine, NumbersKeepTheirRange) {
  EXPECT_EQ(Json({{"n", std::numeric_limits<int64_t>::min()}}),
            WithHead(R"(,"n":-9223372036854775808})"));
  EXPECT_EQ(Json({{"n", std::numeric_limits<uint64_t>::max()}}),
            WithHead(R"(,"n":18446744073709551615})"));
}

TEST(FormatLogLine, DoublesThatJsonLacksAreStrings) {
  EXPECT_EQ(Json({{"a", std::nan("")}, {"b", INFINITY}, {"c", -INFINITY}}),
            WithHead(R"(,"a":"nan","b":"inf","c":"-inf"})"));
}

TEST(FormatLogLine, LineEndsAndControlBytesAreEscaped) {
  EXPECT_EQ(Json({{"s", std::string_view("a\r\nb\t\0\x1b[31m\x7f", 12)}}),
            WithHead(R"(,"s":"a\r\nb\t\u0000\u001b[31m\u007f"})"));
  EXPECT_EQ(Json({{"s", "say \"hi\" \\"}}), WithHead(R"(,"s":"say \"hi\" \\"})"));
  // C1 controls and Unicode's own line ends.
  EXPECT_EQ(Json({{"s", "\xC2\x9B \xE2\x80\xA8 \xE2\x80\xA9"}}),
            WithHead(R"(,"s":"\u009b \u2028 \u2029"})"));
}

TEST(FormatLogLine, EventAndNamesAreEscapedToo) {
  EXPECT_EQ(Json({{"a\"b", 1}}, "x\ny"),
            R"({"ts":"1970-01-01T00:00:00.000Z","level":"info","event":"x\ny","a\"b":1})");
}

TEST(FormatLogLine, GoodUtf8IsKept) {
  const std::string text = "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8E\xB5";
  EXPECT_EQ(Json({{"s", text}}), WithHead(",\"s\":\"" + text + "\"}"));
}

TEST(FormatLogLine, BadUtf8IsReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xFF", r},                          // no such lead
      {"\x80", r},                          // continuation alone
      {"\xC0\xAF", r + r},                  // overlong
      {"\xE0\x80\x80", r + r + r},          // overlong
      {"\xED\xA0\x80", r + r + r},          // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},  // past U+10FFFF
      {"\xE2\x82", r + r},                  // cut short
      {"\xC3(", r + "("},                   // lead without continuation
  };
  for (const auto& [bad, good] : cases)
    EXPECT_EQ(Json({{"s", "a" + bad}}), WithHead(",\"s\":\"a" + good + "\"}"));
}

TEST(FormatLogLine, LongFieldsAreCutAtACharacter) {
  const std::string exact(kLogFieldBytesMax, 'x');
  EXPECT_EQ(Json({{"s", exact}}), WithHead(",\"s\":\"" + exact + "\"}"));
  EXPECT_EQ(Json({{"s", exact + "y"}}), WithHead(",\"s\":\"" + exact + "...\"}"));
  // The cut falls into the euro sign, which goes as a whole.
  const std::string head(kLogFieldBytesMax - 1, 'x');
  EXPECT_EQ(Json({{"s", head + "\xE2\x82\xAC"}}), WithHead(",\"s\":\"" + head + "...\"}"));
}

TEST(FormatLogLine, TextQuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(
      Text({{"session", "alice::chat"}, {"n", 3}, {"why", "two words"}, {"none", ""}}, "turn.done"),
      R"(1970-01-01T00:00:00.000Z info turn.done session=alice::chat n=3 why="two words" none="")");
  EXPECT_EQ(Text({{"s", "a\x1b[0m\nfake line"}}),
            R"(1970-01-01T00:00:00.000Z info e s="a\u001b[0m\nfake line")");
}

TEST(Log, WritesOneLineToStandardErrorAtOrAboveTheLevel) {
  const CapturedStderr captured;
  SetLogLevel(LogLevel::kWarn);
  Log(LogLevel::kInfo, "hidden");
  Log(LogLevel::kWarn, "shown", {{"n", 1}});
  SetLogLevel(LogLevel::kOff);
  Log(LogLevel::kError, "hidden");
  Log(LogLevel::kOff, "hidden");
  SetLogLevel(LogLevel::kInfo);
  SetLogFormatText(true);
  Log(LogLevel::kInfo, "text {} %v", {{"n", 2}});  // no format directive is looked at
  SetLogFormatText(false);
  const std::vector<std::string> lines = captured.Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].substr(0, 7), "{\"ts\":\"");
  EXPECT_NE(lines[0].find(R"("level":"warn","event":"shown","n":1})"), std::string::npos);
  EXPECT_NE(lines[1].find("Z info text {} %v n=2"), std::string::npos);
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  const CapturedStderr captured;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i)
        Log(LogLevel::kInfo, "line", {{"pad", std::string(300, 'p')}});
    });
  for (std::thread& thread : threads)
    thread.join();
  const std::vector<std::string> lines = captured.Lines();
  EXPECT_EQ(lines.size(), 800u);
  for (const std::string& line : lines) {
    EXPECT_EQ(line.front(), '{');
    EXPECT_EQ(line.substr(line.size() - 4), "pp\"}");
  }
}

}  // namespace
}  // namespace tenuto
