// The real model that the tests of this folder run on, and small helpers around it. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/embedded/llama/executor.h"

// Given by the build; this is for a run from the repository's root.
#ifndef TENUTO_TEST_MODEL_DEFAULT
#define TENUTO_TEST_MODEL_DEFAULT ".deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
#endif

namespace tenuto {

// $TENUTO_TEST_MODEL, or the model that scripts/quickstart fetches. A missing model is a failure,
// not a skipped test.
inline std::string TestModelPath() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* given = std::getenv("TENUTO_TEST_MODEL");
  std::string path = given != nullptr ? given : TENUTO_TEST_MODEL_DEFAULT;
  if (!std::filesystem::exists(path)) {
    ADD_FAILURE()
        << "there is no test model " << path
        << ": run scripts/quickstart --no-start, which fetches it, or set TENUTO_TEST_MODEL";
  }
  return path;
}

inline LlamaSettings SmallSettings(const std::string& model_path) {
  LlamaSettings settings;
  settings.model_path = model_path;
  settings.cells = 1024;
  settings.sequences = 4;
  settings.batch_tokens_max = 256;
  settings.ubatch_tokens = 256;
  settings.outputs_max = 8;
  settings.threads = 1;  // several would wait for each other on a busy machine
  return settings;
}

// Ends the test when the model does not load.
inline std::unique_ptr<LlamaExecutor> OpenOrFail(const LlamaSettings& settings) {
  auto executor = LlamaExecutor::Open(settings);
  if (!executor) {
    ADD_FAILURE() << executor.error().message();
    return nullptr;
  }
  return std::move(executor).value();
}

// kNone where there is no error: asking a good Result for its error is undefined.
inline constexpr Code kNone{0};
inline Code CodeOf(const Status& status) {
  return status ? kNone : status.error().code();
}

inline std::vector<ForwardToken> BatchOf(SeqId seq, TokenPos begin,
                                         std::span<const TokenId> tokens) {
  std::vector<ForwardToken> batch;
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.push_back({seq, begin + static_cast<TokenPos>(i), tokens[i], i + 1 == tokens.size()});
  }
  return batch;
}

// Forward of all tokens in batches of at most `chunk`; logits of the last one.
inline std::vector<float> Compute(Executor& executor, SeqId seq, TokenPos begin,
                                  std::span<const TokenId> tokens, size_t chunk = 256) {
  for (size_t at = 0; at < tokens.size(); at += chunk) {
    const auto part = tokens.subspan(at, std::min(chunk, tokens.size() - at));
    const Status status = executor.Forward(BatchOf(seq, begin + static_cast<TokenPos>(at), part));
    if (!status) {
      ADD_FAILURE() << status.error().message();
      return {};
    }
  }
  const std::span<const float> logits = executor.Logits(0);
  return {logits.begin(), logits.end()};
}

inline float MaxDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float difference = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference;
}

// Some hundred tokens of ordinary text.
inline std::vector<TokenId> StoryTokens(const Executor& executor, size_t count) {
  std::string text;
  for (int i = 0; text.size() < count * 6; ++i) {
    text += "On day " + std::to_string(i * 7) + " the gardener counted " +
            std::to_string(i * i + 3) + " apples, wrote the number into her book and went home. ";
  }
  auto tokens = executor.Tokenize(text, true, false);
  EXPECT_TRUE(tokens.ok());
  tokens->resize(count);
  return *tokens;
}

}  // namespace tenuto
