// Stored KV that can't be used is computed again, and the answer says why (INV-3).
#include "session/restore.h"

#include <algorithm>

#include "session/manager_testing.h"

namespace tenuto {
namespace {

class RestoreTest : public ManagerTest {};

struct Damage {
  const char* name;
  void (*harm)(TestDisk&, const std::vector<PayloadFileId>&);
  const char* reason;
};

class DamageTest : public RestoreTest, public testing::WithParamInterface<Damage> {};

TEST_P(DamageTest, DamagedKvIsRecomputedToldAndStoredAgain) {
  const auto expected = Reference({"one", "two", "three"});
  stack->Ask("a", "one");
  stack->Ask("b", "another");
  stack->EvictAll();
  GetParam().harm(disk, disk.payloads.List().value());
  const auto second = stack->Ask("a", "two");
  ASSERT_TRUE(second->ok());
  EXPECT_EQ((**second).restored, 0);
  EXPECT_GT(Tokens(**second, GetParam().reason), 0) << (**second).reasons.front().code;
  EXPECT_EQ((**second).text, expected[1]);
  // What was computed again is stored again: the next restart is quick.
  Restart();
  const auto third = stack->Ask("a", "three");
  EXPECT_GT((**third).restored, (**second).prompt_tokens - 1);
  EXPECT_EQ((**third).text, expected[2]);
}

INSTANTIATE_TEST_SUITE_P(
    All, DamageTest,
    testing::Values(
        Damage{"PayloadByte",
               [](TestDisk& d, const auto& files) {
                 d.payloads.Flip(files[0], kPieceHeaderBytes + 9);
               },
               "corrupt"},
        Damage{"HeaderByte", [](TestDisk& d, const auto& files) { d.payloads.Flip(files[0], 100); },
               "corrupt"},
        Damage{"CutShort",
               [](TestDisk& d, const auto& files) { d.payloads.Truncate(files[0], 700); },
               "corrupt"},
        Damage{
            "FileGone",
            [](TestDisk& d, const auto& files) { EXPECT_TRUE(d.payloads.Remove(files[0]).ok()); },
            "missing"},
        Damage{"SwappedWithAnothers",
               [](TestDisk& d, const auto& files) { d.payloads.Swap(files[0], files[1]); },
               "corrupt"},
        Damage{"DeviceError", [](TestDisk& d, const auto&) { d.payloads.FailReads(Code::kIo, 1); },
               "io"}),
    [](const auto& damage) { return damage.param.name; });

// The checks of a piece can't know what an executor makes of its bytes.
TEST_F(RestoreTest, APieceThatTheExecutorRefusesIsDroppedAndStoredAgain) {
  const auto expected = Reference({"one", "two", "three", "four"});
  stack->Ask("a", "one");
  const auto second = stack->Ask("a", "two");
  Restart();
  // The second of two: what is before it stays restored.
  stack->executor.FailImport(2, Code::kCorrupt);
  const auto third = stack->Ask("a", "three");
  ASSERT_TRUE(third->ok());
  EXPECT_GT((**third).restored, 0);
  EXPECT_LT((**third).restored, (**second).prompt_tokens);
  const int32_t log_tokens = (**second).prompt_tokens + (**second).completion_tokens;
  EXPECT_EQ(Tokens(**third, "corrupt"), log_tokens - 1 - (**third).restored);
  EXPECT_EQ(Tokens(**third, "tail"), 1);
  EXPECT_EQ((**third).text, expected[2]);
  Restart();
  const auto fourth = stack->Ask("a", "four");
  EXPECT_EQ((**fourth).restored, (**third).prompt_tokens + (**third).completion_tokens - 1);
  EXPECT_EQ((**fourth).text, expected[3]);
}

TEST_F(RestoreTest, APieceForWhichThereAreNoCellsIsKept) {
  const auto expected = Reference({"one", "two", "three"});
  stack->Ask("a", "one");
  const auto second = stack->Ask("a", "two");
  Restart();
  const auto ids = [&] {
    const SessionRow row = disk.log.FindSession(ParseSessionKey("a").value()).value();
    std::vector<int64_t> each;
    const auto rows = disk.log.ReadPieces(row.id).value();
    for (const PieceRow& piece : rows)
      each.push_back(piece.id);
    return each;
  };
  const auto before = ids();
  stack->executor.FailImport(1, Code::kExhausted);
  const auto third = stack->Ask("a", "three");
  ASSERT_TRUE(third->ok());
  EXPECT_EQ((**third).restored, 0);
  EXPECT_EQ(Tokens(**third, "policy"), (**second).prompt_tokens + (**second).completion_tokens - 1);
  EXPECT_EQ(Tokens(**third, "corrupt"), 0);
  EXPECT_EQ((**third).text, expected[2]);
  const auto after = ids();
  ASSERT_GE(after.size(), before.size());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
}

TEST_F(RestoreTest, APieceOfAnotherOwnerIsRefused) {
  // Two sessions with pieces of the same size and range: only the owner tells them apart.
  stack->Ask("a", "one");
  stack->Ask("b", "one");
  stack->EvictAll();
  const auto files = disk.payloads.List().value();
  ASSERT_TRUE(disk.payloads.Swap(files[0], files[1]));
  const auto second = stack->Ask("a", "two");
  EXPECT_EQ((**second).restored, 0);
  EXPECT_GT(Tokens(**second, "owner"), 0);
  EXPECT_EQ((**second).text, Reference({"one", "two"})[1]);
}

TEST_F(RestoreTest, KvOfAnotherConfigurationIsNotUsed) {
  stack->Ask("a", "one");
  TestStackOptions other;
  other.model.config = "q8_0";
  Restart(other);
  const auto second = stack->Ask("a", "two");
  EXPECT_EQ((**second).restored, 0);
  EXPECT_GT(Tokens(**second, "fingerprint"), 0);
  EXPECT_EQ((**second).text, Reference({"one", "two"})[1]);
}

TEST_F(RestoreTest, WithoutAKvStoreEverythingIsComputedAndSaidSo) {
  TestStackOptions options;
  options.keep_kv = false;
  Restart(options);
  stack->Ask("a", "one");
  Restart(options);
  const auto second = stack->Ask("a", "two");
  EXPECT_EQ((**second).recomputed, (**second).prompt_tokens);
  EXPECT_GT(Tokens(**second, "policy"), 0);
  EXPECT_TRUE(disk.payloads.List().value().empty());
}

TEST_F(RestoreTest, ModelsWithoutRangeExportRecomputeAfterARestart) {
  TestStackOptions options;
  options.model.range_export = false;
  Restart(options);
  stack->Ask("a", "one");
  const auto warm = stack->Ask("a", "two");
  ASSERT_TRUE(warm->ok());
  EXPECT_GT((**warm).reused, 0);
  Restart(options);
  const auto third = stack->Ask("a", "three");
  ASSERT_TRUE(third->ok());
  EXPECT_EQ((**third).recomputed, (**third).prompt_tokens);
  EXPECT_GT(Tokens(**third, "state"), 0);
  EXPECT_EQ((**third).text, Reference({"one", "two", "three"})[2]);
}

// Were pieces read one after the other, the first import that fails would have been preceded by one
// read. How far ahead it goes depends on who runs when: bounded always, and seen at least once.
TEST_F(RestoreTest, ReadsGoOnWhileAPieceIsImported) {
  for (const char* text : {"one", "two", "three", "four", "five"})
    stack->Ask("a", text);
  int most = 0;
  for (int i = 0; i < 8; ++i) {
    TestStackOptions options;
    options.engine_task_ns = 1'000'000;
    Restart(options);
    stack->executor.FailImport(1, Code::kExhausted);
    const int before = disk.payloads.reads_total();
    ASSERT_TRUE(stack->Ask("a", "next")->ok());
    const int reads = disk.payloads.reads_total() - before;
    EXPECT_LE(reads, 1 + static_cast<int>(options.session.restore_reads_ahead));
    most = std::max(most, reads);
  }
  EXPECT_GT(most, 1);
}

}  // namespace
}  // namespace tenuto
