#include "human_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/utf8.h"

namespace tenuto {
namespace {

// Controls of ASCII and Latin-1; what turns the direction of writing, so that a text reads as
// another; line separators; tags, which hide a text in a text.
bool ChangesTheTerminal(uint32_t code_point) {
  const auto within = [=](uint32_t low, uint32_t high) {
    return code_point >= low && code_point <= high;
  };
  if (code_point == '\n' || code_point == '\t') return false;
  return code_point < 0x20 || within(0x7F, 0x9F) || code_point == 0x061C ||
         within(0x200E, 0x200F) || within(0x2028, 0x202E) || within(0x2066, 0x2069) ||
         within(0xE0000, 0xE007F);
}

}  // namespace

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

std::string AgeText(int64_t unix_ms, int64_t now_unix_ms) {
  const int64_t minutes = (now_unix_ms - unix_ms) / 60'000;
  if (minutes < 1) return "just now";  // clocks that went back included
  if (minutes < 60) return fmt::format("{} min ago", minutes);
  const int64_t hours = minutes / 60;
  return hours < 48 ? fmt::format("{} h ago", hours) : fmt::format("{} days ago", hours / 24);
}

std::string TerminalText(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const size_t length = std::max<size_t>(Utf8Length(text), 1);
    const std::string_view character = text.substr(0, length);
    // A byte that is no character by itself is shown as it is.
    const bool known = length > 1 || static_cast<unsigned char>(text.front()) < 0x80;
    if (known && ChangesTheTerminal(CodePointOf(character))) {
      safe += ' ';
    } else {
      safe += character;
    }
    text.remove_prefix(length);
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
