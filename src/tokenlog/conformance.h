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

// A store under test. Reopen closes it and opens what it left.
class Store {
 public:
  virtual ~Store() = default;
  virtual TokenLog& log() = 0;
  virtual void Reopen() = 0;
};

class MemoryStore : public Store {
 public:
  TokenLog& log() override { return log_; }
  void Reopen() override { log_.Crash(); }

 private:
  MemoryTokenLog log_;
};

class SqliteStore : public Store {
 public:
  SqliteStore() { Reopen(); }
  TokenLog& log() override { return *log_; }
  void Reopen() override {
    log_.reset();
    auto opened = SqliteTokenLog::Open(volume_.Path("log.db"), SqliteMode::kWriter,
                                       {.busy_timeout_ms = 5000, .vfs = FakeVolume::VfsName()});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    log_ = std::move(opened).value();
  }

 private:
  FakeVolume volume_{1};
  std::unique_ptr<SqliteTokenLog> log_;
};

struct StoreKind {
  const char* name;
  std::unique_ptr<Store> (*make)();
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

  std::unique_ptr<Store> store_ = GetParam().make();
};

}  // namespace tenuto
