// What is in memory, and when an index is written, read and given up.
#include "session/index_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "recall/gate.h"
#include "session/index_cache_testing.h"

namespace tenuto {
namespace {

// A disk on which something else happens while a file is written.
class HookedFile final : public File {
 public:
  HookedFile(std::unique_ptr<File> file, const std::function<void()>& hook)
      : file_(std::move(file)), hook_(hook) {}
  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) override {
    return file_->ReadAt(offset, out);
  }
  Status WriteAt(uint64_t offset, std::span<const std::span<const std::byte>> parts) override {
    if (hook_) hook_();
    return file_->WriteAt(offset, parts);
  }
  Status Sync() override { return file_->Sync(); }
  Result<uint64_t> Size() override { return file_->Size(); }

 private:
  const std::unique_ptr<File> file_;
  const std::function<void()>& hook_;
};

class HookedDir final : public Dir {
 public:
  HookedDir(std::unique_ptr<Dir> dir, const std::function<void()>& hook)
      : dir_(std::move(dir)), hook_(hook) {}
  Result<std::unique_ptr<File>> OpenRead(std::string_view name) override {
    return dir_->OpenRead(name);
  }
  Result<std::unique_ptr<File>> Create(std::string_view name) override {
    TENUTO_ASSIGN(std::unique_ptr<File> file, dir_->Create(name));
    return std::unique_ptr<File>(std::make_unique<HookedFile>(std::move(file), hook_));
  }
  Result<std::unique_ptr<File>> OpenWrite(std::string_view name) override {
    return dir_->OpenWrite(name);
  }
  Status Remove(std::string_view name) override { return dir_->Remove(name); }
  Status Sync() override { return dir_->Sync(); }
  Result<std::vector<std::string>> List() override { return dir_->List(); }
  Result<std::unique_ptr<Dir>> Sub(std::string_view name) override { return dir_->Sub(name); }
  Result<uint64_t> FreeBytes() override { return dir_->FreeBytes(); }
  Result<std::unique_ptr<File>> Lock(std::string_view name) override { return dir_->Lock(name); }

