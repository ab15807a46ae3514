// The words of dates in the languages the layer knows. Only the dates*.cc files include this.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenuto {

// All arguments are case folded words.
std::optional<int32_t> MonthOf(std::string_view word);      // 1 to 12
std::optional<int32_t> WeekdayWord(std::string_view word);  // 0 is Monday
std::optional<int32_t> SmallNumber(std::string_view word);  // "3", "three", "drei"
// A day of the month as a word: "ninth", "neunten". Above twenty English has two: "twenty-first".
std::optional<int32_t> OrdinalDay(std::string_view word);
int32_t TensWord(std::string_view word);  // twenty, thirty; 0 for anything else

// A day counted from today at the front of a text of a script without spaces ("three days ago",
// "last Tuesday" in Chinese, Japanese and Thai), with the bytes it takes.
struct DenseRelative {
  size_t bytes = 0;
  int32_t days = 0;      // to add to today
  int32_t weekday = -1;  // 0 to 6: instead, the latest such day before today
};
std::optional<DenseRelative> DenseRelativeAt(std::string_view folded);

// A phrase of one to four words at the front: "yesterday", "the day before yesterday".
struct RelativePhrase {
  std::string_view words;  // separated by one space
  int32_t days;
};
// Null-terminated by an empty phrase; longer ones first.
const RelativePhrase* RelativePhrases();

bool IsLastWord(std::string_view word);  // stands before or after a weekday: last, letzten, dernier
bool IsAgoBefore(std::string_view word);        // before a number: vor, hace
bool IsAgoAfter(std::string_view word);         // behind a number and its unit: ago, fa, geleden
int32_t DaysOfUnit(std::string_view word);      // day 1, week 7, 0 for anything else
bool IsOfWord(std::string_view word);           // between day and month: of, de, di
bool IsOrdinalSuffix(std::string_view suffix);  // st, nd, rd, th, er

}  // namespace tenuto
