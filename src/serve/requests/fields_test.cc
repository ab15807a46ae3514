// Every field of the APIs as their vendors publish them: honoured, accepted where its value asks
// for nothing, or 400 that names it.
#include "serve/requests/fields.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <set>
#include <string>
#include <vector>

namespace tenuto {
namespace {

struct Case {
  std::string field;
  std::string value;  // JSON
};

std::string Refusal(Endpoint endpoint, const Case& c, bool strict = false) {
  const std::string text = "{\"" + c.field + "\":" + c.value + "}";
  const boost::json::value value = boost::json::parse(text);
  std::vector<std::string> ignored;
  const Status status = CheckFields(value.get_object(), endpoint, strict, ignored);
  if (status.ok()) return ignored.empty() ? "" : "ignored " + ignored[0];
  EXPECT_EQ(status.error().code(), Code::kInvalid);
  EXPECT_EQ(status.error().field(), c.field);
  EXPECT_NE(status.error().message().find(c.field), std::string::npos);
  return "refused";
}

// OpenAI's schema of POST /v1/chat/completions.
const std::vector<std::string> kOpenAiChat = {"messages",
                                              "model",
                                              "audio",
                                              "frequency_penalty",
                                              "function_call",
                                              "functions",
                                              "logit_bias",
                                              "logprobs",
                                              "max_completion_tokens",
                                              "max_tokens",
                                              "metadata",
                                              "modalities",
                                              "n",
                                              "parallel_tool_calls",
                                              "prediction",
                                              "presence_penalty",
                                              "prompt_cache_key",
                                              "prompt_cache_retention",
                                              "reasoning_effort",
                                              "response_format",
                                              "safety_identifier",
                                              "seed",
                                              "service_tier",
                                              "stop",
                                              "store",
                                              "stream",
                                              "stream_options",
                                              "temperature",
                                              "tool_choice",
                                              "tools",
                                              "top_logprobs",
                                              "top_p",
                                              "user",
                                              "verbosity",
                                              "web_search_options"};
// And of POST /v1/completions.
const std::vector<std::string> kOpenAiCompletions = {"model",
                                                     "prompt",
                                                     "best_of",
                                                     "echo",
                                                     "frequency_penalty",
                                                     "logit_bias",
                                                     "logprobs",
                                                     "max_tokens",
                                                     "n",
                                                     "presence_penalty",
                                                     "seed",
                                                     "stop",
                                                     "stream",
                                                     "stream_options",
                                                     "suffix",
                                                     "temperature",
                                                     "top_p",
                                                     "user"};
// llama-server's POST /completion, as its README lists it.
const std::vector<std::string> kLlamaFields = {"prompt",
                                               "temperature",
                                               "dynatemp_range",
                                               "dynatemp_exponent",
                                               "top_k",
                                               "top_p",
                                               "min_p",
                                               "n_predict",
                                               "n_indent",
                                               "n_keep",
                                               "stream",
                                               "stop",
                                               "typical_p",
                                               "repeat_penalty",
                                               "repeat_last_n",
                                               "presence_penalty",
                                               "frequency_penalty",
                                               "dry_multiplier",
                                               "xtc_probability",
                                               "mirostat",
                                               "grammar",
                                               "json_schema",
                                               "seed",
                                               "ignore_eos",
                                               "logit_bias",
                                               "n_probs",
                                               "min_keep",
                                               "t_max_predict_ms",
                                               "id_slot",
                                               "cache_prompt",
                                               "return_tokens",
                                               "samplers",
                                               "timings_per_token",
                                               "post_sampling_probs",
                                               "response_fields",
                                               "lora"};

bool Knows(Endpoint endpoint, const std::string& field) {
  for (const FieldRule& rule : FieldRules(endpoint)) {
    if (rule.name == field) return true;
  }
  return false;
}

TEST(Fields, EveryPublishedFieldIsKnown) {
  for (const std::string& field : kOpenAiChat)
    EXPECT_TRUE(Knows(Endpoint::kChat, field)) << field;
  for (const std::string& field : kOpenAiCompletions) {
    EXPECT_TRUE(Knows(Endpoint::kCompletions, field)) << field;
  }
  for (const std::string& field : kLlamaFields) {
    EXPECT_TRUE(Knows(Endpoint::kLlamaCompletion, field)) << field;
  }
}

TEST(Fields, NoneIsListedTwiceAndNullAsksForNothing) {
  for (const Endpoint endpoint : kEndpoints) {
    std::set<std::string_view> seen;
    for (const FieldRule& rule : FieldRules(endpoint)) {
      EXPECT_TRUE(seen.insert(rule.name).second) << rule.name;
      EXPECT_EQ(Refusal(endpoint, {std::string(rule.name), "null"}), "") << rule.name;
    }
  }
}

TEST(Fields, AcceptsWhatAsksForNothing) {
  const std::vector<Case> fine = {{"n", "1"},
                                  {"n", "1.0"},
                                  {"logprobs", "false"},
                                  {"top_logprobs", "0"},
                                  {"tools", "[]"},
                                  {"tool_choice", "\"none\""},
                                  {"tool_choice", "\"auto\""},
                                  {"functions", "[]"},
                                  {"function_call", "\"none\""},
                                  {"parallel_tool_calls", "true"},
                                  {"response_format", R"({"type":"text"})"},
                                  {"store", "false"},
                                  {"user", "\"u-1\""},
                                  {"metadata", R"({"a":"b"})"},
                                  {"service_tier", "\"auto\""},
                                  {"service_tier", "\"default\""},
                                  {"modalities", R"(["text"])"},
                                  {"reasoning_effort", "\"none\""},
                                  {"verbosity", "\"medium\""},
                                  {"prompt_cache_key", "\"k\""},
                                  {"safety_identifier", "\"s\""},
                                  {"cache_prompt", "true"},
                                  {"mirostat", "0"},
                                  {"typical_p", "1"},
                                  {"grammar", "\"\""},
                                  {"id_slot", "-1"},
                                  {"tenuto", "{}"}};
  for (const Case& c : fine)
    EXPECT_EQ(Refusal(Endpoint::kChat, c), "") << c.field << c.value;
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"best_of", "1"}), "");
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"echo", "false"}), "");
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"suffix", "\"\""}), "");
}

