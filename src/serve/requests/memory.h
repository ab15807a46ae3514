// Bodies of the endpoints that ask about a session's memory or change it: search, replay, the state
// of a turn. Pure. Every error is kInvalid and names the field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"
#include "schedule/service.h"
#include "serve/requests/generate.h"
#include "session/recall_types.h"

namespace tenuto {

inline constexpr size_t kSearchQueryBytesMax = 100 * kKiB;
inline constexpr size_t kSearchLimitMax = 100;

struct SearchRequest {
  MemorySearch search;
  std::vector<std::string> ignored;
};
Result<SearchRequest> ParseSearchRequest(std::string_view body, const RequestHeaders& headers,
                                         bool strict);

struct ReplayBody {
  ReplayRequest request;
  std::vector<std::string> ignored;
};
// An empty body asks for nothing special.
Result<ReplayBody> ParseReplayRequest(std::string_view body, bool strict);

struct TurnChangeRequest {
  TurnChange change;
  std::vector<std::string> ignored;
};
// A body that changes nothing is kInvalid: it is a name misspelt.
Result<TurnChangeRequest> ParseTurnChange(std::string_view body, bool strict);

// What can be the id of a turn, whether or not there is one.
bool LooksLikeTurnId(std::string_view text);

}  // namespace tenuto
