// What is special to segment files: layout, roll-over, faults of the disk, damaged and foreign
// files, open files.
#include "payload/segment/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "format/segment.h"
#include "io/clock.h"
#include "io/fake.h"
#include "io/temp_dir.h"
#include "payload/record_bytes.h"

namespace tenuto {
namespace {

std::string PathOf(PayloadFileId file) {
  return SegmentFolderName(file) + "/" + SegmentFileName(file);
}

class SegmentStoreTest : public testing::Test {
 protected:
  SegmentStoreTest() : disk_(7), random_(8) { Reopen(); }

  void Reopen(SegmentStoreOptions options = {}) {
    store_.reset();
    store_ = std::move(SegmentStore::Open(disk_.Root(), random_, options)).value();
  }
  PayloadLocation MustAppend(PayloadFileId file, const TestRecord& record) {
    auto location = AppendOne(*store_, file, record);
    EXPECT_TRUE(location.ok()) << location.error().message();
    return location.ok() ? *location : PayloadLocation{};
  }
  void ExpectReads(const PayloadLocation& location, const TestRecord& record) {
    const auto bytes = ReadWhole(*store_, location);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message();
    EXPECT_EQ(*bytes, record.Whole());
  }
  Code ReadCode(const PayloadLocation& location) {
    const auto bytes = ReadWhole(*store_, location);
    EXPECT_FALSE(bytes.ok());
    return bytes.ok() ? Code::kConflict : bytes.error().code();
  }
  std::vector<std::byte> Contents(PayloadFileId file) {
    return disk_.Contents(PathOf(file)).value();
  }

