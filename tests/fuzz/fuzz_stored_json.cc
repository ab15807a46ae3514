// Any bytes as the JSON that the log keeps: refused, or a value that is the same once written and
// read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "session/items.h"
#include "session/recall_record.h"

namespace tenuto {
namespace {

void TryRecord(const std::string& text) {
  const auto record = RecordFromJson(text);
  if (!record.ok()) {
    TENUTO_CHECK(record.error().code() == Code::kCorrupt);
    return;
  }
  TENUTO_CHECK(record->spans_since > 0 && record->quotes.size() <= kRecallQuotesMax);
  for (const RecallQuote& quote : record->quotes) {
    TENUTO_CHECK(quote.user.begin <= quote.user.end && quote.answer.begin <= quote.answer.end);
    TENUTO_CHECK(quote.line > 0 && !quote.turn.empty());
  }
  const std::string written = RecordToJson(*record);
  const auto again = RecordFromJson(written);
  TENUTO_CHECK(again.ok() && RecordToJson(*again) == written);
}

void TryItems(const std::string& text) {
  const auto items = StoredItemsFromJson(text);
  if (!items.ok()) {
    TENUTO_CHECK(items.error().code() == Code::kCorrupt);
    return;
  }
  const std::string written = StoredItemsJson(*items);
  const auto again = StoredItemsFromJson(written);
  TENUTO_CHECK(again.ok() && StoredItemsJson(*again) == written);
}

void TryOutcome(const std::string& text) {
  const auto stored = OutcomeFromJson(text);
  if (!stored.ok()) {
    TENUTO_CHECK(stored.error().code() == Code::kCorrupt);
    return;
  }
  const std::string written = OutcomeToJson(stored->outcome, stored->request_digest);
  TENUTO_CHECK(OutcomeFromJson(written).ok());
}

}  // namespace
}  // namespace tenuto

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(data, data + size);
  tenuto::TryRecord(text);
  tenuto::TryItems(text);
  tenuto::TryOutcome(text);
  return 0;
}
