#include "session/verify.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/log.h"
#include "format/piece.h"
#include "session/testing.h"

namespace tenuto {
namespace {

// Fails on demand in ways that FakeExecutor has no switch for.
class FaultyExecutor : public FakeExecutor {
 public:
  using FakeExecutor::FakeExecutor;

  Status Export(SeqId seq, TokenRange range, std::vector<std::byte>& out) override {
    TENUTO_TRY(FakeExecutor::Export(seq, range, out));
    if (other_bytes) out.back() ^= std::byte{1};
    return Ok();
  }
  std::span<const float> Logits(size_t output_index) const override {
    static const std::vector<float> kNone(static_cast<size_t>(kVocabulary),
                                          std::numeric_limits<float>::quiet_NaN());
    return no_numbers ? std::span<const float>(kNone) : FakeExecutor::Logits(output_index);
  }

  bool other_bytes = false;
  bool no_numbers = false;
};

class VerifyTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    options.model.kv_bytes_per_token = 16;  // no filling, so that a test can make other KV
    TestStack stack(disk, options);
    ASSERT_TRUE(stack.Ask("a", "one")->ok());
    ASSERT_TRUE(stack.Ask("a", "two")->ok());
    executor = std::make_unique<FaultyExecutor>(options.model);
  }

  Result<VerifyReport> Verify(const std::string& session = "a") {
    return VerifySession(*executor, disk.log, disk.payloads, ParseSessionKey(session).value(), {});
  }
  std::vector<PieceRow> Rows() {
    const SessionRow row = disk.log.FindSession(ParseSessionKey("a").value()).value();
    return disk.log.ReadPieces(row.id).value();
  }
  // Changes one byte of a piece's payload and makes its checksums right again.
  void Forge(const PieceRow& row, size_t payload_offset) {
    std::vector<std::byte> old(row.location.bytes);
    ASSERT_TRUE(disk.payloads.Read(row.location, old).ok());
    PieceHeader header = DecodePieceHeader(old).value();
    std::vector<std::byte> forged = old;
    forged[kPieceHeaderBytes + payload_offset] ^= std::byte{1};
    EncodePieceHeader(header, std::span(forged).subspan(kPieceHeaderBytes),
                      std::span(forged).first<kPieceHeaderBytes>());
    for (size_t i = 0; i < old.size(); ++i) {
      const auto mask = static_cast<uint8_t>(old[i] ^ forged[i]);
      ASSERT_TRUE(disk.payloads.Flip(row.location.file, row.location.offset + i, mask));
    }
  }

  TestDisk disk;
  TestStackOptions options;
  std::unique_ptr<FaultyExecutor> executor;
};

TEST_F(VerifyTest, WhatWasServedIsEqual) {
  const auto report = Verify();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->stored_tokens, report->log_tokens - 1);
  EXPECT_EQ(report->pieces, 2);
  EXPECT_TRUE(report->unusable.empty());
  EXPECT_TRUE(report->bytes_equal());
  ASSERT_EQ(report->positions.size(), 4u);
  EXPECT_EQ(report->positions.back(), report->stored_tokens);
  EXPECT_EQ(report->restored_difference, 0);
  EXPECT_GT(report->logit_magnitude, 0);
  EXPECT_TRUE(report->good());
}

TEST_F(VerifyTest, OtherBytesOnTheWayOutAreNotEqual) {
  executor->other_bytes = true;
  const auto report = Verify();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->pieces_unequal, 2);
  EXPECT_TRUE(report->logits_equal());
  EXPECT_FALSE(report->good());
}

TEST_F(VerifyTest, KvOfOtherNumbersWithTheRightChecksumsIsNotEqual) {
  // The last byte of a cell is one of its hash, which stands for the numbers of its KV.
  const PieceRow row = Rows().front();
  Forge(row, row.location.bytes - kPieceHeaderBytes - 1);
  const auto report = Verify();
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->unusable.empty());
  EXPECT_TRUE(report->bytes_equal());
  EXPECT_GT(report->restored_difference, report->bound());
  EXPECT_FALSE(report->logits_equal());
  EXPECT_FALSE(report->good());
}

TEST_F(VerifyTest, LogitsThatAreNoNumbersAreNotEqual) {
  executor->no_numbers = true;
  const auto report = Verify();
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->logits_equal());
  EXPECT_FALSE(report->good());
}

TEST_F(VerifyTest, APieceThatFailsAChecksumIsToldAndTheRestCompared) {
  const PieceRow row = Rows().back();
  ASSERT_TRUE(disk.payloads.Flip(row.location.file, row.location.offset + row.location.bytes - 1));
  const auto report = Verify();
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->unusable.size(), 1u);
  EXPECT_EQ(report->unusable[0].code, "corrupt");
  EXPECT_EQ(report->unusable[0].tokens, row.range.size());
  EXPECT_EQ(report->damaged_pieces, 1);
  EXPECT_EQ(report->positions.back(), row.range.begin);
  EXPECT_TRUE(report->logits_equal());
  EXPECT_FALSE(report->good());
}

// Seen ending with one sentence and no figures.
TEST_F(VerifyTest, APieceWithTheRightChecksumsThatIsRefusedIsToldAndTheRestCompared) {
  const PieceRow row = Rows().back();
  Forge(row, 0);  // the executor's own magic
  const auto report = Verify();
  ASSERT_TRUE(report.ok()) << report.error().message();
  ASSERT_EQ(report->unusable.size(), 1u);
  EXPECT_EQ(report->unusable[0].code, "corrupt");
  EXPECT_EQ(report->unusable[0].tokens, row.range.size());
  EXPECT_EQ(report->unusable[0].detail, "not KV of this range and executor");
  EXPECT_EQ(report->damaged_pieces, 1);
  ASSERT_FALSE(report->positions.empty());
  EXPECT_EQ(report->positions.back(), row.range.begin);
  EXPECT_TRUE(report->logits_equal());
  EXPECT_FALSE(report->good());
}

TEST_F(VerifyTest, WhereNothingCanBeImportedAllOfItIsTold) {
  executor->FailImport(1, Code::kCorrupt);
  const auto report = Verify();
  ASSERT_TRUE(report.ok()) << report.error().message();
  ASSERT_EQ(report->unusable.size(), 1u);
  EXPECT_EQ(report->unusable[0].tokens, report->stored_tokens);
  EXPECT_TRUE(report->positions.empty());
  EXPECT_FALSE(report->good());
}

TEST_F(VerifyTest, WhatIsNotThePiecesFaultIsAnError) {
  executor->FailImport(1, Code::kExhausted);
  EXPECT_EQ(Verify().error().code(), Code::kExhausted);
  EXPECT_EQ(Verify("nobody").error().code(), Code::kNotFound);
}

TEST_F(VerifyTest, KvOfAnotherConfigurationIsTold) {
  options.model.config = "q8_0";
  executor = std::make_unique<FaultyExecutor>(options.model);
  const auto report = Verify();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->stored_tokens, 0);
  ASSERT_EQ(report->unusable.size(), 1u);
  EXPECT_EQ(report->unusable[0].code, "fingerprint");
  EXPECT_FALSE(report->good());
}

TEST_F(VerifyTest, ASessionWithoutStoredKvHasNothingToCompare) {
  TestStackOptions without = options;
  without.keep_kv = false;
  TestStack stack(disk, without);
  ASSERT_TRUE(stack.Ask("b", "one")->ok());
  const auto report = Verify("b");
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->nothing_stored());
  EXPECT_FALSE(Verify("a")->nothing_stored());
}

}  // namespace
}  // namespace tenuto
