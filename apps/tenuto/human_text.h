// Numbers, sizes, times and tables for people at a terminal. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenuto {

std::string CountText(uint64_t n);                         // "1,204"
std::string CountText(uint64_t n, std::string_view noun);  // "1 turn", "1,204 turns"
std::string BytesText(uint64_t bytes);                     // "512 B", "27.1 MB" (powers of 1000)
std::string TimeText(int64_t unix_ms);                     // "2026-01-31 09:05", local time
std::string AgeText(int64_t unix_ms,
                    int64_t now_unix_ms);  // "just now", "5 min ago", "3 h ago", "12 days ago"

// Text of a conversation made safe for a terminal: control characters but tab and line feed, marks
// of the direction of writing, line separators and tag characters become spaces, so that no stored
// answer can move the cursor, change the terminal's settings or show another text than it holds.
std::string TerminalText(std::string_view text);

enum class Align : uint8_t { kLeft, kRight };
struct TableColumn {
  std::string title;
  Align align = Align::kLeft;
};
// Columns two spaces apart, as wide as their widest cell; no spaces at line ends. Cells are ASCII
// or as wide as long.
std::string TableText(const std::vector<TableColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows);

}  // namespace tenuto
