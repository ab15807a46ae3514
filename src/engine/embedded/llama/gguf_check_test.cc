#include "engine/embedded/llama/gguf_check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "engine/embedded/llama/test_model.h"
#include "engine/embedded/llama/tiny_model.h"

namespace tenuto {
namespace {

std::vector<std::byte> FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

class GgufCheckTest : public ::testing::Test {
 protected:
  void SetUp() override { bytes_ = FileBytes(WriteTinyModel(folder_, {})); }
  template <typename T>
  void Put(size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }
  // Offset of the first byte after `text`.
  size_t After(std::string_view text) const {
    const std::string_view all(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    const size_t at = all.find(text);
    EXPECT_NE(at, std::string_view::npos);
    return at + text.size();
  }
  Result<GgufSummary> Check() const { return CheckGguf(bytes_); }
  TempDir folder_;
  std::vector<std::byte> bytes_;
};

TEST_F(GgufCheckTest, ReadsAWholeFile) {
  const auto summary = Check();
  ASSERT_TRUE(summary.ok()) << summary.error().message();
  EXPECT_EQ(summary->version, 3U);
  EXPECT_EQ(summary->architecture, "llama");
  EXPECT_EQ(summary->tensors, 2U + 2 * 9);
  EXPECT_LE(summary->data_begin + summary->data_bytes, bytes_.size());
}

TEST_F(GgufCheckTest, EveryShorterFileIsRefused) {
  const auto summary = Check();
  ASSERT_TRUE(summary.ok());
  const size_t end = summary->data_begin + summary->data_bytes;
  for (size_t size = 0; size < end; size += size < summary->data_begin ? 1 : 97) {
    const auto cut = CheckGguf(std::span(bytes_).first(size));
    ASSERT_FALSE(cut.ok()) << size;
    ASSERT_EQ(cut.error().code(), Code::kCorrupt) << size;
  }
  EXPECT_TRUE(CheckGguf(std::span(bytes_).first(end)).ok());
  const auto cut = CheckGguf(std::span(bytes_).first(end - 1));
  EXPECT_NE(cut.error().message().find("cut off"), std::string::npos);
}

// No flip may crash or read outside (the sanitizers watch); what passes must still lie inside the
// file.
TEST_F(GgufCheckTest, FlippedBytesNeverEscapeTheFile) {
  const size_t header = Check()->data_begin;
  for (size_t at = 0; at < header; ++at) {
    for (const std::byte flip : {std::byte{0x01}, std::byte{0x80}, std::byte{0xff}}) {
      bytes_[at] ^= flip;
      const auto summary = Check();
      if (summary) {
        ASSERT_LE(summary->data_begin, bytes_.size()) << at;
        ASSERT_LE(summary->data_bytes, bytes_.size() - summary->data_begin) << at;
      }
      bytes_[at] ^= flip;
    }
  }
}

TEST_F(GgufCheckTest, HugeCountsAndLengthsSizeNothing) {
  const std::vector<std::byte> good = bytes_;
  for (const uint64_t huge :
       {UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 40, uint64_t{bytes_.size()}}) {
    for (const size_t offset :
         {size_t{8}, size_t{16}, size_t{24}, After("tokenizer.ggml.tokens") + 8,
          After("tokenizer.ggml.merges") + 8, After("token_embd.weight") + 4,
          After("token_embd.weight") + 12, After("token_embd.weight") + 24}) {
      bytes_ = good;
      Put(offset, huge);
      EXPECT_FALSE(Check().ok()) << offset << " " << huge;
    }
  }
}

TEST_F(GgufCheckTest, NamesWhatIsWrong) {
  const std::vector<std::byte> good = bytes_;
  const size_t tensor = After("token_embd.weight");  // dims u32, 2 sizes u64, type u32, offset u64
  struct Case {
    size_t offset;
    uint32_t value;
    const char* says;
  };
  for (const Case& c :
       {Case{0, 0x12345678, "not a GGUF"}, Case{4, 1, "version 1"}, Case{4, 4, "version 4"},
        Case{4, 0x03000000, "big-endian"}, Case{tensor, 5, "dimensions"},
        Case{tensor, 0, "dimensions"}, Case{tensor + 20, 12345, "unknown type"},
        Case{tensor + 20, 4, "unknown type"}, Case{tensor + 24, 7, "not aligned"},
        Case{After("general.architecture"), 77, "unknown type"}}) {
    bytes_ = good;
    Put(c.offset, c.value);
    const auto result = Check();
    ASSERT_FALSE(result.ok()) << c.says;
    EXPECT_NE(result.error().message().find(c.says), std::string::npos) << result.error().message();
  }
}

// A damaged length makes a key of half a header: the message holds its beginning, as text.
TEST_F(GgufCheckTest, LongNamesAreCutInMessages) {
  const size_t key = After("llama.feed_forward_length") - 25;
  Put(key - 8, uint64_t{100});
  Put(key + 100, uint32_t{77});
  const std::string message = Check().error().message();
  EXPECT_NE(message.find("'llama.feed_forward_length?"), std::string::npos) << message;
  EXPECT_LT(message.size(), 150U);
  for (const char c : message)
    ASSERT_TRUE(c >= ' ' && c <= '~') << message;
}

TEST_F(GgufCheckTest, EpsilonsAreFromZeroUp) {
  const size_t value = After("llama.attention.layer_norm_rms_epsilon") + 4;
  Put(value, 0.0F);
  EXPECT_TRUE(Check().ok());
  for (const float wrong : {-1e-5F, std::numeric_limits<float>::quiet_NaN()}) {
    Put(value, wrong);
    EXPECT_NE(Check().error().message().find("layer_norm_rms_epsilon"), std::string::npos);
  }
}

// libllama aborts on these. The vocabulary begins with "\u0100" (byte 0), two bytes a token.
TEST_F(GgufCheckTest, TokensThatAreTheSameAreRefused) {
  const std::vector<std::byte> good = bytes_;
  const size_t first = After("tokenizer.ggml.tokens") + 4 + 4 + 8;  // type, element type, count
  const size_t text = first + 8;                                    // its length
  constexpr size_t kStep = 8 + 2;
  ASSERT_EQ(bytes_[text], std::byte{0xC4});
  std::memcpy(bytes_.data() + text + 7 * kStep, bytes_.data() + text + 3 * kStep, 2);
  EXPECT_EQ(Check().error().code(), Code::kCorrupt);
  EXPECT_EQ(Check().error().message(),
            "the file is damaged: tokens 3 and 7 of its vocabulary are the same");
  // Up to a NUL only, where libllama stops as well: "a" and "a\0".
  bytes_ = good;
  for (const size_t i : {size_t{3}, size_t{7}}) {
    bytes_[text + i * kStep] = std::byte{0xC7};
    bytes_[text + i * kStep + 1] = std::byte{0};
  }
  EXPECT_NE(Check().error().message().find("tokens 3 and 7"), std::string::npos);
  // Empty ones are many.
  bytes_ = good;
  for (const size_t i : {size_t{3}, size_t{7}}) {
    bytes_[text + i * kStep] = std::byte{0};
  }
  EXPECT_TRUE(Check().ok());
}

TEST_F(GgufCheckTest, FilesHaveOneClearSentence) {
  EXPECT_TRUE(CheckGgufFile(folder_.File("tiny.gguf")).ok());
  const auto missing = CheckGgufFile(folder_.File("none.gguf"));
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_NE(missing.error().message().find("none.gguf"), std::string::npos);
  const auto folder = CheckGgufFile(folder_.path());
  EXPECT_EQ(folder.error().code(), Code::kCorrupt);
  EXPECT_NE(folder.error().message().find("not a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo(folder_.File("pipe.gguf").c_str(), 0600), 0);
  const auto pipe = CheckGgufFile(folder_.File("pipe.gguf"));
  EXPECT_EQ(pipe.error().code(), Code::kCorrupt);
  EXPECT_NE(pipe.error().message().find("not a regular file"), std::string::npos);
  EXPECT_EQ(pipe.error().message().find(": :"), std::string::npos);
  std::ofstream(folder_.File("empty.gguf")).flush();
  EXPECT_EQ(CheckGgufFile(folder_.File("empty.gguf")).error().code(), Code::kCorrupt);
  std::ofstream(folder_.File("text.gguf")) << "This is a letter, not a model.";
  const auto text = CheckGgufFile(folder_.File("text.gguf"));
  EXPECT_NE(text.error().message().find("not a GGUF model"), std::string::npos);
}

TEST_F(GgufCheckTest, TheRealModelIsWhole) {
  const auto summary = CheckGgufFile(TestModelPath());
  ASSERT_TRUE(summary.ok()) << summary.error().message();
  EXPECT_EQ(summary->architecture, "llama");
}

}  // namespace
}  // namespace tenuto
