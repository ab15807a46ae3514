#include "serve/requests/memory.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <limits>
#include <utility>

#include "serve/json/parse.h"
#include "serve/requests/fields.h"
#include "serve/requests/parts.h"
#include "serve/requests/read.h"

namespace tenuto {
namespace {

namespace json = boost::json;

constexpr size_t kTurnIdBytesMax = 64;

// Absent, null or "": no turn.
Result<TurnId> ReadTurnId(const json::object& object, std::string_view name) {
  TENUTO_ASSIGN(auto text, ReadString(object, name));
  if (!text || text->empty()) return TurnId{};
  if (!LooksLikeTurnId(*text)) return InvalidAt(std::string(name), "is no id of a turn");
  return TurnId{std::move(*text)};
}

// Until there are credentials, whoever reaches the server may name any user.
Result<std::string> ReadUser(const json::object& object) {
  TENUTO_ASSIGN(auto user, ReadString(object, "user"));
  if (!user) return SessionKey().user;
  const bool one_part = user->find("::") == std::string::npos;
  if (!one_part || !ParseSessionKey(*user)) {
    return InvalidAt("user", "must be one part of a session's name: [A-Za-z0-9_.-], 1 to " +
                                 std::to_string(kSessionPartBytesMax) + " long");
  }
  return std::move(*user);
}

Status ReadScope(const json::object& object, const RequestHeaders& headers, MemorySearch& search) {
  TENUTO_ASSIGN(search.session, ReadSessionKey(object, headers));
  TENUTO_ASSIGN(const auto scope, ReadString(object, "scope"));
  if (search.session) {
    if (scope) return InvalidAt("scope", "and 'session_id' exclude each other; give one of them");
    if (Member(object, "user") != nullptr)
      return InvalidAt("user", "goes with 'scope'; 'session_id' names its user");
    return Ok();
  }
  if (!scope) return InvalidAt("session_id", "or \"scope\": \"mine\" must say where to search");
  if (*scope != "mine") return InvalidAt("scope", "must be \"mine\"");
  search.tenant = SessionKey().tenant;
  TENUTO_ASSIGN(search.user, ReadUser(object));
  return Ok();
}

}  // namespace

bool LooksLikeTurnId(std::string_view text) {
  return !text.empty() && text.size() <= kTurnIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

Result<SearchRequest> ParseSearchRequest(std::string_view body, const RequestHeaders& headers,
                                         bool strict) {
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  SearchRequest request;
  TENUTO_TRY(CheckFields(object, Endpoint::kSearch, strict, request.ignored));
  TENUTO_TRY(ReadScope(object, headers, request.search));
  TENUTO_ASSIGN(auto query, ReadString(object, "query"));
  if (!query) return InvalidAt("query", "is missing");
  if (query->empty()) return InvalidAt("query", "must not be empty");
  if (query->size() > kSearchQueryBytesMax) {
    return InvalidAt("query", "is too long: " + std::to_string(query->size()) +
                                  " bytes, and at most " + std::to_string(kSearchQueryBytesMax) +
                                  " are searched for");
  }
  request.search.query = std::move(*query);
  TENUTO_ASSIGN(request.search.timezone, ReadTimezone(object));
  TENUTO_ASSIGN(const auto limit, ReadInt(object, "limit", {1, int64_t{kSearchLimitMax}}));
  if (limit) request.search.limit = static_cast<size_t>(*limit);
  return request;
}

Result<ReplayBody> ParseReplayRequest(std::string_view body, bool strict) {
  ReplayBody replay;
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return replay;
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  TENUTO_TRY(CheckFields(object, Endpoint::kReplay, strict, replay.ignored));
  TENUTO_ASSIGN(replay.request.without, ReadTurnId(object, "without"));
  TENUTO_ASSIGN(const auto max_tokens,
                ReadInt(object, "max_tokens", {0, std::numeric_limits<int32_t>::max()}));
  if (max_tokens) replay.request.max_tokens = static_cast<int32_t>(*max_tokens);
  return replay;
}

Result<TurnChangeRequest> ParseTurnChange(std::string_view body, bool strict) {
  TENUTO_ASSIGN(const json::object object, ParseJsonObject(body));
  TurnChangeRequest request;
  TENUTO_TRY(CheckFields(object, Endpoint::kTurnChange, strict, request.ignored));
  TurnChange& change = request.change;
  TENUTO_ASSIGN(change.pinned, ReadBool(object, "pinned"));
  if (const json::value* recall = Member(object, "recall"); recall != nullptr) {
    if (!recall->is_bool())
      return InvalidAt("recall",
                       "must be true or false (false: this turn never comes back); \"auto\", "
                       "\"off\" and \"force\" are for requests, and for a session's recall.mode");
    change.recall = recall->get_bool();
  }
  // Here null is no absence: it takes back what was said.
  if (object.contains("superseded_by")) {
    TENUTO_ASSIGN(change.superseded_by, ReadTurnId(object, "superseded_by"));
  }
  if (!change.pinned && !change.recall && !change.superseded_by) {
    return Error(Code::kInvalid, "nothing to change: give 'pinned', 'recall' or 'superseded_by'");
  }
  return request;
}

}  // namespace tenuto
