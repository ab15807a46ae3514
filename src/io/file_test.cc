// What every disk must do: the same tests for the real one and the fake.
#include "io/file.h"

#include <gtest/gtest.h>

#include <thread>

#include "io/fake.h"
#include "io/temp_dir.h"
#include "io/test_bytes.h"

namespace tenuto {
namespace {

enum class Disk { kReal, kFake };

class DiskTest : public testing::TestWithParam<Disk> {
 protected:
  std::unique_ptr<Dir> OpenRoot() {
    if (GetParam() == Disk::kFake) return fake_.Root();
    return std::move(OpenDir(temp_.path())).value();
  }

  TempDir temp_;
  FakeDisk fake_{1};
  std::unique_ptr<Dir> root_ = OpenRoot();
};

template <typename T>
Code CodeOf(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? Code{} : result.error().code();
}

TEST_P(DiskTest, WhatIsWrittenIsRead) {
  auto file = std::move(root_->Create("a")).value();
  ASSERT_TRUE(WriteText(*file, 0, "hello world").ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_EQ(ReadText(*file), "hello world");
  EXPECT_EQ(ReadText(*root_->OpenRead("a").value()), "hello world");
  ASSERT_TRUE(WriteText(*root_->OpenWrite("a").value(), 6, "there").ok());
  EXPECT_EQ(ReadText(*file), "hello there");
}

TEST_P(DiskTest, ReadStopsAtTheEndOfTheFile) {
  auto file = std::move(root_->Create("a")).value();
  ASSERT_TRUE(WriteText(*file, 0, "abcdef").ok());
  std::array<std::byte, 10> out{};
  EXPECT_EQ(file->ReadAt(0, out).value(), 6u);
  EXPECT_EQ(file->ReadAt(4, out).value(), 2u);
  EXPECT_EQ(out[0], std::byte{'e'});
  EXPECT_EQ(file->ReadAt(6, out).value(), 0u);
  EXPECT_EQ(file->ReadAt(1000, out).value(), 0u);
  EXPECT_EQ(file->ReadAt(0, std::span(out).first(3)).value(), 3u);
  EXPECT_EQ(file->ReadAt(0, {}).value(), 0u);
}

TEST_P(DiskTest, PartsAreWrittenOneAfterTheOther) {
  auto file = std::move(root_->Create("a")).value();
  const std::array parts = {BytesOf(""), BytesOf("ab"), BytesOf(""), BytesOf("cde"), BytesOf("")};
  ASSERT_TRUE(file->WriteAt(2, parts).ok());
  EXPECT_EQ(ReadText(*file), std::string_view("\0\0abcde", 7));
  EXPECT_TRUE(file->WriteAt(0, {}).ok());
  EXPECT_EQ(file->Size().value(), 7u);
}

TEST_P(DiskTest, MorePartsThanOneSystemCallTakes) {
  auto file = std::move(root_->Create("a")).value();
  std::string want;
  for (int i = 0; i < 3000; ++i)
    want += std::to_string(i);
  std::vector<std::span<const std::byte>> parts;
  for (size_t at = 0; at < want.size(); at += 4)
    parts.push_back(BytesOf(std::string_view(want).substr(at, 4)));
  ASSERT_TRUE(file->WriteAt(0, parts).ok());
  EXPECT_EQ(ReadText(*file), want);
}

TEST_P(DiskTest, OffsetsThatOverflowAreInvalid) {
  auto file = std::move(root_->Create("a")).value();
  EXPECT_EQ(CodeOf(WriteText(*file, ~uint64_t{0}, "x")), Code::kInvalid);
  EXPECT_EQ(CodeOf(WriteText(*file, uint64_t{1} << 63, "x")), Code::kInvalid);
  EXPECT_EQ(file->Size().value(), 0u);
}

TEST_P(DiskTest, CreateOfAnExistingFileIsAConflict) {
  ASSERT_TRUE(WriteText(*root_->Create("a").value(), 0, "old").ok());
  EXPECT_EQ(CodeOf(root_->Create("a")), Code::kConflict);
  EXPECT_EQ(ReadText(*root_->OpenRead("a").value()), "old");
}

TEST_P(DiskTest, MissingFilesAreNotFoundAndNamed) {
  EXPECT_EQ(CodeOf(root_->OpenRead("nope")), Code::kNotFound);
  EXPECT_EQ(CodeOf(root_->OpenWrite("nope")), Code::kNotFound);
  EXPECT_EQ(CodeOf(root_->Remove("nope")), Code::kNotFound);
  EXPECT_NE(root_->OpenRead("nope").error().message().find("nope"), std::string::npos);
}

TEST_P(DiskTest, AReadOnlyFileCannotBeWritten) {
  ASSERT_TRUE(WriteText(*root_->Create("a").value(), 0, "old").ok());
  auto file = std::move(root_->OpenRead("a")).value();
  EXPECT_EQ(CodeOf(WriteText(*file, 0, "new")), Code::kIo);
  EXPECT_EQ(ReadText(*file), "old");
}

TEST_P(DiskTest, ARemovedFileCanStillBeReadByWhoHasIt) {
  auto file = std::move(root_->Create("a")).value();
  ASSERT_TRUE(WriteText(*file, 0, "still here").ok());
  ASSERT_TRUE(root_->Remove("a").ok());
  EXPECT_EQ(ReadText(*file), "still here");
  auto other = std::move(root_->Create("a")).value();
  EXPECT_EQ(ReadText(*other), "");
}

TEST_P(DiskTest, ListIsSortedAndHasFilesOnly) {
  for (const char* name : {"b", "c", "a"})
    ASSERT_TRUE(root_->Create(name).ok());
  ASSERT_TRUE(root_->Sub("folder").ok());
  ASSERT_TRUE(root_->Remove("c").ok());
  EXPECT_EQ(root_->List().value(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(root_->List().value().size(), 2u);  // a second walk starts at the front
  EXPECT_TRUE(root_->Sync().ok());
}

TEST_P(DiskTest, SubMakesAndReopensFolders) {
  auto sub = std::move(root_->Sub("s")).value();
  ASSERT_TRUE(WriteText(*sub->Create("a").value(), 0, "inside").ok());
  EXPECT_EQ(ReadText(*root_->Sub("s").value()->OpenRead("a").value()), "inside");
  EXPECT_EQ(CodeOf(root_->OpenRead("a")), Code::kNotFound);
  auto deeper = std::move(sub->Sub("t")).value();
  EXPECT_TRUE(deeper->Create("a").ok());
  EXPECT_TRUE(deeper->Sync().ok());
}

TEST_P(DiskTest, FoldersAndFilesAreNotMixedUp) {
  ASSERT_TRUE(root_->Sub("folder").ok());
  ASSERT_TRUE(root_->Create("file").ok());
  EXPECT_EQ(CodeOf(root_->Sub("file")), Code::kIo);
  EXPECT_EQ(CodeOf(root_->OpenRead("folder")), Code::kIo);
  EXPECT_EQ(CodeOf(root_->Create("folder")), Code::kConflict);
}

TEST_P(DiskTest, NamesThatLeadElsewhereAreInvalid) {
  const std::string long_name(256, 'n');
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("/etc"),
        std::string("../x"), std::string("a\0b", 3), long_name}) {
    EXPECT_EQ(CodeOf(root_->OpenRead(name)), Code::kInvalid);
    EXPECT_EQ(CodeOf(root_->OpenWrite(name)), Code::kInvalid);
    EXPECT_EQ(CodeOf(root_->Create(name)), Code::kInvalid);
    EXPECT_EQ(CodeOf(root_->Remove(name)), Code::kInvalid);
    EXPECT_EQ(CodeOf(root_->Sub(name)), Code::kInvalid);
    EXPECT_EQ(CodeOf(root_->Lock(name)), Code::kInvalid);
  }
  EXPECT_TRUE(root_->Create(std::string(255, 'n')).ok());
}

TEST_P(DiskTest, ALockIsExclusiveUntilItIsDestroyed) {
  auto held = std::move(root_->Lock("lock")).value();
  const auto second = root_->Lock("lock");
  EXPECT_EQ(CodeOf(second), Code::kConflict);
  EXPECT_NE(second.error().message().find("process "), std::string::npos);
  EXPECT_TRUE(root_->Lock("other").ok());
  held.reset();
  EXPECT_TRUE(root_->Lock("lock").ok());
}

TEST_P(DiskTest, AFileOutlivesItsDir) {
  auto file = std::move(root_->Create("a")).value();
  root_.reset();
  ASSERT_TRUE(WriteText(*file, 0, "alone").ok());
  EXPECT_EQ(ReadText(*file), "alone");
}

TEST_P(DiskTest, ManyThreadsReadOneFile) {
  auto file = std::move(root_->Create("a")).value();
  const std::string text(64 * 1024, 'r');
  ASSERT_TRUE(WriteText(*file, 0, text).ok());
  std::array<bool, 4> same{};
  std::vector<std::thread> threads;
  for (bool& result : same)
    threads.emplace_back([&] {
      result = true;
      for (int i = 0; i < 20; ++i)
        result = result && ReadText(*file) == text;
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(same, (std::array<bool, 4>{true, true, true, true}));
}

INSTANTIATE_TEST_SUITE_P(Disks, DiskTest, testing::Values(Disk::kReal, Disk::kFake),
                         [](const auto& disk) {
                           return std::string(disk.param == Disk::kReal ? "Real" : "Fake");
                         });

}  // namespace
}  // namespace tenuto