  FakeDisk disk_;
  SeededRandom random_;
  std::unique_ptr<SegmentStore> store_;
};

TEST_F(SegmentStoreTest, LayoutIsThatOfTheFormatPage) {
  const TestRecord a = MakeRecord(1, 1024, 3976);  // 5000 bytes
  const TestRecord b = MakeRecord(2, 1024, 1);
  const PayloadRecord views[] = {a.View(), b.View()};
  const auto locations = store_->Append({}, views).value();
  const PayloadFileId file = locations[0].file;
  EXPECT_EQ(locations[0], (PayloadLocation{file, 4096, 5000}));
  EXPECT_EQ(locations[1], (PayloadLocation{file, 12288, 1025}));

  const auto bytes = Contents(file);
  ASSERT_EQ(bytes.size(), 16384U);
  EXPECT_TRUE(CheckSegmentHeader(bytes, file).ok());
  std::vector<std::byte> expected(bytes.begin(), bytes.begin() + kSegmentHeaderBytes);
  const auto add = [&expected](const TestRecord& record) {
    expected.resize(AlignSegmentOffset(expected.size()).value());
    const auto whole = record.Whole();
    expected.insert(expected.end(), whole.begin(), whole.end());
  };
  add(a);
  add(b);
  expected.resize(16384);
  EXPECT_EQ(bytes, expected);
}

TEST_F(SegmentStoreTest, AnAppendTakesOneWriteAndOneSync) {
  uint64_t before = disk_.steps();
  const PayloadLocation first = MustAppend({}, MakeRecord(1, 10, 10));
  EXPECT_EQ(disk_.steps() - before, 4U) << "create, write, sync, sync of the folder";
  before = disk_.steps();
  std::vector<TestRecord> records;
  for (uint64_t i = 0; i < 10; ++i)
    records.push_back(MakeRecord(i, 1024, 10'000));
  std::vector<PayloadRecord> views;
  for (const TestRecord& record : records)
    views.push_back(record.View());
  ASSERT_TRUE(store_->Append(first.file, views).ok());
  EXPECT_EQ(disk_.steps() - before, 2U) << "write, sync";
  before = disk_.steps();
  ASSERT_TRUE(ReadWhole(*store_, first).ok());
  EXPECT_EQ(disk_.steps() - before, 1U) << "one read";
}

TEST_F(SegmentStoreTest, SurvivesReopening) {
  const TestRecord a = MakeRecord(1, 10, 10'000);
  const TestRecord b = MakeRecord(2, 10, 20'000);
  const PayloadLocation first = MustAppend({}, a);
  Reopen();
  const PayloadLocation second = MustAppend(first.file, b);
  EXPECT_EQ(second.file, first.file);
  Reopen();
  ExpectReads(first, a);
  ExpectReads(second, b);
  EXPECT_EQ(store_->List().value(), std::vector<PayloadFileId>{first.file});
}

TEST_F(SegmentStoreTest, RollsOverAtTheLimit) {
  Reopen({.segment_bytes_max = 20'000, .open_files_max = 64});
  const TestRecord record = MakeRecord(1, 10, 9000);
  const PayloadLocation first = MustAppend({}, record);
  const PayloadLocation second =
      MustAppend(first.file, record);  // begins at 16384, under the limit
  EXPECT_EQ(second.file, first.file);
  const PayloadLocation third = MustAppend(first.file, record);
  EXPECT_NE(third.file, first.file);
  EXPECT_EQ(third.offset, 4096U);
  for (const PayloadLocation& location : {first, second, third})
    ExpectReads(location, record);
}

TEST_F(SegmentStoreTest, StepsOverATornTail) {
  const TestRecord a = MakeRecord(1, 10, 5000);
  const PayloadLocation first = MustAppend({}, a);
  auto bytes = Contents(first.file);
  const std::vector<std::byte> tail(777, std::byte{0xdd});
  bytes.insert(bytes.end(), tail.begin(), tail.end());
  disk_.Overwrite(PathOf(first.file), bytes);
  Reopen();
  const TestRecord b = MakeRecord(2, 10, 50);
  const PayloadLocation second = MustAppend(first.file, b);
  EXPECT_EQ(second.file, first.file);
  EXPECT_EQ(second.offset, AlignSegmentOffset(bytes.size()).value());
  ExpectReads(first, a);
  ExpectReads(second, b);
  const auto after = Contents(first.file);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), after.begin())) << "written bytes changed";
}

TEST_F(SegmentStoreTest, DiskFullClosesTheFileAndTheStoreLives) {
  const TestRecord a = MakeRecord(1, 10, 5000);
  const PayloadLocation first = MustAppend({}, a);
  disk_.SetCapacity(Contents(first.file).size() + 3000);
  const auto full = AppendOne(*store_, first.file, a);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), Code::kExhausted);
  EXPECT_TRUE(store_->Health().ok());
  // Still full: a new file is tried and not left behind.
  EXPECT_EQ(AppendOne(*store_, first.file, a).error().code(), Code::kExhausted);
  EXPECT_EQ(AppendOne(*store_, {}, a).error().code(), Code::kExhausted);
  EXPECT_EQ(store_->List().value(), std::vector<PayloadFileId>{first.file});
  ExpectReads(first, a);

  disk_.SetCapacity(0);
  const PayloadLocation second = MustAppend(first.file, a);
  EXPECT_NE(second.file, first.file) << "a file with a failed write takes no more appends";
  ExpectReads(first, a);
  ExpectReads(second, a);
}

// KV is a cache: it stops before the volume has no room left for the token log.
TEST(SegmentStoreRoom, AppendsStopBeforeTheRoomThatIsKeptFree) {
  FakeDisk disk(1);
  SeededRandom random(1);
  const auto store = SegmentStore::Open(disk.Root(), random, {.free_bytes_min = 50'000}).value();
  const TestRecord record = MakeRecord(1, 10, 5000);
  disk.SetCapacity(100'000);
  const PayloadLocation first = AppendOne(*store, {}, record).value();
  disk.SetCapacity(70'000);
  const auto refused = AppendOne(*store, first.file, record);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kExhausted);
  // Nothing was written, so the file goes on when there is room again.
  disk.SetCapacity(100'000);
  EXPECT_EQ(AppendOne(*store, first.file, record).value().file, first.file);
}

TEST_F(SegmentStoreTest, FailedWriteClosesTheFile) {
  const TestRecord a = MakeRecord(1, 10, 5000);
  const PayloadLocation first = MustAppend({}, a);
  disk_.FailAtStep(1, Code::kIo);
  EXPECT_EQ(AppendOne(*store_, first.file, a).error().code(), Code::kIo);
  EXPECT_TRUE(store_->Health().ok());
  const PayloadLocation second = MustAppend(first.file, a);
  EXPECT_NE(second.file, first.file);
  ExpectReads(first, a);
  ExpectReads(second, a);
}

// The steps of an append to a new file that are syncs: of the file, and of the folder.
TEST_F(SegmentStoreTest, FailedSyncStopsAllAppendsUntilReopened) {
  for (const uint64_t step : {uint64_t{3}, uint64_t{4}}) {
    SCOPED_TRACE(step);
    Reopen();
    const TestRecord a = MakeRecord(1, 10, 5000);
    const PayloadLocation first = MustAppend({}, a);
    disk_.FailAtStep(step, Code::kIo);
    EXPECT_EQ(AppendOne(*store_, {}, a).error().code(), Code::kIo);

    const Status health = store_->Health();
    ASSERT_FALSE(health.ok());
    EXPECT_EQ(health.error().code(), Code::kIo);
    EXPECT_NE(health.error().message().find("could not be made durable"), std::string::npos);
    const uint64_t before = disk_.steps();
    const auto refused = AppendOne(*store_, first.file, a);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Code::kIo);
    EXPECT_EQ(refused.error().message(), health.error().message());
    EXPECT_EQ(disk_.steps(), before) << "a refused append must not touch the disk";
    ExpectReads(first, a);
    EXPECT_TRUE(store_->Remove(first.file).ok());

    Reopen();
    EXPECT_TRUE(store_->Health().ok());
    ExpectReads(MustAppend({}, a), a);
  }
}

TEST_F(SegmentStoreTest, FailedSyncOfAnOldFileStopsAppendsToo) {
  const TestRecord a = MakeRecord(1, 10, 5000);
  const PayloadLocation first = MustAppend({}, a);
  disk_.FailAtStep(2, Code::kIo);
  EXPECT_EQ(AppendOne(*store_, first.file, a).error().code(), Code::kIo);
  EXPECT_FALSE(store_->Health().ok());
  ExpectReads(first, a);
}

// Every step of a few operations fails once, with either code: nothing acknowledged is lost,
// nothing crashes.
TEST_F(SegmentStoreTest, FaultAtEveryStep) {
  for (const Code code : {Code::kIo, Code::kExhausted}) {
    for (uint64_t step = 1; step <= 16; ++step) {
      SCOPED_TRACE(step);
      Reopen();
      std::vector<std::pair<PayloadLocation, TestRecord>> acknowledged;
      PayloadFileId file;
      disk_.FailAtStep(step, code);
      for (uint64_t i = 0; i < 5; ++i) {
        const TestRecord record = MakeRecord(i, 100, 6000);
        auto location = AppendOne(*store_, file, record);
        if (!location) continue;
        file = location->file;
        acknowledged.emplace_back(*location, record);
        const auto read = ReadWhole(*store_, *location);
        if (read) {
          EXPECT_EQ(*read, record.Whole());
        }
      }
      disk_.FailAtStep(0, code);
      for (const auto& [location, record] : acknowledged)
        ExpectReads(location, record);
    }
  }
}

TEST_F(SegmentStoreTest, AFileCutShortIsCorrupt) {
  const PayloadLocation location = MustAppend({}, MakeRecord(1, 10, 5000));
  const auto whole = Contents(location.file);
  const size_t sizes[] = {0, 1, 63, 64, 4095, 4096, 4097, location.offset + location.bytes - 1};
  for (const size_t size : sizes) {
    disk_.Overwrite(PathOf(location.file),
                    {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_EQ(ReadCode(location), Code::kCorrupt) << "open, " << size;
    Reopen();
    EXPECT_EQ(ReadCode(location), Code::kCorrupt) << "reopened, " << size;
    disk_.Overwrite(PathOf(location.file), whole);
    Reopen();
    EXPECT_TRUE(ReadWhole(*store_, location).ok());
  }
}

TEST_F(SegmentStoreTest, AFileMadeLongerStillReads) {
  const TestRecord record = MakeRecord(1, 10, 5000);
  const PayloadLocation location = MustAppend({}, record);
  auto bytes = Contents(location.file);
  bytes.resize(bytes.size() + 100'000, std::byte{0xab});
  disk_.Overwrite(PathOf(location.file), bytes);
  Reopen();
  ExpectReads(location, record);
}

TEST_F(SegmentStoreTest, SwappedFilesAreCorrupt) {
  const PayloadLocation a = MustAppend({}, MakeRecord(1, 10, 5000));
  const PayloadLocation b = MustAppend({}, MakeRecord(2, 10, 5000));
  const auto a_bytes = Contents(a.file);
  disk_.Overwrite(PathOf(a.file), Contents(b.file));
  disk_.Overwrite(PathOf(b.file), a_bytes);
  Reopen();
  EXPECT_EQ(ReadCode(a), Code::kCorrupt);
  EXPECT_EQ(ReadCode(b), Code::kCorrupt);
}

TEST_F(SegmentStoreTest, EveryFlippedHeaderByteIsFoundWhenOpened) {
  const TestRecord record = MakeRecord(1, 10, 100);
  const PayloadLocation location = MustAppend({}, record);
  const auto good = Contents(location.file);
  for (size_t at = 0; at < kSegmentHeaderBytes; ++at) {
    auto bad = good;
    bad[at] ^= std::byte{2};
    disk_.Overwrite(PathOf(location.file), bad);
    Reopen();
    EXPECT_EQ(ReadCode(location), at == 8 || at == 9 ? Code::kInvalid : Code::kCorrupt) << at;
    // Nothing is added to a file that is damaged or of another version.
    const PayloadLocation other = MustAppend(location.file, record);
    EXPECT_NE(other.file, location.file);
    EXPECT_EQ(Contents(location.file), bad);
    EXPECT_TRUE(store_->Remove(other.file).ok());
  }
}

TEST_F(SegmentStoreTest, AnotherVersionIsRefusedWithBothNamed) {
  const PayloadLocation location = MustAppend({}, MakeRecord(1, 10, 100));
  auto bytes = Contents(location.file);
  bytes[8] = std::byte{9};
  disk_.Overwrite(PathOf(location.file), bytes);
  Reopen();
  const auto read = ReadWhole(*store_, location);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), Code::kInvalid);
  EXPECT_NE(read.error().message().find("segment version 9, this build reads version 1"),
            std::string::npos)
      << read.error().message();
}

TEST_F(SegmentStoreTest, ListTakesOnlyItsOwnFiles) {
  const PayloadLocation location = MustAppend({}, MakeRecord(1, 10, 100));
  disk_.Overwrite("3/notes.txt", {});
  disk_.Overwrite("3/3000000000000000.seg.tmp", {});
  disk_.Overwrite("3/4000000000000000.seg", {});  // in the wrong folder
  disk_.Overwrite("stray.seg", {});
  EXPECT_EQ(store_->List().value(), std::vector<PayloadFileId>{location.file});
}

TEST_F(SegmentStoreTest, KeepsFewFilesOpen) {
  Reopen({.segment_bytes_max = uint64_t{1} << 30, .open_files_max = 4});
  std::vector<std::pair<PayloadLocation, TestRecord>> all;
  for (uint64_t i = 0; i < 20; ++i) {
    const TestRecord record = MakeRecord(i, 10, 100);
    all.emplace_back(MustAppend({}, record), record);
    EXPECT_LE(store_->open_files_count(), 4U);
  }
  for (int round = 0; round < 2; ++round) {
    for (const auto& [location, record] : all)
      ExpectReads(location, record);
    EXPECT_EQ(store_->open_files_count(), 4U);
  }
  // The last used stays open: reading it again is one step.
  const uint64_t before = disk_.steps();
  ExpectReads(all.back().first, all.back().second);
  EXPECT_EQ(disk_.steps() - before, 1U);
  EXPECT_TRUE(store_->Remove(all.back().first.file).ok());
  EXPECT_EQ(store_->open_files_count(), 3U);
}

TEST_F(SegmentStoreTest, ARemoveThatFailsSaysSo) {
  const TestRecord record = MakeRecord(1, 10, 100);
  const PayloadLocation location = MustAppend({}, record);
  disk_.FailAtStep(1, Code::kIo);
  const Status status = store_->Remove(location.file);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kIo);
  ExpectReads(location, record);
}

// Draws the same number again and again, as a broken source of randomness would.
class StuckRandom : public Random {
 public:
  void Fill(std::span<std::byte> out) override { std::fill(out.begin(), out.end(), std::byte{5}); }
};

TEST(SegmentStoreRandomTest, NeverTakesAFileThatExists) {
  FakeDisk disk(1);
  StuckRandom random;
  const auto store = SegmentStore::Open(disk.Root(), random).value();
  const TestRecord record = MakeRecord(1, 10, 100);
  const PayloadLocation location = AppendOne(*store, {}, record).value();
  const auto second = AppendOne(*store, {}, MakeRecord(2, 10, 100));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kConflict);
  EXPECT_EQ(ReadWhole(*store, location).value(), record.Whole());
}

// `tenuto verify` beside a server: it reads what is there and leaves no trace.
TEST(SegmentStoreReading, ReadsAndChangesNothing) {
  const TempDir folder;
  const std::string path = folder.path() + "/kv";
  std::filesystem::create_directory(path);
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      all.insert(entry.path().string());
    return all;
  };
  {
    const auto store =
        SegmentStore::OpenForReading(OpenDirForReading(path).value(), SystemRandom());
    EXPECT_EQ(store->List().value().size(), 0U);
    std::vector<std::byte> out(16);
    EXPECT_EQ(store->Read({PayloadFileId{7}, 4096, 16}, out).error().code(), Code::kNotFound);
    EXPECT_EQ(names().size(), 0U) << "no folders were made";
  }
  const auto writer = SegmentStore::Open(OpenDir(path).value(), SystemRandom()).value();
  const TestRecord record = MakeRecord(1, 10, 5000);
  const PayloadLocation location = AppendOne(*writer, {}, record).value();
  const auto before = names();
  const auto store = SegmentStore::OpenForReading(OpenDirForReading(path).value(), SystemRandom());
  EXPECT_EQ(store->List().value(), std::vector<PayloadFileId>{location.file});
  EXPECT_EQ(ReadWhole(*store, location).value(), record.Whole());
  EXPECT_EQ(AppendOne(*store, {}, record).error().code(), Code::kDenied);
  EXPECT_EQ(AppendOne(*store, location.file, record).error().code(), Code::kDenied);
  EXPECT_EQ(store->Remove(location.file).error().code(), Code::kDenied);
  EXPECT_EQ(names(), before);
}

TEST(SegmentStoreErrors, NameTheFileWithoutItsFolders) {
  const TempDir temp;
  auto store = std::move(SegmentStore::Open(OpenDir(temp.path()).value(), SystemRandom())).value();
  const auto location = AppendOne(*store, {}, MakeRecord(1, 10, 10)).value();
  store = std::move(SegmentStore::Open(OpenDir(temp.path()).value(), SystemRandom())).value();
  const std::string path = temp.path() + "/" + PathOf(location.file);
  std::filesystem::remove(path);
  const std::string name = SegmentFileName(location.file);
  const auto gone = ReadWhole(*store, location);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code(), Code::kNotFound);
  EXPECT_EQ(gone.error().message(), "read " + name + ": No such file or directory");
  std::filesystem::create_directory(path);
  const auto folder = ReadWhole(*store, location);
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().message(), "read " + name + ": not a regular file");
  const Status removed = store->Remove(location.file);
  ASSERT_FALSE(removed.ok());
  EXPECT_EQ(removed.error().message().find(": :"), std::string::npos) << removed.error().message();
}

}  // namespace
}  // namespace tenuto
