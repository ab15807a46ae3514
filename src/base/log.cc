#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iterator>
#include <memory>

#include "base/utf8.h"

namespace tenuto {
namespace {

// One logger for the process is what log.h promises; atomics, so that any thread may log while a
// setting changes. NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): see above.
std::atomic<LogLevel> g_level{LogLevel::kInfo};
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): see above.
std::atomic<LogFormat> g_format{LogFormat::kJson};

// What a terminal or a line reader could act on: C0, DEL, C1 (U+009B starts escape sequences), line
// separators.
bool MustEscape(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0) || code_point == 0x2028 ||
         code_point == 0x2029;
}

void AppendEscaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += kReplacementCharacter;
      text.remove_prefix(1);
      continue;
    }
    const uint32_t code_point = CodePointOf(text.substr(0, length));
    switch (code_point) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (MustEscape(code_point))
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", code_point);
        else
          out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
}

// Cut at a character's start, so that the cut itself makes no invalid UTF-8.
std::string_view CutField(std::string_view text) {
  if (text.size() <= kLogFieldBytesMax) return text;
  size_t end = kLogFieldBytesMax;
  while (end > kLogFieldBytesMax - 4 && IsUtf8Continuation(text[end]))
    --end;
  return text.substr(0, end);
}

void AppendQuoted(std::string& out, std::string_view text) {
  const std::string_view cut = CutField(text);
  out += '"';
  AppendEscaped(out, cut);
  if (cut.size() < text.size()) out += "...";
  out += '"';
}

bool IsBareWord(std::string_view text) {
  if (text.empty() || text.size() > kLogFieldBytesMax) return false;
  for (const char c : text)
    if (c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '=') return false;
  return true;
}

struct AppendValue {
  std::string& out;
  LogFormat format;

  void operator()(int64_t v) const { fmt::format_to(std::back_inserter(out), "{}", v); }
  void operator()(uint64_t v) const { fmt::format_to(std::back_inserter(out), "{}", v); }
  void operator()(bool v) const { out += v ? "true" : "false"; }
  void operator()(double v) const {
    // JSON has no word for these: a string, so that the line still parses.
    if (std::isfinite(v))
      fmt::format_to(std::back_inserter(out), "{}", v);
    else
      AppendQuoted(out, std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
  }
  void operator()(const std::string& v) const {
    if (format == LogFormat::kText && IsBareWord(v))
      out += v;
    else
      AppendQuoted(out, v);
  }
};

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      break;
  }
  return "off";
}

std::string Iso8601(int64_t unix_ms) {
  int64_t seconds = unix_ms / 1000;
  int64_t ms = unix_ms % 1000;
  if (ms < 0) {
    ms += 1000;
    --seconds;
  }
  std::tm parts{};
  const std::time_t time = static_cast<std::time_t>(seconds);
  if (gmtime_r(&time, &parts) == nullptr) return "invalid";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     ms);
}

// Never destroyed: a thread that outlives main() may still log.
spdlog::logger& Sink() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): spdlog locks inside.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("tenuto", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLogLevel(LogLevel level) {
  g_level.store(level, std::memory_order_relaxed);
}

void SetLogFormatText(bool text) {
  g_format.store(text ? LogFormat::kText : LogFormat::kJson, std::memory_order_relaxed);
}

std::string FormatLogLine(LogFormat format, int64_t unix_ms, LogLevel level, std::string_view event,
                          std::span<const LogField> fields) {
  std::string line;
  line.reserve(128);
  if (format == LogFormat::kText) {
    line += Iso8601(unix_ms);
    line += ' ';
    line += LevelName(level);
    line += ' ';
    AppendEscaped(line, CutField(event));
    for (const LogField& field : fields) {
      line += ' ';
      AppendEscaped(line, field.name);
      line += '=';
      std::visit(AppendValue{line, format}, field.value);
    }
    return line;
  }
  line += "{\"ts\":\"";
  line += Iso8601(unix_ms);
  line += "\",\"level\":\"";
  line += LevelName(level);
  line += "\",\"event\":";
  AppendQuoted(line, event);
  for (const LogField& field : fields) {
    line += ',';
    AppendQuoted(line, field.name);
    line += ':';
    std::visit(AppendValue{line, format}, field.value);
  }
  line += '}';
  return line;
}

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (level < g_level.load(std::memory_order_relaxed) || level == LogLevel::kOff) return;
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const int64_t unix_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
  const std::string line =
      FormatLogLine(g_format.load(std::memory_order_relaxed), unix_ms, level, event,
                    std::span<const LogField>(fields.begin(), fields.size()));
  Sink().log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace tenuto
