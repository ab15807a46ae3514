// What this folder believes of libllama, without a model: versions and return codes.
#include "engine/embedded/llama/library.h"

#include <gtest/gtest.h>

#include "engine/embedded/llama/parts.h"
#include "engine/embedded/llama/test_model.h"

namespace tenuto {
namespace {

TEST(LlamaLibrary, AnotherVersionAtRunTimeIsRefused) {
  EXPECT_TRUE(CheckLlamaVersion("0.5.0-dev", "0.5.0-dev").ok());
  for (const char* other : {"0.5.0", "0.5.1-dev", "0.5.0-dev2", "0.6.0-dev", ""}) {
    const Status status = CheckLlamaVersion(other, "0.5.0-dev");
    ASSERT_EQ(CodeOf(status), Code::kUnavailable) << other;
    EXPECT_NE(status.error().message().find("built for libllama 0.5.0-dev but found libllama " +
                                            std::string(other) + " at run time"),
              std::string::npos)
        << status.error().message();
  }
  EXPECT_TRUE(StartLlamaLibrary().ok());
  EXPECT_TRUE(LlamaLibraryVersion().starts_with(llama_version()));
}

TEST(LlamaLibrary, ReturnCodesOfDecodeAreErrorsThatSayWhatToDo) {
  EXPECT_TRUE(DecodeStatus(0, 5, 9).ok());
  const Status full = DecodeStatus(1, 5, 9);
  EXPECT_EQ(CodeOf(full), Code::kExhausted);  // the engine makes room and tries again
  EXPECT_EQ(full.error().message(), "no free KV cells for 5 tokens (9 free)");
  EXPECT_EQ(CodeOf(DecodeStatus(2, 5, 9)), Code::kUnavailable);
  for (const int32_t code : {-1, -2, -3, 3, INT32_MIN}) {
    const Status failed = DecodeStatus(code, 5, 9);
    EXPECT_EQ(CodeOf(failed), Code::kIo) << code;
    EXPECT_NE(failed.error().message().find(std::to_string(code)), std::string::npos);
  }
}

}  // namespace
}  // namespace tenuto
