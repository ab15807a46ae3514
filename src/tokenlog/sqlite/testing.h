// What the tests of the SQLite store share. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tokenlog/sqlite/fake_volume.h"
#include "tokenlog/sqlite/log.h"
#include "tokenlog/sqlite/page_vfs.h"
#include "tokenlog/sqlite/sqlite.h"

namespace tenuto {

inline std::unique_ptr<SqliteTokenLog> OpenOrFail(const std::string& path,
                                                  SqliteMode mode = SqliteMode::kWriter) {
  auto log = SqliteTokenLog::Open(path, mode);
  EXPECT_TRUE(log.ok()) << (log.ok() ? "" : log.error().message());
  return log.ok() ? std::move(log).value() : nullptr;
}

inline std::unique_ptr<SqliteTokenLog> OpenOn(const FakeVolume& volume) {
  auto log = SqliteTokenLog::Open(volume.Path("log.db"), SqliteMode::kWriter,
                                  {.busy_timeout_ms = 100, .vfs = FakeVolume::VfsName()});
  EXPECT_TRUE(log.ok()) << (log.ok() ? "" : log.error().message());
  return log.ok() ? std::move(log).value() : nullptr;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Runs SQL on a closed log as a page-checking connection would: the bytes are sound, the meaning is
// another.
inline void Tamper(const std::string& path, const std::string& sql) {
  const auto vfs = RegisterPageVfs("");
  ASSERT_TRUE(vfs.ok());
  const auto database = Database::Open({.path = path, .vfs = *vfs});
  ASSERT_TRUE(database.ok()) << database.error().message();
  const Status done = (*database)->Exec(sql.c_str());
  ASSERT_TRUE(done.ok()) << done.error().message();
}

}  // namespace tenuto
