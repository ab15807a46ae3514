// Models whose header is damaged but in one piece: opening them is refused with one sentence, or
// works where the damage says nothing that matters. It never ends the process.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "engine/embedded/llama/executor.h"
#include "engine/embedded/llama/test_model.h"
#include "engine/embedded/llama/tiny_model.h"

namespace tenuto {
namespace {

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class DamagedModelTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<LlamaExecutor>> Open(const std::string& bytes) {
    const std::string path = folder_.File("damaged.gguf");
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    LlamaSettings settings = SmallSettings(path);
    settings.cells = 256;
    settings.batch_tokens_max = 64;
    settings.sequences = 2;
    return LlamaExecutor::Open(settings);
  }
  TempDir folder_;
};

// One of the hundred checks that libllama ends the process with.
TEST_F(DamagedModelTest, AFailedCheckOfTheLibraryIsASentence) {
  std::string bytes = Bytes(WriteTinyModel(folder_, {}));
  const std::string key = "llama.block_count";
  bytes[bytes.find(key) + key.size() + 4 + 1] = '\x7f';  // 32514 layers
  const auto opened = Open(bytes);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Code::kInvalid);
  const std::string& message = opened.error().message();
  EXPECT_NE(message.find("libllama's check failed: llama-model.cpp:"), std::string::npos)
      << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_TRUE(Open(Bytes(folder_.File("tiny.gguf"))).ok());  // the library is as before
}

// libllama would rotate them for ever.
TEST_F(DamagedModelTest, HeadsWithoutRotatedNumbersAreRefusedWhereTheyAreRotated) {
  std::string bytes = Bytes(WriteTinyModel(folder_, {.kind = TinyKind::kSlidingWindow}));
  const std::string key = "gemma3.rope.dimension_count";
  bytes[bytes.find(key) + key.size() + 4] = '\0';
  const auto opened = Open(bytes);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), Code::kInvalid);
  const std::string path = folder_.File("damaged.gguf");
  EXPECT_EQ(opened.error().message(), "can't use " + path + ": its setting " + key +
                                          " is 0, with which no token would ever be computed");
  EXPECT_EQ(CheckLlamaModel(path).error().message(), opened.error().message());
  // Others have nothing to rotate.
  EXPECT_TRUE(
      Open(Bytes(WriteTinyModel(folder_, {.kind = TinyKind::kHybrid, .says_no_rope = true}))).ok());
}

TEST_F(DamagedModelTest, NoByteOfTheHeaderEndsTheProcess) {
  int refused = 0;
  for (const TinyKind kind : {TinyKind::kFullAttention, TinyKind::kSlidingWindow,
                              TinyKind::kRecurrent, TinyKind::kHybrid}) {
    const std::string good = Bytes(WriteTinyModel(folder_, {.kind = kind}));
    // The settings stand between the vocabulary and the tensors' bytes.
    const size_t begin = good.find("tokenizer.ggml.merges");
    const size_t end = good.find("token_embd.weight") + 600;
    for (uint32_t seed = 0; seed < 150; ++seed) {
      std::mt19937 random(seed);
      std::string bytes = good;
      const size_t at = begin + random() % (end - begin);
      bytes[at] = static_cast<char>(seed % 2 == 0 ? bytes[at] ^ (1 << random() % 8) : random());
      SCOPED_TRACE(std::to_string(at));
      const auto opened = Open(bytes);
      if (!opened) {
        ++refused;
        EXPECT_EQ(opened.error().message().find('\n'), std::string::npos)
            << opened.error().message();
      }
    }
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace tenuto
