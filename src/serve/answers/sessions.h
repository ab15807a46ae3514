// Bodies of /v1/sessions, and the parts of them that `tenuto sessions` prints too. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "serve/json/writer.h"
#include "session/import.h"
#include "session/turn_types.h"

namespace tenuto {

std::string SessionBody(const SessionInfo& session);
std::string SessionListBody(const SessionListing& listing);
std::string TurnListBody(const TurnPage& page);
std::string ImportBody(const ImportOutcome& outcome);
std::string SessionDeletedBody(const SessionKey& key);

// Inside of an object. What the log knows of a session; the id of a turn, or null where there is
// none.
void WriteSessionFields(JsonWriter& writer, const SessionRow& row);
void WriteTurnId(JsonWriter& writer, std::string_view name, const TurnId& id);

}  // namespace tenuto
