// Errors as OpenAI's clients expect them, and the one table from Code to HTTP status. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http/types.h"

namespace tenuto {

// 429 for a full queue (kExhausted at "queue"), a limit (at "limit.NAME") or a quota (at
// "quota.NAME"), else by Code alone.
int StatusOf(const Error& error);

// {"error":{"message","type","param","code"}}
std::string ErrorBody(const Error& error);
std::string ErrorBody(int status, std::string_view message);

// With Retry-After where trying again may help.
HttpResponse ErrorResponse(const Error& error);
HttpResponse ErrorResponse(int status, std::string_view message);

}  // namespace tenuto
