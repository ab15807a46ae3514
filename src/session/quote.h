// Archived turns as text, and how they are quoted in a prompt: framed by a mark that their text
// does not hold, dated, as quotation and not as instruction. The text is a pure function of the
// record and the archive, so that a window can be built again from the log (INV-1, INV-7).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/suffix.h"
#include "session/recall_record.h"
#include "session/window.h"
#include "tokenlog/log.h"

namespace tenuto {

// A turn of the archive, by who said what.
struct ArchivedText {
  std::string user;  // the user's items, a line each
  std::string answer;
  std::string tool;       // calls of tools and their results
  std::string name;       // of the first user item that has one
  std::string client_id;  // of the first item that has one
  int64_t unix_ms = 0;
  int32_t zone_s = 0;  // of the first item that has one: which day it was for who spoke
};
// kCorrupt: the items are not what this version stores.
Result<ArchivedText> ArchivedTextOf(const std::string& items_json, int64_t unix_ms = 0);
inline Result<ArchivedText> ArchivedTextOf(const ItemsRow& row) {
  return ArchivedTextOf(row.items_json, row.created_unix_ms);
}

// A quoted turn with what is quoted of it.
struct QuotedTurn {
  RecallQuote quote;
  ArchivedText text;
};

// This part of a text, with "..." where it was cut.
std::string PartText(std::string_view whole, TextRange range);
// The lines of one quoted turn, "" when nothing of it is quoted.
std::string QuoteText(const QuotedTurn& turn);
// The whole span: frame and quotes, in the order given. "" without quotes.
std::string SpanText(std::string_view mark, std::span<const QuotedTurn> turns);
bool AnyHolds(std::span<const std::string_view> texts, std::string_view mark);
// A mark made of `entropy` (of the session) that none of the texts holds.
std::string ChooseMark(std::string_view entropy, std::span<const std::string_view> texts);
// What tells two span texts apart: 16 hex digits.
std::string SpanDigest(std::string_view text);

// What a stored record quoted, read again. A turn that was deleted since is left out, and where the
// text is not what it was, `same` is false.
struct StoredSpan {
  RecallSpan span;
  bool same = true;
};
// Blocking. `without`: left out as if deleted. Errors are those of the log and of `tokenize`.
Result<StoredSpan> ReadSpan(TokenLog& log, const TokenizeText& tokenize, const SessionRow& row,
                            const RecallRecord& record, const TurnId& without = {});

// Blocking. A turn's tokens as they stay in a window that is cut behind it; none where the turn was
// deleted, or is the session's head anyway.
Result<PinnedTurn> ReadPinned(TokenLog& log, const SessionRow& row, const NumberedTurn& turn);

// Blocking. The window of a session whose head is `row.head`, as the next prompt begins.
Result<SessionWindow> ReadSessionWindow(TokenLog& log, const TokenizeText& tokenize,
                                        const SessionRow& row);

}  // namespace tenuto
