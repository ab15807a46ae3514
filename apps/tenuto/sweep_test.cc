#include "sweep.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/chain.h"
#include "format/piece.h"
#include "io/clock.h"
#include "io/temp_dir.h"
#include "payload/segment/store.h"
#include "tokenlog/memory/log.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

class SweepTest : public testing::Test {
 protected:
  SweepTest()
      : payloads_(SegmentStore::Open(OpenDir(folder_.path()).value(), SystemRandom()).value()),
        session_(*CommitOne(log_, MakeCommit(Key("known"), "T1"))) {}

  // A new file with one piece of `key`.
  PayloadFileId Write(const SessionKey& key) {
    const std::vector<std::byte> payload(100, std::byte{7});
    PieceHeader header;
    header.range = {0, 3};
    header.owner = OwnerDigest(key);
    std::array<std::byte, kPieceHeaderBytes> bytes;
    EncodePieceHeader(header, payload, bytes);
    const PayloadRecord record{bytes, payload};
    return (*payloads_->Append(PayloadFileId{}, {&record, 1})).front().file;
  }
  // What the sweep logged.
  std::string Sweep() {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(SweepPieces(*payloads_, log_, metrics_).ok());
    return testing::internal::GetCapturedStderr();
  }
  int64_t unknown() { return metrics_.GetGauge("tenuto_kv_unknown_sessions", "").value(); }

  TempDir folder_;
  Metrics metrics_;
  MemoryTokenLog log_;
  std::unique_ptr<SegmentStore> payloads_;
  const int64_t session_;
};

TEST_F(SweepTest, KeepsWhatARowNames) {
  const PayloadFileId file = Write(Key("known"));
  PieceRow row = MakePiece(0, 3, file.value, 4096);
  ASSERT_TRUE(log_.AddPieces(session_, {&row, 1}).ok());
  EXPECT_EQ(Sweep(), "");
  EXPECT_EQ(*payloads_->List(), std::vector<PayloadFileId>{file});
}

TEST_F(SweepTest, WhatACrashLeftOfAKnownSessionGoesWithoutAWarning) {
  Write(Key("known"));
  const std::string said = Sweep();
  EXPECT_NE(said.find("store.swept"), std::string::npos) << said;
  EXPECT_EQ(said.find("store.unknown_sessions"), std::string::npos) << said;
  EXPECT_TRUE(payloads_->List()->empty());
  EXPECT_EQ(unknown(), 0);
}

TEST_F(SweepTest, FilesOfUnknownSessionsAreSaidBeforeTheyGo) {
  Write(Key("known"));
  Write(Key("lost-1"));
  Write(Key("lost-2"));
  Write(Key("lost-2"));
  const std::string said = Sweep();
  const size_t warned = said.find("store.unknown_sessions");
  ASSERT_NE(warned, std::string::npos) << said;
  EXPECT_LT(warned, said.find("store.swept"));
  EXPECT_NE(said.find("\"sessions\":2"), std::string::npos) << said;
  EXPECT_NE(said.find("\"files\":3"), std::string::npos) << said;
  EXPECT_NE(said.find("log.db-wal"), std::string::npos) << said;
  EXPECT_TRUE(payloads_->List()->empty());
  EXPECT_EQ(unknown(), 2);
}

}  // namespace
}  // namespace tenuto
