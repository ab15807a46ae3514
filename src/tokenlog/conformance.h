// The stores that the contract of log.h is tested on. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tokenlog/memory/log.h"
#include "tokenlog/sqlite/fake_volume.h"
#include "tokenlog/sqlite/log.h"
#include "tokenlog/testing.h"

namespace tenuto {

enum class StoreKind : uint8_t { kMemory, kSqlite };

// A store under test.
class Store {
 public:
  explicit Store(StoreKind kind) : kind_(kind) {
    if (kind == StoreKind::kSqlite) Reopen();
  }
  TokenLog& log() {
    if (kind_ == StoreKind::kMemory) return memory_;
    return *sqlite_;
  }
  // Closes it and opens what it left.
  void Reopen() {
    if (kind_ == StoreKind::kMemory) {
      memory_.Crash();
      return;
    }
    sqlite_.reset();
    auto opened = SqliteTokenLog::Open(volume_.Path("log.db"), SqliteMode::kWriter,
                                       {.busy_timeout_ms = 5000, .vfs = FakeVolume::VfsName()});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    sqlite_ = std::move(opened).value();
  }

 private:
  const StoreKind kind_;
  MemoryTokenLog memory_;
  FakeVolume volume_{1};
  std::unique_ptr<SqliteTokenLog> sqlite_;
};

class TokenLogTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  TokenLog& log() { return store_->log(); }
  // Commits a line of turns ids[0] <- ids[1] <- ... into `key`, whose head is `parent`.
  int64_t CommitLine(const SessionKey& key, const std::vector<std::string>& ids,
                     std::string parent = "") {
    int64_t session = 0;
    for (const std::string& id : ids) {
      const auto done = CommitOne(log(), MakeCommit(key, id, parent));
      EXPECT_TRUE(done.ok()) << id << ": " << (done.ok() ? "" : done.error().message());
      if (done.ok()) session = *done;
      parent = id;
    }
    return session;
  }
  Code CodeOf(const TurnCommit& commit) {
    const auto done = CommitOne(log(), commit);
    EXPECT_FALSE(done.ok());
    return done.ok() ? Code{} : done.error().code();
  }
  std::string Everything() {
    auto text = Dump(log());
    EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message());
    return text.ok() ? *text : "";
  }

  std::unique_ptr<Store> store_ = std::make_unique<Store>(GetParam());
};

}  // namespace tenuto
