#include "serve/handlers/reply.h"

namespace tenuto {

HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

void PostReply(const RouteCall& call, HttpResponse response) {
  call.exchange->Post([app = call.app, exchange = call.exchange, route = call.route,
                       response = std::move(response)] { app->Reply(exchange, route, response); });
}

std::optional<SessionKey> KeyOf(const RouteCall& call) {
  auto key = ParseSessionKey(call.id);
  if (key) return std::move(key).value();
  call.app->ReplyError(call.exchange, call.route, std::move(key).error().At("session_id"));
  return std::nullopt;
}

}  // namespace tenuto
