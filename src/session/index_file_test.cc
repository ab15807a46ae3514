// The file of an index: its bytes, damage of every kind, faults of the disk, power cuts.
#include "session/index_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "session/index_cache_testing.h"

namespace tenuto {
namespace {

using IndexFileTest = IndexCacheTest;

// The example of docs/formats/recall_index.md.
TEST_F(IndexFileTest, TheFileIsThatOfTheFormatPage) {
  Digest256 owner;
  owner.bytes.fill(std::byte{0x11});
  {
    const auto entry = cache_->Get(7, owner);
    MutexLock lock(entry->mutex);
    entry->last_turn.value = "x";  // else there is nothing to write
  }
  cache_->FlushAll();
  std::vector<std::byte> file = FileOf(7);
  ASSERT_EQ(file.size(), 167U);
  file.erase(file.begin() + kIndexFileHeaderBytes);
  PutLe<uint16_t>(file, 10, 0);
  std::vector<std::byte> expected(80);
  constexpr std::string_view kMagic = "TNTINDEX";
  PutBytes(expected, 0, std::as_bytes(std::span(kMagic)));
  expected[8] = std::byte{2};
  expected[0x10] = std::byte{7};
  std::fill_n(expected.begin() + 0x18, 32, std::byte{0x11});
  expected[0x40] = std::byte{0x36};
  const auto index = RecallIndex().Encode();
  expected.insert(expected.end(), index.begin(), index.end());
  EXPECT_EQ(std::vector(file.begin(), file.begin() + 134), expected);

  Reseal(file);
  disk_.Overwrite(IndexFileName(7), file);
  Reopen();
  (void)cache_->Get(7, owner);
  EXPECT_EQ(Loads(), 1U);
}

TEST_F(IndexFileTest, EveryFlippedByteIsFoundAndTheIndexBuiltAgain) {
  Say(7, 3);
  cache_->FlushAll();
  const std::vector<std::byte> good = FileOf(7);
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int mask : {0x01, 0x80}) {
      std::vector<std::byte> bad = good;
      bad[at] ^= static_cast<std::byte>(mask);
      disk_.Overwrite(IndexFileName(7), bad);
      Reopen();
      ASSERT_EQ(LinesOf(7), 0U) << "byte " << at;
      ASSERT_EQ(Loads(), 0U) << "byte " << at;
      ASSERT_EQ(AllRebuilds(), 1U) << "byte " << at;
    }
  }
  // The caller fills it, and the file is good again.
  Say(7, 4);
  cache_->FlushAll();
  Reopen();
  EXPECT_EQ(LinesOf(7), 4U);
}