TEST(Fields, RefusesByNameWhatIsNotDone) {
  const std::vector<Case> bad = {
      {"n", "2"},
      {"n", "\"1\""},
      {"n", "0"},
      {"logprobs", "true"},
      {"top_logprobs", "3"},
      {"tools", R"([{"type":"function","function":{"name":"f"}}])"},
      {"tool_choice", "\"required\""},
      {"tool_choice", R"({"type":"function"})"},
      {"functions", R"([{"name":"f"}])"},
      {"response_format", R"({"type":"json_object"})"},
      {"response_format", R"({"type":"text","x":1})"},
      {"store", "true"},
      {"user", "7"},
      {"metadata", R"({"a":1})"},
      {"service_tier", "\"flex\""},
      {"modalities", R"(["text","audio"])"},
      {"audio", "{}"},
      {"prediction", R"({"type":"content","content":"x"})"},
      {"reasoning_effort", "\"high\""},
      {"verbosity", "\"low\""},
      {"web_search_options", "{}"},
      {"cache_prompt", "false"},
      {"mirostat", "2"},
      {"grammar", "\"root ::= x\""},
      {"json_schema", R"({"type":"object"})"},
      {"id_slot", "0"},
      {"n_probs", "5"},
      {"chat_template", "\"x\""},
      {"cache_salt", "\"x\""},
      {"prompt_embeds", "\"x\""},
      {"repetition_penalty", "1.1"},
      {"tenuto", R"({"mode":"history"})"},
  };
  for (const Case& c : bad) {
    EXPECT_EQ(Refusal(Endpoint::kChat, c), "refused") << c.field << " " << c.value;
  }
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"best_of", "2"}), "refused");
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"echo", "true"}), "refused");
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"logprobs", "0"}), "refused");
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"suffix", "\"x\""}), "refused");
}

TEST(Fields, WhatIsOfAnotherKindSaysWhichItTakes) {
  const auto message = [](const std::string& text) {
    std::vector<std::string> ignored;
    const boost::json::value value = boost::json::parse(text);
    return CheckFields(value.get_object(), Endpoint::kChat, false, ignored).error().message();
  };
  EXPECT_EQ(message(R"({"user":5})"), "'user' must be a string");
  EXPECT_EQ(message(R"({"metadata":{"a":1}})"), "'metadata' must be an object of strings");
  EXPECT_EQ(message(R"({"parallel_tool_calls":"x"})"),
            "'parallel_tool_calls' must be true or false");
  for (const char* value : {"\"1\"", "true", "[1]"})
    EXPECT_EQ(message(R"({"n":)" + std::string(value) + "}"), "'n' must be a number");
  EXPECT_NE(message(R"({"n":2})").find("not supported yet"), std::string::npos);
}

TEST(Fields, UnknownOnesAreListedOrRefused) {
  EXPECT_EQ(Refusal(Endpoint::kChat, {"frobnicate", "1"}), "ignored frobnicate");
  EXPECT_EQ(Refusal(Endpoint::kChat, {"frobnicate", "null"}), "ignored frobnicate");
  EXPECT_EQ(Refusal(Endpoint::kChat, {"frobnicate", "1"}, /*strict=*/true), "refused");
  EXPECT_EQ(Refusal(Endpoint::kCompletions, {"messages", "[]"}), "ignored messages");

  std::string text = "{\"" + std::string(100, 'z') + "\":0";
  for (int i = 0; i < 100; ++i)
    text += ",\"f" + std::to_string(i) + "\":0";
  std::vector<std::string> ignored;
  const auto value = boost::json::parse(text + "}");
  ASSERT_TRUE(CheckFields(value.get_object(), Endpoint::kChat, false, ignored).ok());
  EXPECT_EQ(ignored.size(), 32U);
  EXPECT_TRUE(std::is_sorted(ignored.begin(), ignored.end()));
  EXPECT_EQ(ignored.back(), std::string(64, 'z'));
}

}  // namespace
}  // namespace tenuto
