// The faults of MemoryPayloadStore; what it shares with the other stores is in
// store_conformance_test.cc.
#include "payload/fake.h"

#include <gtest/gtest.h>

#include "payload/record_bytes.h"

namespace tenuto {
namespace {

TEST(MemoryPayloadStoreTest, IdsAreTheSameOnEveryRun) {
  MemoryPayloadStore store;
  EXPECT_EQ(AppendOne(store, {}, MakeRecord(1, 1, 1)).value().file, PayloadFileId{1});
  EXPECT_EQ(AppendOne(store, {}, MakeRecord(1, 1, 1)).value().file, PayloadFileId{2});
}

TEST(MemoryPayloadStoreTest, ExhaustedClosesTheFileAlone) {
  MemoryPayloadStore store;
  const TestRecord record = MakeRecord(1, 10, 10);
  const PayloadLocation first = AppendOne(store, {}, record).value();
  store.FailNextAppend(Code::kExhausted);
  EXPECT_EQ(AppendOne(store, first.file, record).error().code(), Code::kExhausted);
  EXPECT_TRUE(store.Health().ok());
  const PayloadLocation second = AppendOne(store, first.file, record).value();
  EXPECT_NE(second.file, first.file);
  EXPECT_EQ(ReadWhole(store, first).value(), record.Whole());
}

TEST(MemoryPayloadStoreTest, FailedSyncRefusesAllAppends) {
  MemoryPayloadStore store;
  const TestRecord record = MakeRecord(1, 10, 10);
  const PayloadLocation first = AppendOne(store, {}, record).value();
  store.FailNextAppend(Code::kIo);
  EXPECT_EQ(AppendOne(store, {}, record).error().code(), Code::kIo);
  EXPECT_EQ(AppendOne(store, {}, record).error().code(), Code::kIo);
  EXPECT_EQ(store.Health().error().code(), Code::kIo);
  EXPECT_EQ(ReadWhole(store, first).value(), record.Whole());
}

TEST(MemoryPayloadStoreTest, DamageOnDemand) {
  MemoryPayloadStore store;
  const TestRecord record = MakeRecord(1, 10, 10);
  const PayloadLocation a = AppendOne(store, {}, record).value();
  const PayloadLocation b = AppendOne(store, {}, MakeRecord(2, 10, 10)).value();
  EXPECT_GT(store.bytes_total(), 40U);

  EXPECT_TRUE(store.Flip(a.file, a.offset + 3, 4));
  std::vector<std::byte> flipped = record.Whole();
  flipped[3] ^= std::byte{4};
  EXPECT_EQ(ReadWhole(store, a).value(), flipped);

  EXPECT_TRUE(store.Swap(a.file, b.file));
  EXPECT_EQ(ReadWhole(store, {b.file, a.offset, a.bytes}).value(), flipped);

  EXPECT_TRUE(store.Truncate(b.file, a.offset + 5));
  EXPECT_EQ(ReadWhole(store, {b.file, a.offset, a.bytes}).error().code(), Code::kCorrupt);
  EXPECT_FALSE(store.Flip(b.file, 1'000'000));
  EXPECT_FALSE(store.Truncate(b.file, 1'000'000));
  EXPECT_FALSE(store.Swap(a.file, PayloadFileId{77}));

  store.FailReads(Code::kIo, 1);
  EXPECT_EQ(ReadWhole(store, a).error().code(), Code::kIo);
  EXPECT_TRUE(ReadWhole(store, a).ok());
}

}  // namespace
}  // namespace tenuto
