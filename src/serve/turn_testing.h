// What the tests of turns over HTTP share. Tests only.
#pragma once

#include <string>

#include "serve/http/raw_client.h"
#include "serve/testing.h"

namespace tenuto {

inline constexpr const char* kChat = "/v1/chat/completions";

inline std::string ChatBody(const std::string& text, const std::string& more = "") {
  return R"({"messages":[{"role":"user","content":")" + text + R"("}],"temperature":0)" + more +
         "}";
}

// An answer that ends only when somebody ends it.
inline TestServerOptions EndlessAnswers() {
  TestServerOptions options;
  options.model.window = 200'000;
  options.model.cells = 200'000;
  options.model.answer_tokens_min = 150'000;
  options.model.answer_tokens_max = 190'000;
  return options;
}

inline bool HasLine(const RawResponse& metrics, const std::string& line) {
  return metrics.body.find(line + "\n") != std::string::npos;
}

// Asks until the metrics say so. False: they never did.
inline bool MetricsSay(const TestServer& server, const std::string& line) {
  RawClient client(server.http->port());
  for (int i = 0; i < 100'000; ++i) {
    if (HasLine(client.Get("/metrics"), line)) return true;
  }
  return false;
}

// Asks until the metrics say so no more. False: they always did.
inline bool MetricsStopSaying(const TestServer& server, const std::string& line) {
  RawClient client(server.http->port());
  for (int i = 0; i < 100'000; ++i) {
    const RawResponse metrics = client.Get("/metrics");
    if (metrics.status == 200 && !HasLine(metrics, line)) return true;
  }
  return false;
}

// Asks until the session's last turn is there and incomplete. False: it never was.
inline bool EndsIncomplete(const TestServer& server, const std::string& session) {
  RawClient client(server.http->port());
  for (int i = 0; i < 100'000; ++i) {
    const RawResponse response = client.Get("/v1/sessions/" + session + "/turns");
    if (response.status != 200) continue;
    const boost::json::array turns = response.Json().at("data").as_array();
    if (!turns.empty()) return turns.back().at("incomplete").as_bool();
  }
  return false;
}

}  // namespace tenuto
