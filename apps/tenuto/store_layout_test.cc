#include "store_layout.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "io/fake.h"

namespace tenuto {
namespace {

class StoreLayoutTest : public testing::Test {
 protected:
  StoreLayoutTest() {
    std::string name = "/tmp/tenuto_store_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~StoreLayoutTest() override { std::filesystem::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream in(Path(name));
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::string root_;
};

TEST_F(StoreLayoutTest, MakesANewStoreAndOpensItAgain) {
  const std::string path = Path("deep/store");
  {
    const auto store = OpenStoreForWriting(path);
    ASSERT_TRUE(store.ok()) << store.error().message();
    EXPECT_EQ(Read("deep/store/format"), "tenuto-store 1\n");
    EXPECT_TRUE(std::filesystem::is_directory(store->paths.kv));
    EXPECT_TRUE(std::filesystem::is_directory(store->paths.cache));
    EXPECT_EQ(store->paths.log, path + "/log.db");
    EXPECT_EQ(store->paths.control_socket, path + "/control.sock");
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
  }
  const auto again = OpenStoreForWriting(path + "//");
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->paths.log, path + "/log.db");
}

TEST_F(StoreLayoutTest, SecondWriterIsRefusedAndReaderIsNot) {
  const auto first = OpenStoreForWriting(root_);
  ASSERT_TRUE(first.ok()) << first.error().message();
  const auto second = OpenStoreForWriting(root_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kConflict);
  EXPECT_NE(second.error().message().find("in use by another process"), std::string::npos);
  EXPECT_NE(second.error().message().find(std::to_string(::getpid())), std::string::npos)
      << second.error().message();
  EXPECT_TRUE(OpenStoreForReading(root_).ok());
}

TEST_F(StoreLayoutTest, AnotherVersionIsRefusedNamingBoth) {
  for (const char* version : {"2", "17"}) {
    Write("format", "tenuto-store " + std::string(version) + "\n");
    for (const auto& error :
         {OpenStoreForWriting(root_).error(), OpenStoreForReading(root_).error()}) {
      EXPECT_EQ(error.code(), Code::kInvalid);
      EXPECT_NE(
          error.message().find("format " + std::string(version) + ", this program knows format 1"),
          std::string::npos)
          << error.message();
      EXPECT_NE(error.message().find("a newer tenuto"), std::string::npos);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(Path("lock")));
  EXPECT_EQ(Read("format"), "tenuto-store 17\n");
}

TEST_F(StoreLayoutTest, AFormatFileOfSomethingElseIsCorrupt) {
  for (const char* text : {"hello\n", "tenuto-store x\n", "tenuto-store 01\n", "tenuto-store 1\n\n",
                           "tenuto-store 1x\n", "tenuto-store -1\n", "tenuto-store 9999999999\n",
                           "tenuto-store \n", "tenuto-store 2"}) {
    const Status status = CheckStoreFormat(text, "/s");
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().code(), Code::kCorrupt) << text;
  }
  EXPECT_EQ(CheckStoreFormat("tenuto-store 999999999\n", "/s").error().code(), Code::kInvalid);
  EXPECT_TRUE(CheckStoreFormat("tenuto-store 1\n", "/s").ok());
  Write("format", std::string(100, 'x'));
  EXPECT_EQ(OpenStoreForWriting(root_).error().code(), Code::kCorrupt);
}

TEST_F(StoreLayoutTest, AFolderOfSomethingElseIsLeftAlone) {
  Write(".bashrc", "x");
  const auto store = OpenStoreForWriting(root_);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code(), Code::kInvalid);
  EXPECT_NE(store.error().message().find(".bashrc"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Path("lock")));
  EXPECT_FALSE(std::filesystem::exists(Path("format")));
}

TEST_F(StoreLayoutTest, AFreshVolumeIsAFolderToUse) {
  std::filesystem::create_directory(Path("lost+found"));
  EXPECT_TRUE(OpenStoreForWriting(root_).ok());
}

TEST_F(StoreLayoutTest, ALogWithoutAFormatIsCorrupt) {
  Write("log.db", "x");
  EXPECT_EQ(OpenStoreForWriting(root_).error().code(), Code::kCorrupt);
  EXPECT_EQ(OpenStoreForReading(root_).error().code(), Code::kCorrupt);
  Write("format", "tenuto-st");  // torn, but somebody wrote a log after it
  EXPECT_EQ(OpenStoreForWriting(root_).error().code(), Code::kCorrupt);
}

TEST_F(StoreLayoutTest, PiecesWithoutTheirLogAreNotThrownAway) {
  ASSERT_TRUE(OpenStoreForWriting(root_).ok());
  EXPECT_TRUE(OpenStoreForWriting(root_).ok());  // a first start may end before there is a log
  Write("log.db", "");
  EXPECT_TRUE(OpenStoreForWriting(root_).ok());
  std::filesystem::create_directories(Path("kv/a"));
  Write("kv/a/a3b4c5d6e7f80912.seg", "x");
  for (const std::string what : {"empty", "missing"}) {
    if (what == "missing") std::filesystem::remove(Path("log.db"));
    for (const auto& error : {OpenStoreForWriting(root_).error(),
                              OpenStoreForReading(root_).error(), CheckStore(root_).error()}) {
      EXPECT_EQ(error.code(), Code::kCorrupt);
      EXPECT_NE(error.message().find("log.db is " + what), std::string::npos) << error.message();
    }
    EXPECT_TRUE(std::filesystem::exists(Path("kv/a/a3b4c5d6e7f80912.seg")));
  }
  Write("log.db", "SQLite format 3");
  EXPECT_TRUE(OpenStoreForWriting(root_).ok());
  EXPECT_TRUE(OpenStoreForReading(root_).ok());
}

TEST_F(StoreLayoutTest, PipesDoNotHoldTheStart) {
  ASSERT_EQ(::mkfifo(Path("format").c_str(), 0600), 0);
  for (const auto& error : {OpenStoreForWriting(root_).error(), OpenStoreForReading(root_).error(),
                            CheckStore(root_).error()})
    EXPECT_NE(error.message().find("not a regular file"), std::string::npos) << error.message();
  std::filesystem::remove(Path("format"));
  Write("format", "tenuto-store 1\n");
  ASSERT_EQ(::mkfifo(Path("log.db").c_str(), 0600), 0);
  for (const auto& error : {OpenStoreForWriting(root_).error(), OpenStoreForReading(root_).error(),
                            CheckStore(root_).error()})
    EXPECT_NE(error.message().find("not a regular file"), std::string::npos) << error.message();
}

// A process that was killed a moment ago may still hold its locks.
TEST_F(StoreLayoutTest, ALockThatIsGivenBackIsWaitedFor) {
  std::optional<WritableStore> first = std::move(OpenStoreForWriting(root_)).value();
  int asked = 0;
  const auto never = OpenStoreForWriting(root_, [&] { return ++asked < 3; });
  ASSERT_FALSE(never.ok());
  EXPECT_EQ(never.error().code(), Code::kConflict);
  EXPECT_EQ(asked, 3);
  const auto then = OpenStoreForWriting(root_, [&] {
    first.reset();
    return true;
  });
  EXPECT_TRUE(then.ok()) << then.error().message();
}

TEST_F(StoreLayoutTest, CheckingChangesNothing) {
  const auto fresh = CheckStore(Path("deep/store"));
  ASSERT_TRUE(fresh.ok()) << fresh.error().message();
  EXPECT_FALSE(fresh->exists);
  EXPECT_FALSE(std::filesystem::exists(Path("deep")));
  Write("file", "x");
  EXPECT_FALSE(CheckStore(Path("file/store")).ok());
  EXPECT_FALSE(CheckStore(Path("file")).ok());
  {
    const auto store = OpenStoreForWriting(Path("store"));
    ASSERT_TRUE(store.ok());
    const auto held = CheckStore(Path("store"));
    ASSERT_FALSE(held.ok());
    EXPECT_EQ(held.error().message(), OpenStoreForWriting(Path("store")).error().message());
  }
  const auto free = CheckStore(Path("store"));
  ASSERT_TRUE(free.ok()) << free.error().message();
  EXPECT_TRUE(free->exists);
  EXPECT_FALSE(CheckStore(root_).ok());  // holds 'file'
  EXPECT_FALSE(std::filesystem::exists(Path("lock")));
}

TEST_F(StoreLayoutTest, ReadingNeedsAStore) {
  const auto missing = OpenStoreForReading(Path("nothing"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_NE(missing.error().message().find("tenuto serve"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Path("nothing")));
}

TEST_F(StoreLayoutTest, PathsThatNoFolderCanHaveAreRefused) {
  Write("file", "x");
  EXPECT_FALSE(OpenStoreForWriting(Path("file")).ok());
  EXPECT_FALSE(OpenStoreForReading(Path("file")).ok());
}

// Power fails at every step of a first start: the next one makes the store or finds it whole.
TEST(StoreCrashTest, AFirstStartMayEndAnywhere) {
  uint64_t steps = 0;
  {
    FakeDisk disk(1);
    ASSERT_TRUE(OpenStoreIn(disk.Root(), "/s").ok());
    steps = disk.steps();
    ASSERT_GE(steps, 4U);
  }
  for (uint64_t halt = 1; halt <= steps; ++halt) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      FakeDisk disk(seed);
      disk.HaltAtStep(halt);
      const bool made = OpenStoreIn(disk.Root(), "/s").ok();
      disk.Crash();
      const auto again = OpenStoreIn(disk.Root(), "/s");
      ASSERT_TRUE(again.ok()) << "halt at " << halt << " seed " << seed << ": "
                              << again.error().message();
      const auto format = disk.Contents("format");
      ASSERT_TRUE(format.ok());
      EXPECT_EQ(format->size(), 15U) << made;
    }
  }
}

TEST(StoreCrashTest, ADiskThatFailsIsAnError) {
  for (uint64_t step = 1; step <= 4; ++step) {
    FakeDisk disk(7);
    disk.FailAtStep(step, Code::kIo);
    const auto store = OpenStoreIn(disk.Root(), "/s");
    if (!store) {
      EXPECT_EQ(store.error().code(), Code::kIo);
    }
    EXPECT_TRUE(OpenStoreIn(disk.Root(), "/s").ok() || store.ok()) << step;
  }
}

TEST(StorePathsTest, DefaultFollowsTheDataFolder) {
  EXPECT_EQ(DefaultStorePath("/data", "/home/ann"), "/data/tenuto");
  EXPECT_EQ(DefaultStorePath("", "/home/ann"), "/home/ann/.local/share/tenuto");
  EXPECT_EQ(DefaultStorePath("data", "/home/ann"), "/home/ann/.local/share/tenuto");
  EXPECT_EQ(DefaultStorePath("", ""), "");
  EXPECT_EQ(StorePathsOf("/").log, "/log.db");
  EXPECT_EQ(StorePathsOf("a/").log, "a/log.db");
}

}  // namespace
}  // namespace tenuto
