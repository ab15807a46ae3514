// Opening: every wrong setting and every bad file is one clear sentence, and the fingerprint says
// what it must.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "engine/embedded/llama/executor.h"
#include "engine/embedded/llama/model_file.h"
#include "engine/embedded/llama/template.h"
#include "engine/embedded/llama/test_model.h"
#include "engine/embedded/llama/tiny_model.h"

namespace tenuto {
namespace {

constexpr const char* kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + "
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

class OpenTest : public ::testing::Test {
 protected:
  LlamaSettings Tiny(const TinyModelOptions& options = {}, const std::string& name = "tiny.gguf") {
    LlamaSettings settings = SmallSettings(WriteTinyModel(folder_, options, name));
    settings.cells = 256;
    return settings;
  }
  static std::string Refusal(const LlamaSettings& settings, Code code) {
    auto executor = LlamaExecutor::Open(settings);
    if (executor) {
      ADD_FAILURE() << "was opened";
      return "";
    }
    EXPECT_EQ(executor.error().code(), code) << executor.error().message();
    EXPECT_EQ(executor.error().message().find('\n'), std::string::npos);
    return executor.error().message();
  }
  static bool Has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    return text.find(part) != std::string::npos;
  }
  static std::string Fingerprint(const LlamaSettings& settings) {
    const auto executor = OpenOrFail(settings);
    return executor ? executor->info().fingerprint.Hex() : "";
  }
  TempDir folder_;
};

TEST_F(OpenTest, BadFilesAreOneSentence) {
  LlamaSettings settings = Tiny();
  const std::string good = settings.model_path;
  settings.model_path = "";
  Refusal(settings, Code::kInvalid);
  settings.model_path = folder_.File("none.gguf");
  EXPECT_TRUE(Has(Refusal(settings, Code::kNotFound), "none.gguf"));
  settings.model_path = folder_.path();
  EXPECT_TRUE(Has(Refusal(settings, Code::kCorrupt), "not a regular file"));

  settings.model_path = folder_.File("cut.gguf");
  std::filesystem::copy_file(good, settings.model_path);
  std::filesystem::resize_file(settings.model_path, std::filesystem::file_size(good) - 5000);
  EXPECT_TRUE(Has(Refusal(settings, Code::kCorrupt), "cut off"));

  settings.model_path = folder_.File("text.gguf");
  std::ofstream(settings.model_path) << "Dear reader, this is a letter and no model at all.";
  EXPECT_TRUE(Has(Refusal(settings, Code::kCorrupt), "not a GGUF model"));
}

TEST_F(OpenTest, AnUnknownArchitectureIsNamedInTheLibrarysWords) {
  TinyModelOptions options;
  options.architecture = "nosuch";
  const std::string message = Refusal(Tiny(options), Code::kInvalid);
  EXPECT_TRUE(Has(message, "unknown model architecture: 'nosuch'"));
  EXPECT_TRUE(Has(message, "tiny.gguf"));
}

TEST_F(OpenTest, AFileWithMissingTensorsIsRefusedWithTheReason) {
  TinyModelOptions options;
  options.architecture = "qwen2";  // its keys and biases are not in the file
  EXPECT_TRUE(Has(Refusal(Tiny(options), Code::kInvalid), "qwen2"));
}

TEST_F(OpenTest, WrongSettingsAreRefusedBeforeTheLibraryAborts) {
  LlamaSettings settings = Tiny();
  settings.type_v = "q8_0";
  settings.flash_attention = FlashAttention::kOff;
  EXPECT_TRUE(Has(Refusal(settings, Code::kInvalid), "needs flash attention"));
  // Heads of 48 numbers are no whole blocks of 32.
  TinyModelOptions heads;
  heads.head_size = 48;
  for (const bool flash : {false, true}) {
    for (const bool keys : {true, false}) {
      if (!keys && !flash) continue;
      settings = Tiny(heads, "heads.gguf");
      settings.flash_attention = flash ? FlashAttention::kOn : FlashAttention::kOff;
      (keys ? settings.type_k : settings.type_v) = "q8_0";
      const std::string message = Refusal(settings, Code::kInvalid);
      EXPECT_TRUE(Has(message, "heads.gguf"));
      EXPECT_TRUE(Has(message, keys ? "-ctk f16" : "-ctv f16"));
    }
  }
  settings = Tiny();
  settings.type_k = "q3_k";
  EXPECT_TRUE(Has(Refusal(settings, Code::kInvalid), "f16, bf16"));
  for (const int32_t sequences : {0, -1, 256, 1000}) {
    settings = Tiny();
    settings.sequences = sequences;
    EXPECT_TRUE(Has(Refusal(settings, Code::kInvalid), "1 to 255"));
  }
  settings = Tiny();
  settings.cells = -5;
  Refusal(settings, Code::kInvalid);
  settings = Tiny();
  settings.cells = 2'000'000'000;
  EXPECT_TRUE(Has(Refusal(settings, Code::kExhausted), "are available"));
  settings = Tiny();
  settings.outputs_max = 0;
  Refusal(settings, Code::kInvalid);
}

TEST_F(OpenTest, FewOutputsAndManySequencesDoNotAbort) {
  LlamaSettings settings = Tiny();
  settings.sequences = 255;
  settings.outputs_max = 1;
  const auto executor = OpenOrFail(settings);
  ASSERT_NE(executor, nullptr);
  EXPECT_EQ(executor->info().sequences, 255);
  Compute(*executor, SeqId{254}, 0, StoryTokens(*executor, 5));
}

TEST_F(OpenTest, CellsDefaultToOneAndAHalfWindows) {
  LlamaSettings settings = Tiny();
  settings.cells = 0;
  const auto executor = OpenOrFail(settings);
  ASSERT_NE(executor, nullptr);
  EXPECT_EQ(executor->info().cells, 512 * 3 / 2);
}

TEST_F(OpenTest, TinySizesDoNotAbort) {
  for (const int32_t cells : {1, 2, 255}) {
    LlamaSettings settings = Tiny();
    settings.cells = cells;
    const auto executor = OpenOrFail(settings);
    ASSERT_NE(executor, nullptr);
    EXPECT_EQ(executor->info().cells, 256);
    Compute(*executor, SeqId{0}, 0, StoryTokens(*executor, 200), 32);
  }
  LlamaSettings settings = Tiny();
  settings.batch_tokens_max = 1;
  settings.ubatch_tokens = 1;
  const auto executor = OpenOrFail(settings);
  ASSERT_NE(executor, nullptr);
  Compute(*executor, SeqId{0}, 0, StoryTokens(*executor, 5), 1);
}

TEST_F(OpenTest, AModelIsCheckedWithoutLoadingIt) {
  const LlamaSettings good = Tiny();
  EXPECT_TRUE(CheckLlamaFiles(good.model_path).ok());
  EXPECT_TRUE(CheckLlamaModel(good.model_path).ok());
  TinyModelOptions options;
  options.architecture = "nosuch";
  const LlamaSettings other = Tiny(options, "other.gguf");
  EXPECT_TRUE(CheckLlamaFiles(other.model_path).ok());
  EXPECT_EQ(CheckLlamaModel(other.model_path).error().message(), Refusal(other, Code::kInvalid));
  const std::string missing = folder_.File("none.gguf");
  EXPECT_EQ(CheckLlamaModel(missing).error().code(), Code::kNotFound);
}

TEST_F(OpenTest, LongHashingSaysHowFarItIs) {
  const std::string path = WriteTinyModel(folder_, {});
  testing::internal::CaptureStderr();
  EXPECT_TRUE(WeightsDigest(path, "").ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(WeightsDigest(path, "", /*note_ms=*/0).ok());
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(Has(lines, R"("event":"model.hashing")"));
  EXPECT_TRUE(Has(lines, R"("percent":100)"));
}

TEST_F(OpenTest, APipeIsNotRead) {
  const std::string path = folder_.File("pipe.gguf");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(Has(WeightsDigest(path, "").error().message(), "not a regular file"));
}

TEST_F(OpenTest, FlashAttentionIsResolvedAndShown) {
  for (const auto& [asked, shown] :
       {std::pair{"off", "off"}, {"on", "on"}, {"auto", "off"}, {"0", "off"}, {"1", "on"}}) {
    LlamaSettings settings = Tiny();
    settings.flash_attention = *ParseFlashAttention(asked);
    const auto executor = OpenOrFail(settings);
    ASSERT_NE(executor, nullptr);
    EXPECT_TRUE(
        Has(executor->info().fingerprint_text, std::string("flash_attention=") + shown + "\n"));
  }
  EXPECT_FALSE(ParseFlashAttention("maybe").ok());
}

TEST_F(OpenTest, TheFingerprintChangesWithWhatKvDependsOn) {
  const LlamaSettings settings = Tiny();
  const std::string base = Fingerprint(settings);
  EXPECT_EQ(Fingerprint(settings), base);
  LlamaSettings other = settings;
  other.cells = 768;
  other.sequences = 7;
  other.batch_tokens_max = 32;
  other.threads = 2;
  other.outputs_max = 20;
  other.model_path = folder_.File("renamed.gguf");
  std::filesystem::copy_file(settings.model_path, other.model_path);
  EXPECT_EQ(Fingerprint(other), base);

  other = settings;
  other.type_k = "q8_0";
  EXPECT_NE(Fingerprint(other), base);
  other = settings;
  other.flash_attention = FlashAttention::kOn;
  EXPECT_NE(Fingerprint(other), base);
  other = settings;
  other.swa_full = false;
  EXPECT_NE(Fingerprint(other), base);
  other = settings;
  other.flash_attention = FlashAttention::kOn;
  const std::string flash = Fingerprint(other);
  other.type_v = "q8_0";
  EXPECT_NE(Fingerprint(other), flash);
  TinyModelOptions rope;
  rope.rope_base = 20'000;
  EXPECT_NE(Fingerprint(Tiny(rope, "rope.gguf")), base);
  TinyModelOptions weights;
  weights.seed = 2;
  EXPECT_NE(Fingerprint(Tiny(weights, "other.gguf")), base);
  ::setenv("LLAMA_ATTN_ROT_DISABLE", "1", 1);
  EXPECT_NE(Fingerprint(settings), base);
  ::unsetenv("LLAMA_ATTN_ROT_DISABLE");
  EXPECT_EQ(Fingerprint(settings), base);
}

TEST_F(OpenTest, AModelUpdatedInPlaceIsAnotherModel) {
  LlamaSettings settings = Tiny();
  settings.cache_dir = folder_.File("cache");
  const std::string base = Fingerprint(settings);
  EXPECT_EQ(Fingerprint(settings), base);  // from the cache
  TinyModelOptions weights;
  weights.seed = 3;
  WriteTinyModel(folder_, weights);  // the same name
  EXPECT_NE(Fingerprint(settings), base);
}

TEST_F(OpenTest, TheDigestCacheIsTrustedOnlyWhole) {
  const std::string path = WriteTinyModel(folder_, {});
  const std::string cache = folder_.File("cache");
  const Digest256 expected = *WeightsDigest(path, "");
  EXPECT_EQ(*WeightsDigest(path, cache), expected);
  EXPECT_EQ(*WeightsDigest(path, cache), expected);
  std::string entry;
  for (const auto& file : std::filesystem::directory_iterator(cache))
    entry = file.path();
  ASSERT_FALSE(entry.empty());
  std::string text;
  {
    std::ifstream in(entry, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  EXPECT_TRUE(Has(text, expected.Hex()));
  for (size_t at = 0; at < text.size(); at += 7) {
    std::string damaged = text;
    damaged[at] = damaged[at] == '0' ? '1' : '0';
    std::ofstream(entry, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(*WeightsDigest(path, cache), expected) << at;
  }
  std::ofstream(entry, std::ios::binary | std::ios::trunc).flush();
  EXPECT_EQ(*WeightsDigest(path, cache), expected);
  EXPECT_EQ(*WeightsDigest(path, "/proc/nowhere/at/all"), expected);  // no cache is no error
  EXPECT_EQ(WeightsDigest(folder_.File("none.gguf"), cache).error().code(), Code::kNotFound);
}

TEST_F(OpenTest, PartsOfASplitModelAreFound) {
  EXPECT_EQ(ModelFiles("/m/a.gguf"), std::vector<std::string>{"/m/a.gguf"});
  EXPECT_EQ(ModelFiles("a-00001-of-00003.gguf"),
            (std::vector<std::string>{"a-00001-of-00003.gguf", "a-00002-of-00003.gguf",
                                      "a-00003-of-00003.gguf"}));
  EXPECT_EQ(ModelFiles("a-00002-of-00003.gguf").size(), 1U);
  EXPECT_EQ(ModelFiles("a-00001-of-0003.gguf").size(), 1U);
  EXPECT_EQ(ModelFiles("-00001-of-00001.gguf").size(), 1U);
}

TEST_F(OpenTest, TemplatesAreChosenAndRefusedByName) {
  const std::vector<ChatMessage> messages = {{"user", "Hi", ""}};
  LlamaSettings settings = Tiny();  // has none
  auto executor = OpenOrFail(settings);
  ASSERT_NE(executor, nullptr);
  const auto none = executor->RenderChat(messages, true);
  EXPECT_EQ(none.error().code(), Code::kInvalid);
  EXPECT_TRUE(Has(none.error().message(), "--chat-template"));
  EXPECT_TRUE(Has(none.error().message(), "chatml"));
  EXPECT_EQ(executor->info().default_system, "");

  settings.chat_template = "chatml";
  executor = OpenOrFail(settings);
  ASSERT_NE(executor, nullptr);
  EXPECT_EQ(*executor->RenderChat(messages, true),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(*executor->RenderChat(messages, false), "<|im_start|>user\nHi<|im_end|>\n");
  const std::vector<ChatMessage> nul = {{"user", std::string("a\0b", 3), ""}};
  EXPECT_EQ(executor->RenderChat(nul, true).error().field(), "messages[0].content");
  const std::vector<ChatMessage> longer = {{"user", std::string(100'000, 'x'), ""}};
  EXPECT_EQ(executor->RenderChat(longer, true)->size(), 100'000U + 17 + 11 + 22);

  settings.chat_template = folder_.File("template.jinja");
  std::ofstream(settings.chat_template) << kChatMl;
  executor = OpenOrFail(settings);
  ASSERT_NE(executor, nullptr);
  EXPECT_TRUE(executor->RenderChat(messages, true).ok());

  std::ofstream(settings.chat_template, std::ios::trunc) << "{{ nothing that is known }}";
  EXPECT_TRUE(Has(Refusal(settings, Code::kInvalid), "not known"));
  settings.chat_template = "chatmlx";
  EXPECT_TRUE(Has(Refusal(settings, Code::kInvalid), "neither a built-in template nor a file"));
}

TEST_F(OpenTest, AModelsOwnTemplateIsUsed) {
  TinyModelOptions options;
  options.chat_template =
      std::string("{% if x %}{{ '<|im_start|>system\nBe tiny.<|im_end|>\n' }}{% endif %}") +
      kChatMl;
  const auto executor = OpenOrFail(Tiny(options));
  ASSERT_NE(executor, nullptr);
  EXPECT_EQ(executor->info().default_system, "Be tiny.");
  EXPECT_EQ(executor->info().model_name, "tiny llama");
}

}  // namespace
}  // namespace tenuto
