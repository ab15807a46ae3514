// Bodies of /v1/sessions. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "session/turn_types.h"

namespace tenuto {

std::string SessionBody(const SessionInfo& session);
std::string SessionListBody(const SessionListing& listing);
std::string TurnListBody(const std::vector<TurnRow>& turns);
std::string SessionDeletedBody(const SessionKey& key);

}  // namespace tenuto
