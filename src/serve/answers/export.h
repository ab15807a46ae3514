// Turns as lines of JSON, in the form that an import takes. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "tokenlog/log.h"

namespace tenuto {

// "2024-05-03T12:30:00.000Z", or with the offset of `zone_s` (seconds east of Greenwich).
std::string WallTimeText(int64_t unix_ms, int32_t zone_s = 0);

// {"role","content","time","id"[,"name"][,"tool_calls"][,"tool_call_id"]} per item, one a line.
// "time" is when the item was said, "id" the client's own or the turn's id and the item's place in
// it. A system message that a client repeated stands there once; a deleted turn gives nothing.
// kCorrupt: the items are not the JSON that the log holds.
Status AppendExport(std::string& lines, const TurnRow& turn);

}  // namespace tenuto
