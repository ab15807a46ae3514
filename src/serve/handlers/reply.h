// What handlers share: how a service's answer gets back to a request. Inside of handlers/.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "base/result.h"
#include "serve/answers/errors.h"
#include "serve/routes.h"

namespace tenuto {

HttpResponse JsonResponse(std::string body);

// Any thread: hands an answer back to the loop of the exchange.
void PostReply(const RouteCall& call, HttpResponse response);

// The same with the body that `make` writes of a good answer.
template <typename T, typename Make>
void PostResult(const RouteCall& call, const Result<T>& result, Make make) {
  PostReply(call, result ? JsonResponse(make(*result)) : ErrorResponse(result.error()));
}

// The {id} of the path; nullopt: it is no session's name, and the request is answered.
std::optional<SessionKey> KeyOf(const RouteCall& call);

}  // namespace tenuto
