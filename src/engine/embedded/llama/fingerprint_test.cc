#include "engine/embedded/llama/fingerprint.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <set>

#include "engine/embedded/llama/library.h"
#include "engine/embedded/llama/test_model.h"
#include "engine/embedded/llama/tiny_model.h"

namespace tenuto {
namespace {

constexpr const char* kVariables[] = {"LLAMA_ATTN_ROT_DISABLE", "GGML_CPU_DISABLE_FUSION",
                                      "GGML_CPU_TILED_MM", "GGML_CPU_TILED_MM_FORCE"};

// libllama checks none of these when it is given a state.
TEST(Fingerprint, ChangesWithEachOfItsInputs) {
  FingerprintFacts base;
  base.library = "0.5.0-dev (0c1e570, build 1)";
  base.state_version = 3;
  base.architecture = "llama";
  base.rope = {{"llama.rope.freq_base", "10000"}};
  base.environment = FingerprintEnvironment();
  base.type_k = base.type_v = "f16";
  base.layout = "layers=2";
  const std::string text = FingerprintText(base);
  EXPECT_EQ(FingerprintText(base), text);
  std::set<std::string> all = {text};
  const auto other = [&](const std::function<void(FingerprintFacts&)>& change) {
    FingerprintFacts facts = base;
    change(facts);
    EXPECT_TRUE(all.insert(FingerprintText(facts)).second) << FingerprintText(facts);
  };
  other([](auto& f) { f.library = "0.5.1-dev (0c1e570, build 1)"; });
  other([](auto& f) { f.library = "0.5.0-dev (0c1e571, build 1)"; });
  other([](auto& f) { f.state_version = 4; });
  other([](auto& f) { f.architecture = "qwen2"; });
  other([](auto& f) { f.weights.bytes[31] = std::byte{1}; });
  other([](auto& f) { f.vocabulary.bytes[0] = std::byte{1}; });
  other([](auto& f) { f.type_k = "q8_0"; });
  other([](auto& f) { f.type_v = "q8_0"; });
  other([](auto& f) { f.flash_attention = true; });
  other([](auto& f) { f.swa_full = true; });
  other([](auto& f) { f.layout = "layers=3"; });
  other([](auto& f) { f.rope_type = 2; });
  other([](auto& f) { f.rope["llama.rope.freq_base"] = "10001"; });
  other([](auto& f) { f.rope["llama.rope.scaling.factor"] = "2"; });
  other([](auto& f) { f.rope.clear(); });
  for (const char* name : kVariables) {
    other([&](auto& f) { f.environment[name] = "1"; });
    other([&](auto& f) { f.environment[name] = "0"; });
  }
}

TEST(Fingerprint, TakesItsInputsFromModelLibraryAndEnvironment) {
  ASSERT_TRUE(StartLlamaLibrary().ok());
  const TempDir folder;
  llama_model_params params = llama_model_default_params();
  const auto load = [&](TinyKind kind) {
    const std::string path = WriteTinyModel(folder, {.kind = kind});
    return LlamaModelHandle(llama_model_load_from_file(path.c_str(), params));
  };
  const LlamaModelHandle llama = load(TinyKind::kFullAttention);
  ASSERT_NE(llama, nullptr);
  const FingerprintFacts facts = ModelFacts(llama.get());
  EXPECT_EQ(facts.library, LlamaLibraryVersion());
  EXPECT_EQ(facts.state_version, uint32_t{LLAMA_STATE_SEQ_VERSION});
  EXPECT_EQ(facts.architecture, "llama");
  EXPECT_EQ(facts.rope, (std::map<std::string, std::string>{{"llama.rope.dimension_count", "32"}}));
  EXPECT_EQ(ModelFacts(load(TinyKind::kSlidingWindow).get()).architecture, "gemma3");
  EXPECT_EQ(facts.environment.size(), std::size(kVariables));
  for (const char* name : kVariables) {
    EXPECT_EQ(facts.environment.at(name), "(unset)");
    ::setenv(name, "1", 1);
    EXPECT_EQ(FingerprintEnvironment().at(name), "1") << name;
    ::unsetenv(name);
  }
}

}  // namespace
}  // namespace tenuto
