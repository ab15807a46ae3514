// What the tests of the index cache share: a cache over a fake disk, and sessions whose turns are
// made up. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "format/bytes.h"
#include "io/fake.h"
#include "session/index_cache.h"
#include "session/index_file.h"

namespace tenuto {

inline constexpr int64_t kSecondNs = 1'000'000'000;

inline Digest256 OwnerOf(std::string_view name) {
  return Sha256Of(name);
}

class IndexCacheTest : public testing::Test {
 public:
  ~IndexCacheTest() override { SetLogLevel(LogLevel::kInfo); }

 protected:
  IndexCacheTest() : disk_(11) {
    SetLogLevel(LogLevel::kOff);
    Reopen();
  }

  // As after a restart: what was not written is gone.
  void Reopen() {
    cache_.reset();
    metrics_ = std::make_unique<Metrics>();
    cache_ = std::make_unique<IndexCache>(disk_.Root(), clock_, *metrics_, options_);
  }

  std::shared_ptr<IndexedSession> Get(int64_t session, std::string_view owner = "alice") {
    return cache_->Get(session, OwnerOf(owner));
  }
  // Adds turns to the session as if the log had that many more.
  void Say(int64_t session, uint32_t count, std::string_view owner = "alice") {
    const auto entry = Get(session, owner);
    const auto tools = cache_->Tools();
    {
      MutexLock lock(entry->mutex);
      for (uint32_t i = 0; i < count; ++i)
        AddTo(*entry, tools->analyser);
    }
    cache_->Used(*entry);
  }
  static void AddTo(IndexedSession& entry, Analyser& analyser) TENUTO_REQUIRES(entry.mutex) {
    const uint64_t line = ++entry.lines;
    const std::string user = "The ferry number " + std::to_string(line) + " leaves at dawn.";
    ArchivedTurn turn;
    turn.turn = static_cast<uint32_t>(line);
    turn.time = {1715342400 + 60 * static_cast<int64_t>(line), 0};
    turn.user = user;
    turn.answer = "Noted.";
    entry.index.Add(analyser, turn);
    entry.last_turn = TurnIdOf(line);
  }
  static TurnId TurnIdOf(uint64_t line) {
    return MakeTurnId(1'700'000'000'000 + static_cast<int64_t>(line), "0123456789");
  }
  uint64_t LinesOf(int64_t session, std::string_view owner = "alice") {
    const auto entry = Get(session, owner);
    MutexLock lock(entry->mutex);
    EXPECT_EQ(entry->index.turns().size(), entry->lines);
    EXPECT_EQ(entry->last_turn, entry->lines == 0 ? TurnId() : TurnIdOf(entry->lines));
    return entry->lines;
  }
  void WaitSeconds(int64_t seconds) { clock_.now_ns += seconds * kSecondNs; }

  uint64_t Rebuilds(std::string_view reason) {
    return metrics_
        ->GetCounter("tenuto_recall_index_rebuilds_total", "", MetricLabel("reason", reason))
        .value();
  }
  uint64_t AllRebuilds() {
    return Rebuilds("corrupt") + Rebuilds("version") + Rebuilds("owner") + Rebuilds("io") +
           Rebuilds("asked");
  }
  uint64_t Loads() { return metrics_->GetCounter("tenuto_recall_index_loads_total", "").value(); }
  uint64_t WriteErrors() {
    return metrics_->GetCounter("tenuto_recall_index_write_errors_total", "").value();
  }
  int64_t InMemory() { return metrics_->GetGauge("tenuto_recall_indexes", "").value(); }
  bool HasFile(int64_t session) { return disk_.Contents(IndexFileName(session)).ok(); }
  std::vector<std::byte> FileOf(int64_t session) {
    return disk_.Contents(IndexFileName(session)).value();
  }
  uint64_t LinesInFile(int64_t session) { return GetLe<uint64_t>(FileOf(session), 56); }

  // The seal is right again: what is found then is found by other checks.
  static void Reseal(std::vector<std::byte>& file) {
    const auto header = DecodeIndexFileHeader(file, file.size()).value();
    const std::span<const std::byte> bytes(file);
    const Digest256 seal = IndexFileSeal(
        bytes.first(kIndexFileHeaderBytes),
        bytes.subspan(kIndexFileHeaderBytes, header.last_turn_bytes),
        bytes.subspan(kIndexFileHeaderBytes + header.last_turn_bytes, header.index_bytes));
    PutBytes(file, file.size() - kIndexFileSealBytes, seal.bytes);
  }

  FakeDisk disk_;
  FakeClock clock_;
  IndexCacheOptions options_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<IndexCache> cache_;
};

}  // namespace tenuto