TEST_F(IndexFileTest, AFileOfAnyOtherLengthIsFound) {
  Say(7, 3);
  cache_->FlushAll();
  const std::vector<std::byte> good = FileOf(7);
  for (size_t size = 0; size < good.size(); ++size) {
    disk_.Overwrite(IndexFileName(7), {good.begin(), good.begin() + static_cast<ptrdiff_t>(size)});
    Reopen();
    ASSERT_EQ(LinesOf(7), 0U) << size;
    ASSERT_EQ(Rebuilds("corrupt"), 1U) << size;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  disk_.Overwrite(IndexFileName(7), longer);
  Reopen();
  EXPECT_EQ(LinesOf(7), 0U);
  EXPECT_EQ(Rebuilds("corrupt"), 1U);
}

// Numbers that a seal vouches for are still not trusted.
TEST_F(IndexFileTest, LengthsAreCheckedBeforeAnythingIsAllocated) {
  Say(7, 3);
  cache_->FlushAll();
  const std::vector<std::byte> good = FileOf(7);
  for (const uint64_t length : {uint64_t{0}, uint64_t{31}, uint64_t{1} << 20, uint64_t{1} << 40,
                                UINT64_MAX, UINT64_MAX - 150}) {
    std::vector<std::byte> bad = good;
    PutLe<uint64_t>(bad, 64, length);
    disk_.Overwrite(IndexFileName(7), bad);
    Reopen();
    EXPECT_EQ(LinesOf(7), 0U) << length;
    EXPECT_EQ(Rebuilds("corrupt"), 1U) << length;
  }
  std::vector<std::byte> bad = good;
  PutLe<uint16_t>(bad, 10, 65);
  PutLe<uint64_t>(bad, 64, GetLe<uint64_t>(good, 64) - 39);
  disk_.Overwrite(IndexFileName(7), bad);
  Reopen();
  EXPECT_EQ(LinesOf(7), 0U);
  EXPECT_EQ(Rebuilds("corrupt"), 1U);
  EXPECT_EQ(DecodeIndexFileHeader(good, kIndexFileBytesMax + 1).error().code(), Code::kCorrupt);
}

TEST_F(IndexFileTest, AnIndexThatIsNoneInsideAGoodSealIsFound) {
  Say(7, 3);
  cache_->FlushAll();
  std::vector<std::byte> bad = FileOf(7);
  bad[kIndexFileHeaderBytes + 26 + 40] ^= std::byte{1};
  Reseal(bad);
  disk_.Overwrite(IndexFileName(7), bad);
  Reopen();
  EXPECT_EQ(LinesOf(7), 0U);
  EXPECT_EQ(Rebuilds("corrupt"), 1U);
}

TEST_F(IndexFileTest, OtherVersionsAreBuiltAgain) {
  Say(7, 3);
  cache_->FlushAll();
  const std::vector<std::byte> good = FileOf(7);
  // Of the file; of the index in it; of the analyser.
  for (const size_t at : {size_t{8}, kIndexFileHeaderBytes + 26 + 8, kIndexFileHeaderBytes + 38}) {
    for (const int mask : {0x40, 0x80}) {
      std::vector<std::byte> other = good;
      other[at] ^= static_cast<std::byte>(mask);
      disk_.Overwrite(IndexFileName(7), other);
      Reopen();
      EXPECT_EQ(LinesOf(7), 0U) << at << " " << mask;
      EXPECT_EQ(Rebuilds("version"), 1U) << at << " " << mask;
    }
  }
  Say(7, 2);
  cache_->FlushAll();
  Reopen();
  EXPECT_EQ(LinesOf(7), 2U);
}

TEST_F(IndexFileTest, AnIndexOfAnotherOwnerOrSessionIsNotUsed) {
  Say(7, 3);
  cache_->FlushAll();
  disk_.Overwrite(IndexFileName(8), FileOf(7));
  Reopen();
  EXPECT_EQ(LinesOf(7, "bob"), 0U);
  EXPECT_EQ(Rebuilds("owner"), 1U);
  EXPECT_EQ(LinesOf(8), 0U);
  EXPECT_EQ(Rebuilds("owner"), 2U);
  EXPECT_EQ(Loads(), 0U);
}

TEST_F(IndexFileTest, AFileThatCannotBeReadIsAnEmptyIndex) {
  Say(7, 3);
  cache_->FlushAll();
  Reopen();
  disk_.FailAtStep(1, Code::kIo);
  EXPECT_EQ(LinesOf(7), 0U);
  EXPECT_EQ(Rebuilds("io"), 1U);
}

TEST_F(IndexFileTest, AFullDiskIsHarmless) {
  Say(7, 3);
  cache_->FlushAll();
  Say(7, 40);
  disk_.SetCapacity(300);
  cache_->FlushAll();
  EXPECT_EQ(WriteErrors(), 1U);
  EXPECT_FALSE(HasFile(7)) << "half an index takes room for nothing";
  EXPECT_EQ(LinesOf(7), 43U) << "it is still of use in memory";
  disk_.SetCapacity(0);
  cache_->FlushAll();
  EXPECT_EQ(WriteErrors(), 1U);
  Reopen();
  EXPECT_EQ(LinesOf(7), 43U);
}

TEST_F(IndexFileTest, AFailureAtAnyStepOfAWriteIsHarmless) {
  for (uint64_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE(cache_->Rebuild(7).ok());
    Reopen();
    Say(7, 3);
    cache_->FlushAll();
    Say(7, 1);
    disk_.FailAtStep(step, Code::kIo);
    cache_->FlushAll();
    disk_.FailAtStep(0, Code::kIo);
    EXPECT_EQ(WriteErrors(), 1U) << step;
    EXPECT_EQ(LinesOf(7), 4U) << step;
    Reopen();
    const uint64_t lines = LinesOf(7);
    EXPECT_TRUE(lines == 0 || lines == 3) << step << " " << lines;
  }
}

// Whatever the power leaves is a state of this session or none.
TEST_F(IndexFileTest, AfterAPowerCutAnIndexIsWholeOrEmpty) {
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(cache_->Rebuild(7).ok());
    Say(7, 3);
    cache_->FlushAll();
    if (round % 2 == 0) {
      ASSERT_TRUE(disk_.Root()->Sync().ok());
    }
    Say(7, 30);
    cache_->FlushAll();
    disk_.Crash();
    Reopen();
    const uint64_t lines = LinesOf(7);
    EXPECT_TRUE(lines == 0 || lines == 3 || lines == 33) << lines;
  }
}

TEST_F(IndexFileTest, WhatWasRebuiltOrRemovedDoesNotComeBackWithThePower) {
  for (int round = 0; round < 100; ++round) {
    Say(7, 3);
    Say(8, 3);
    cache_->FlushAll();
    ASSERT_TRUE(disk_.Root()->Sync().ok());
    ASSERT_TRUE(cache_->Rebuild(7).ok());
    ASSERT_TRUE(cache_->Remove(8).ok());
    disk_.Crash();
    EXPECT_FALSE(HasFile(7));
    EXPECT_FALSE(HasFile(8));
    Reopen();
    EXPECT_EQ(LinesOf(7), 0U);
    EXPECT_EQ(LinesOf(8), 0U);
  }
}

TEST_F(IndexFileTest, AFileThatCannotBeRemovedIsSaid) {
  Say(7, 3);
  cache_->FlushAll();
  for (uint64_t step = 1; step <= 2; ++step) {
    disk_.FailAtStep(step, Code::kIo);
    const Status status = cache_->Rebuild(7);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), Code::kIo);
  }
}

TEST_F(IndexFileTest, StoredSessionsAreThoseWithAFile) {
  for (const int64_t session : {300, 7, 45})
    Say(session, 1);
  cache_->FlushAll();
  for (const char* name : {"x.idx", ".idx", "07.idx", "-3.idx", "0.idx", "7.idx.tmp", "12",
                           "99999999999999999999.idx"}) {
    disk_.Overwrite(name, {});
  }
  const auto stored = cache_->StoredSessions();
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(*stored, (std::vector<int64_t>{7, 45, 300}));
}

}  // namespace
}  // namespace tenuto
