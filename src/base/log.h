// One logger for the process: one JSON object a line on standard error. Thread-safe.
// Strings are cut at kLogFieldBytesMax; control bytes are escaped and invalid UTF-8 is replaced, so
// that nothing a client sends can start a second line or reach a terminal as an escape sequence.
// Never give it prompt text, answer text, tokens or keys: fields carry ids, counts and codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace tenuto {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };

inline constexpr size_t kLogFieldBytesMax = 4096;

// A typed field of a log line. `name` is not copied: give it a literal.
struct LogField {
  std::string_view name;
  std::variant<int64_t, uint64_t, double, bool, std::string> value;

  LogField(std::string_view n, int64_t v) : name(n), value(v) {}
  LogField(std::string_view n, int v) : name(n), value(int64_t{v}) {}
  LogField(std::string_view n, uint64_t v) : name(n), value(v) {}
  LogField(std::string_view n, uint32_t v) : name(n), value(int64_t{v}) {}
  LogField(std::string_view n, double v) : name(n), value(v) {}
  LogField(std::string_view n, bool v) : name(n), value(v) {}
  LogField(std::string_view n, std::string_view v) : name(n), value(std::string(v)) {}
  LogField(std::string_view n, const char* v) : name(n), value(std::string(v)) {}
  LogField(std::string_view n, const std::string& v) : name(n), value(v) {}
};

void SetLogLevel(LogLevel level);
void SetLogFormatText(
    bool text);  // plain "level event k=v" for people at a terminal; JSON otherwise

// `event` is a fixed dotted name ("turn.committed"), so that lines can be counted and searched.
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// What a line looks like.
enum class LogFormat : uint8_t { kJson, kText };

// The line for these values, without its newline. A function of its arguments alone: Log() adds the
// clock and the output.
std::string FormatLogLine(LogFormat format, int64_t unix_ms, LogLevel level, std::string_view event,
                          std::span<const LogField> fields);

}  // namespace tenuto