 private:
  const std::unique_ptr<Dir> dir_;
  const std::function<void()>& hook_;
};

TEST_F(IndexCacheTest, AnIndexOutlivesTheProcess) {
  Say(7, 20);
  std::vector<std::byte> before;
  {
    const auto entry = Get(7);
    MutexLock lock(entry->mutex);
    before = entry->index.Encode();
  }
  cache_->FlushAll();
  Reopen();
  EXPECT_EQ(LinesOf(7), 20U);
  EXPECT_EQ(Loads(), 1U);
  EXPECT_EQ(AllRebuilds(), 0U);
  const auto entry = Get(7);
  MutexLock lock(entry->mutex);
  EXPECT_EQ(entry->index.Encode(), before);
}

TEST_F(IndexCacheTest, WarmToolsAreThoseOfTheNextWhoAsks) {
  EXPECT_EQ(cache_->tools_idle(), 0U);
  cache_->WarmTools();
  EXPECT_EQ(cache_->tools_idle(), 1U);
  EXPECT_EQ(cache_->sessions(), 0U);
}

TEST_F(IndexCacheTest, ALoadedIndexIsAddedToAndAsked) {
  Say(7, 20);
  cache_->FlushAll();
  Reopen();
  Say(7, 5);
  const auto entry = Get(7);
  const auto tools = cache_->Tools();
  MutexLock lock(entry->mutex);
  const Query query =
      BuildQuery(tools->analyser, entry->index, {"ferry number 23", {1715429000, 0}, {}, {}});
  const Ranking ranking = tools->scorer.Rank(entry->index, query, {{{0, 100}}, {}}, 3);
  ASSERT_FALSE(ranking.hits.empty());
  EXPECT_EQ(ranking.hits[0].turn, 23U);
}

TEST_F(IndexCacheTest, AnIndexInMemoryIsOfOneOwner) {
  Say(7, 3);
  cache_->FlushAll();
  EXPECT_EQ(LinesOf(7, "bob"), 0U);
  EXPECT_EQ(Rebuilds("owner"), 1U);
  Say(7, 1, "bob");
  cache_->FlushAll();
  Reopen();
  EXPECT_EQ(LinesOf(7, "bob"), 1U);
}

TEST_F(IndexCacheTest, AMissingFileIsAnEmptyIndexAndNoFault) {
  EXPECT_EQ(LinesOf(7), 0U);
  EXPECT_EQ(AllRebuilds(), 0U);
  EXPECT_EQ(Loads(), 0U);
  cache_->FlushAll();
  EXPECT_FALSE(HasFile(7)) << "nothing worth a file";
}

TEST_F(IndexCacheTest, AnIdleIndexIsWrittenAndLeavesMemory) {
  Say(7, 3);
  WaitSeconds(59);
  cache_->DropIdle();
  EXPECT_EQ(InMemory(), 1);
  EXPECT_FALSE(HasFile(7));
  WaitSeconds(1);
  cache_->DropIdle();
  EXPECT_EQ(InMemory(), 0);
  EXPECT_EQ(cache_->sessions(), 0U);
  EXPECT_EQ(cache_->bytes(), 0U);
  EXPECT_EQ(LinesInFile(7), 3U);
  EXPECT_EQ(LinesOf(7), 3U);
  EXPECT_EQ(Loads(), 1U);
}

TEST_F(IndexCacheTest, WhatIndexesLeaveBehindIsGivenBackAndNotTooOften) {
  int given_back = 0;
  options_.give_back = [&] { ++given_back; };
  options_.give_back_bytes = 50'000;
  Reopen();
  const auto leave = [&](int64_t session, uint32_t turns) {
    Say(session, turns);
    WaitSeconds(60);
    cache_->DropIdle();
  };
  leave(1, 5);
  EXPECT_EQ(given_back, 0) << "too little for the trouble";
  EXPECT_EQ(cache_->tools_idle(), 1U);
  leave(2, 500);
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(cache_->tools_idle(), 0U) << "their memory is as large as what they looked at";
  cache_->DropIdle();
  EXPECT_EQ(given_back, 1);
  leave(3, 500);
  EXPECT_EQ(given_back, 2);
  Say(4, 500);
  Say(5, 500);
  WaitSeconds(60);
  cache_->DropIdle();
  EXPECT_EQ(given_back, 3);
  Say(6, 500);
  EXPECT_TRUE(cache_->Remove(6).ok());
  WaitSeconds(4);
  cache_->DropIdle();
  EXPECT_EQ(given_back, 3) << "soon after the last time";
  WaitSeconds(1);
  cache_->DropIdle();
  EXPECT_EQ(given_back, 4);
}

TEST_F(IndexCacheTest, AnIndexThatSomebodyHoldsStays) {
  Say(7, 3);
  auto entry = Get(7);
  WaitSeconds(1000);
  cache_->DropIdle();
  EXPECT_EQ(InMemory(), 1);
  EXPECT_EQ(Get(7), entry);
  entry.reset();
  WaitSeconds(1000);
  cache_->DropIdle();
  EXPECT_EQ(InMemory(), 0);
}

TEST_F(IndexCacheTest, OverItsBoundTheLongestUnusedGoFirst) {
  Say(1, 50);
  const size_t one = cache_->bytes();
  options_.bytes_max = one * 3 + one / 2;
  Reopen();
  for (const int64_t session : {1, 2, 3})
    Say(session, 50);
  (void)LinesOf(1);
  EXPECT_EQ(InMemory(), 3);
  Say(4, 50);
  cache_->DropIdle();
  EXPECT_EQ(InMemory(), 3);
  EXPECT_LE(cache_->bytes(), options_.bytes_max);
  EXPECT_TRUE(HasFile(2));
  EXPECT_FALSE(HasFile(1));
  EXPECT_FALSE(HasFile(3));
  EXPECT_EQ(LinesOf(2), 50U);
  EXPECT_EQ(Loads(), 1U);
}

TEST_F(IndexCacheTest, GetKeepsTheBoundToo) {
  options_.bytes_max = 1;
  Reopen();
  for (int64_t session = 1; session <= 20; ++session) {
    Say(session, 2);
    EXPECT_LE(InMemory(), 2);
  }
  auto held = Get(1);
  for (int64_t session = 2; session <= 20; ++session)
    EXPECT_EQ(LinesOf(session), 2U);
  EXPECT_EQ(Get(1), held);
}

TEST_F(IndexCacheTest, AnIndexInUseIsWrittenOnceEnoughTurnsAreNew) {
  Say(7, 1023);
  cache_->WriteDue();
  EXPECT_FALSE(HasFile(7));
  Say(7, 1);
  cache_->WriteDue();
  EXPECT_EQ(LinesInFile(7), 1024U);
  Say(7, 1023);
  cache_->WriteDue();
  EXPECT_EQ(LinesInFile(7), 1024U);
  Say(7, 1);
  cache_->WriteDue();
  EXPECT_EQ(LinesInFile(7), 2048U);
}

TEST_F(IndexCacheTest, AFailedWriteIsNotTriedAgainAtEachTimer) {
  Say(7, 1024);
  disk_.SetCapacity(100);
  for (int i = 0; i < 5; ++i) {
    Say(7, 1);
    cache_->WriteDue();
  }
  EXPECT_EQ(WriteErrors(), 1U);
}

TEST_F(IndexCacheTest, AFileMayLackTheNewestTurnsWhenItsIndexLeaves) {
  Say(7, 1024);
  cache_->FlushAll();
  const auto leave = [this] {
    WaitSeconds(100);
    cache_->DropIdle();
    EXPECT_EQ(InMemory(), 0);
  };
  Say(7, 16);
  leave();
  EXPECT_EQ(LinesInFile(7), 1024U);
  EXPECT_EQ(LinesOf(7), 1024U) << "the caller adds what the log has more";
  Say(7, 17);
  leave();
  EXPECT_EQ(LinesInFile(7), 1041U);
  Say(7, 1);
  cache_->FlushAll();
  EXPECT_EQ(LinesInFile(7), 1042U) << "a shutdown leaves nothing to add";
  {
    const auto entry = Get(7);
    MutexLock lock(entry->mutex);
    EXPECT_TRUE(entry->index.Remove(5));
  }
  leave();
  const auto entry = Get(7);
  MutexLock lock(entry->mutex);
  EXPECT_EQ(entry->index.turns_live(), 1041U) << "a change that is no addition is written";
}

TEST_F(IndexCacheTest, AClearedIndexIsWrittenThoughItHasAsManyTurns) {
  Say(7, 1024);
  cache_->FlushAll();
  {
    const auto entry = Get(7);
    MutexLock lock(entry->mutex);
    entry->Clear();
  }
  Say(7, 1025);
  WaitSeconds(100);
  cache_->DropIdle();
  EXPECT_EQ(LinesInFile(7), 1025U);
}

TEST_F(IndexCacheTest, RebuildEmptiesItForThoseWhoHoldIt) {
  Say(7, 3);
  cache_->FlushAll();
  const auto entry = Get(7);
  ASSERT_TRUE(cache_->Rebuild(7).ok());
  EXPECT_FALSE(HasFile(7));
  EXPECT_EQ(Rebuilds("asked"), 1U);
  EXPECT_EQ(Get(7), entry);
  EXPECT_EQ(LinesOf(7), 0U);
  ASSERT_TRUE(cache_->Rebuild(7).ok());
  EXPECT_EQ(Rebuilds("asked"), 1U) << "there was nothing";
  Say(7, 2);
  cache_->FlushAll();
  Reopen();
  EXPECT_EQ(LinesOf(7), 2U);
}

TEST_F(IndexCacheTest, RebuildRemovesAFileThatWasNeverRead) {
  Say(7, 3);
  cache_->FlushAll();
  Reopen();
  ASSERT_TRUE(cache_->Rebuild(7).ok());
  EXPECT_FALSE(HasFile(7));
  EXPECT_EQ(LinesOf(7), 0U);
  EXPECT_EQ(Rebuilds("asked"), 1U);
  EXPECT_EQ(Rebuilds("owner"), 0U);
}

TEST_F(IndexCacheTest, ARemovedSessionIsNeverWrittenAgain) {
  Say(7, 3);
  cache_->FlushAll();
  const auto entry = Get(7);
  ASSERT_TRUE(cache_->Remove(7).ok());
  EXPECT_FALSE(HasFile(7));
  EXPECT_EQ(InMemory(), 0);
  EXPECT_EQ(cache_->bytes(), 0U);
  {
    const auto tools = cache_->Tools();
    MutexLock lock(entry->mutex);
    EXPECT_EQ(entry->lines, 0U);
    AddTo(*entry, tools->analyser);
  }
  cache_->Used(*entry);
  cache_->FlushAll();
  EXPECT_FALSE(HasFile(7));
  EXPECT_EQ(cache_->bytes(), 0U);
  EXPECT_TRUE(cache_->Remove(7).ok()) << "twice is no fault";
}

TEST_F(IndexCacheTest, ATurnThatComesWhileItsIndexLeavesIsNotLost) {
  std::function<void()> hook;
  cache_ = std::make_unique<IndexCache>(std::make_unique<HookedDir>(disk_.Root(), hook), clock_,
                                        *metrics_);
  Say(7, 3);
  WaitSeconds(100);
  hook = [this] { Say(7, 1); };
  cache_->DropIdle();
  hook = nullptr;
  EXPECT_EQ(LinesInFile(7), 3U);
  EXPECT_EQ(InMemory(), 1);
  EXPECT_EQ(LinesOf(7), 4U);
}

TEST_F(IndexCacheTest, ASessionThatIsRemovedWhileAllAreWrittenIsNotWritten) {
  std::function<void()> hook;
  cache_ = std::make_unique<IndexCache>(std::make_unique<HookedDir>(disk_.Root(), hook), clock_,
                                        *metrics_);
  Say(7, 3);
  Say(8, 3);
  const auto held = Get(7);
  (void)Get(8);  // the one used last is written first
  int writes = 0;
  hook = [&] {
    if (++writes > 1) return;
    EXPECT_TRUE(cache_->Remove(7).ok());
    const auto tools = cache_->Tools();
    MutexLock lock(held->mutex);
    AddTo(*held, tools->analyser);
  };
  cache_->FlushAll();
  EXPECT_TRUE(HasFile(8));
  EXPECT_FALSE(HasFile(7));
}

TEST_F(IndexCacheTest, WithoutAFolderIndexesAreInMemoryOnly) {
  cache_ = std::make_unique<IndexCache>(nullptr, clock_, *metrics_);
  Say(7, 3);
  cache_->WriteDue();
  cache_->FlushAll();
  EXPECT_EQ(LinesOf(7), 3U);
  ASSERT_TRUE(cache_->Rebuild(7).ok());
  EXPECT_EQ(LinesOf(7), 0U);
  Say(7, 3);
  WaitSeconds(100);
  cache_->DropIdle();
  EXPECT_EQ(LinesOf(7), 0U);
  EXPECT_TRUE(cache_->Remove(7).ok());
  EXPECT_TRUE(cache_->StoredSessions()->empty());
  EXPECT_EQ(WriteErrors(), 0U);
  EXPECT_TRUE(disk_.Paths().empty());
}

TEST_F(IndexCacheTest, ToolsAreReused) {
  auto tools = cache_->Tools();
  const RecallTools* first = tools.get();
  tools.reset();
  const auto again = cache_->Tools();
  EXPECT_EQ(again.get(), first);
  const auto other = cache_->Tools();
  EXPECT_NE(other.get(), first);
}

TEST_F(IndexCacheTest, TheEstimateGrowsWithTheIndex) {
  const size_t empty = sizeof(IndexedSession);
  Say(7, 1);
  const size_t one = cache_->bytes();
  EXPECT_GT(one, empty);
  Say(7, 999);
  EXPECT_GT(cache_->bytes(), one + size_t{999} * 100);
  cache_->FlushAll();
  Reopen();
  (void)Get(7);
  const size_t read = cache_->bytes();
  EXPECT_GT(read, FileOf(7).size());
  Say(7, 1);
  EXPECT_GT(cache_->bytes(), read);
  ASSERT_TRUE(cache_->Rebuild(7).ok());
  EXPECT_EQ(cache_->bytes(), empty);
}

TEST_F(IndexCacheTest, TwoThreadsGetTheSameEntry) {
  Say(7, 50);
  cache_->FlushAll();
  for (int round = 0; round < 20; ++round) {
    Reopen();
    std::atomic<int> ready = 0;
    std::shared_ptr<IndexedSession> got[2];
    std::vector<std::thread> threads;
    threads.reserve(2);
    for (auto& mine : got) {
      threads.emplace_back([&] {
        for (++ready; ready < 2;)
          std::this_thread::yield();
        mine = Get(7);
        MutexLock lock(mine->mutex);
        EXPECT_EQ(mine->lines, 50U);
      });
    }
    for (auto& thread : threads)
      thread.join();
    EXPECT_EQ(got[0], got[1]);
    EXPECT_EQ(Loads(), 1U);
  }
}

// Queries, timers, deletions at once: no turn is lost but by Rebuild, and none is there twice.
TEST_F(IndexCacheTest, ManyThreads) {
  options_.bytes_max = 20'000;  // a few of them
  options_.idle_ms = 0;
  options_.write_turns = 5;
  Reopen();
  constexpr int kRounds = 150;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < kRounds; ++i) {
        const int64_t session = 1 + (i * 7 + thread) % 5;
        Say(session, 1 + static_cast<uint32_t>(i % 3));
        (void)LinesOf(session);
      }
    });
  }
  threads.emplace_back([this] {
    for (int i = 0; i < kRounds; ++i) {
      cache_->WriteDue();
      cache_->DropIdle();
      if (i % 10 == 0) {
        EXPECT_TRUE(cache_->Rebuild(1).ok());
      }
      if (i % 25 == 0) cache_->FlushAll();
    }
  });
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(Rebuilds("corrupt") + Rebuilds("io") + Rebuilds("owner") + WriteErrors(), 0U);
  std::vector<uint64_t> lines;
  lines.reserve(5);
  for (int64_t session = 1; session <= 5; ++session)
    lines.push_back(LinesOf(session));
  cache_->FlushAll();
  Reopen();
  for (int64_t session = 1; session <= 5; ++session)
    EXPECT_EQ(LinesOf(session), lines[static_cast<size_t>(session - 1)]);
}

}  // namespace
}  // namespace tenuto
