// Health, metrics, the model, and the tokenizer.
#include <functional>
#include <utility>

#include "base/utf8.h"
#include "serve/answers/ignored.h"
#include "serve/handlers/handlers.h"
#include "serve/handlers/reply.h"
#include "serve/http/listener.h"
#include "serve/json/writer.h"
#include "serve/requests/parts.h"
#include "session/heap.h"

namespace tenuto {
namespace {

void ReplyJson(const RouteCall& call, std::string body) {
  call.app->Reply(call.exchange, call.route, JsonResponse(std::move(body)));
}

void ReplyFromPool(const RouteCall& call, std::function<HttpResponse(const Service&)> make) {
  const Service& service = call.app->service;  // outlives the app
  call.app->ReplyFromPool(call.exchange, call.route,
                          [&service, make = std::move(make)] { return make(service); });
}

void WriteModel(JsonWriter& writer, const App& app) {
  const EngineInfo& info = app.service.engine_info();
  writer.BeginObject()
      .Field("id", app.model)
      .Field("object", "model")
      .Field("created", app.started_unix_s)
      .Field("owned_by", "tenuto")
      .Key("meta")
      .BeginObject()
      .Field("n_vocab", info.vocabulary_size)
      .Field("n_ctx_train", info.model_window)
      .Field("n_ctx", app.service.window_tokens())
      .Field("n_params", info.model_parameters)
      .Field("size", info.model_bytes)
      .Field("fingerprint", info.fingerprint.Hex())
      .EndObject()
      .EndObject();
}

std::string TokenizeBody(const Service& service, const std::vector<TokenId>& tokens,
                         const TokenizeRequest& request) {
  JsonWriter writer;
  writer.BeginObject().Key("tokens").BeginArray();
  for (const TokenId token : tokens) {
    if (!request.with_pieces) {
      writer.Int(token);
      continue;
    }
    const std::string piece = service.TokenText(token, true);
    writer.BeginObject().Field("id", token).Key("piece");
    // Part of a character is no text: its bytes then.
    if (IsUtf8(piece)) {
      writer.String(piece);
    } else {
      writer.BeginArray();
      for (const char c : piece)
        writer.Int(static_cast<unsigned char>(c));
      writer.EndArray();
    }
    writer.EndObject();
  }
  writer.EndArray();
  WriteIgnored(writer, request.ignored);
  writer.EndObject();
  return writer.Take();
}

}  // namespace

void HandleHealth(const RouteCall& call) {
  if (call.app->stopping) {
    return call.app->Reply(call.exchange, call.route, ErrorResponse(503, kStoppingText));
  }
  ReplyJson(call, R"({"status":"ok"})");
}

void HandleMetrics(const RouteCall& call) {
  Metrics& metrics = call.app->metrics;
  if (const HttpListener* listener = call.app->listener) {
    metrics.GetGauge("tenuto_http_connections", "Connections that are open")
        .Set(static_cast<int64_t>(listener->connections()));
  }
  metrics.GetGauge("tenuto_heap_used_bytes", "Memory that is allocated and not freed")
      .Set(HeapBytesUsed());
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics.Text();
  call.app->Reply(call.exchange, call.route, std::move(response));
}

void HandleProps(const RouteCall& call) {
  const App& app = *call.app;
  JsonWriter writer;
  writer.BeginObject().Key("default_generation_settings").BeginObject();
  writer.Field("n_ctx", app.service.window_tokens()).Key("params").Raw(SamplingJson(TurnRequest()));
  writer.EndObject()
      .Field("total_slots", app.service.turns_running_max())
      .Field("model_alias", app.model)
      .Field("fingerprint", app.service.engine_info().fingerprint.Hex());
  writer.Key("modalities").BeginObject().Field("vision", false).Field("audio", false).EndObject();
  writer.EndObject();
  ReplyJson(call, writer.Take());
}

void HandleModels(const RouteCall& call) {
  JsonWriter writer;
  writer.BeginObject().Field("object", "list").Key("data").BeginArray();
  WriteModel(writer, *call.app);
  writer.EndArray().EndObject();
  ReplyJson(call, writer.Take());
}

void HandleModel(const RouteCall& call) {
  if (call.id != call.app->model) {
    return call.app->ReplyError(
        call.exchange, call.route,
        Error(Code::kNotFound, "the only model here is '" + call.app->model + "'").At("model"));
  }
  JsonWriter writer;
  WriteModel(writer, *call.app);
  ReplyJson(call, writer.Take());
}

void HandleTokenize(const RouteCall& call) {
  auto request = ParseTokenizeRequest(call.exchange->request().body, call.app->settings.strict);
  if (!request) return call.app->ReplyError(call.exchange, call.route, request.error());
  call.app->NoteIgnored(request->ignored);
  ReplyFromPool(call, [wanted = std::move(request).value()](const Service& service) {
    auto tokens = service.Tokenize(wanted.content, wanted.add_special, wanted.parse_special);
    if (!tokens) return ErrorResponse(tokens.error());
    return JsonResponse(TokenizeBody(service, *tokens, wanted));
  });
}

void HandleDetokenize(const RouteCall& call) {
  auto request = ParseDetokenizeRequest(call.exchange->request().body, call.app->context);
  if (!request) return call.app->ReplyError(call.exchange, call.route, request.error());
  call.app->NoteIgnored(request->ignored);
  ReplyFromPool(call, [wanted = std::move(request).value()](const Service& service) {
    std::string text;
    for (const TokenId token : wanted.tokens)
      text += service.TokenText(token, true);
    JsonWriter writer;
    writer.BeginObject().Field("content", text);
    WriteIgnored(writer, wanted.ignored);
    writer.EndObject();
    return JsonResponse(writer.Take());
  });
}

}  // namespace tenuto
