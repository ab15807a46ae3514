#include "human_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace tenuto {

std::string CountText(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits;
}

std::string CountText(uint64_t n, std::string_view noun) {
  return CountText(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string BytesText(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 999.95 would be printed as "1000.0".
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string TimeText(int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return "?";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

std::string UtcText(int64_t unix_ms) {
  const int64_t millis = ((unix_ms % 1000) + 1000) % 1000;
  const std::time_t seconds = static_cast<std::time_t>((unix_ms - millis) / 1000);
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "?";
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     millis);
}

std::string AgeText(int64_t unix_ms, int64_t now_unix_ms) {
  const int64_t minutes = (now_unix_ms - unix_ms) / 60'000;
  if (minutes < 1) return "just now";  // clocks that went back included
  if (minutes < 60) return fmt::format("{} min ago", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h ago", minutes / 60);
  return fmt::format("{} days ago", minutes / (24 * 60));
}

std::string TerminalText(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters too: C2 80 to C2 9F in UTF-8.
    const bool wide_control =
        c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (wide_control) ++i;
    safe += control || wide_control ? ' ' : static_cast<char>(c);
  }
  return safe;
}

std::string TableText(const std::vector<TableColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns.size(); ++c) {
    size_t width = columns[c].title.size();
    for (const auto& row : rows)
      width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string out;
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string space(widths[c] - cell.size(), ' ');
      out += columns[c].align == Align::kRight ? space + cell : cell + space;
      if (c + 1 < columns.size()) out += "  ";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line([&](size_t c) -> const std::string& { return columns[c].title; });
  for (const auto& row : rows)
    line([&](size_t c) -> const std::string& { return row[c]; });
  return text;
}

}  // namespace tenuto
