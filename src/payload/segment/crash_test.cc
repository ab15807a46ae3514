// The power goes at every step of a run of appends and removals. After it, everything that was
// acknowledged and not removed reads back equal, and the store takes appends again without touching
// a byte that was acknowledged.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "io/fake.h"
#include "payload/record_bytes.h"
#include "payload/segment/store.h"

namespace tenuto {
namespace {

constexpr uint64_t kSeeds = 8;
constexpr SegmentStoreOptions kOptions = {.segment_bytes_max = 60'000, .open_files_max = 2};

// What the token log would name: acknowledged records.
using Model = std::map<PayloadLocation, std::vector<std::byte>>;

void Forget(Model& model, PayloadFileId file) {
  std::erase_if(model, [file](const auto& entry) { return entry.first.file == file; });
}

// Appends of several records to two files in turn, and now and then a removal. Stops at the first
// error.
Status RunWorkload(PayloadStore& store, SeededRandom& random, Model& model) {
  PayloadFileId files[2];
  for (uint64_t i = 0; i < 12; ++i) {
    PayloadFileId& file = files[i % 2];
    std::vector<TestRecord> records;
    for (uint64_t r = 0; r <= random.Below(3); ++r) {
      records.push_back(MakeRecord(random.Next(), random.Below(100) + 1, random.Below(9000)));
    }
    std::vector<PayloadRecord> views;
    for (const TestRecord& record : records)
      views.push_back(record.View());
    TENUTO_ASSIGN(const std::vector<PayloadLocation> locations, store.Append(file, views));
    file = locations[0].file;
    for (size_t r = 0; r < records.size(); ++r)
      model[locations[r]] = records[r].Whole();
    if (random.Chance(0.15)) {
      // The rows go first: from here on nothing of the file is claimed, whether or not it is
      // unlinked.
      Forget(model, file);
      TENUTO_TRY(store.Remove(file));
      file = {};
    }
  }
  return Ok();
}

void ExpectModel(PayloadStore& store, const Model& model) {
  for (const auto& [location, bytes] : model) {
    const auto read = ReadWhole(store, location);
    ASSERT_TRUE(read.ok()) << read.error().message();
    ASSERT_EQ(*read, bytes) << "at " << location.offset;
  }
}

// True when the workload ran to its end before step `halt`.
bool CrashAt(uint64_t seed, uint64_t halt) {
  FakeDisk disk(seed);
  SeededRandom random(seed + 1'000'000);
  Model model;
  bool finished = false;
  {
    auto store = SegmentStore::Open(disk.Root(), random, kOptions).value();
    disk.HaltAtStep(halt);
    finished = RunWorkload(*store, random, model).ok();
  }
  disk.Crash();

  auto store = SegmentStore::Open(disk.Root(), random, kOptions).value();
  EXPECT_TRUE(store->Health().ok());
  ExpectModel(*store, model);
  // What a sweep finds holds at least every file that a row names.
  const auto files = store->List().value();
  for (const auto& [location, bytes] : model) {
    EXPECT_TRUE(std::binary_search(files.begin(), files.end(), location.file));
  }
  // Goes on in every file there is, garbage or not; what was acknowledged stays as it is.
  for (const PayloadFileId file : files) {
    const TestRecord record = MakeRecord(file.value, 10, 5000);
    const auto location = AppendOne(*store, file, record);
    EXPECT_TRUE(location.ok());
    if (location) model[*location] = record.Whole();
  }
  ExpectModel(*store, model);
  // The power goes again at once: the appends after recovery are durable too.
  store.reset();
  disk.Crash();
  store = SegmentStore::Open(disk.Root(), random, kOptions).value();
  ExpectModel(*store, model);
  return finished;
}

TEST(SegmentCrashTest, PowerLossAtEveryStep) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    uint64_t halt = 1;
    while (!CrashAt(seed, halt)) {
      ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ", step " << halt;
      ++halt;
      ASSERT_LT(halt, 1000U);
    }
    EXPECT_GT(halt, 20U) << "the workload is too short to mean anything";
  }
}

// A fault at step N with the process alive: what was acknowledged before and after it survives a
// later crash.
TEST(SegmentCrashTest, FaultThenPowerLossAtEveryStep) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (uint64_t step = 1; step <= 30; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << step);
      FakeDisk disk(seed);
      SeededRandom random(seed + 2'000'000);
      Model model;
      auto store = SegmentStore::Open(disk.Root(), random, kOptions).value();
      disk.FailAtStep(step, seed % 2 == 0 ? Code::kIo : Code::kExhausted);
      for (int run = 0; run < 3; ++run) {
        const Status status = RunWorkload(*store, random, model);
        if (!status && !store->Health().ok()) break;
      }
      ExpectModel(*store, model);
      store.reset();
      disk.Crash();
      store = SegmentStore::Open(disk.Root(), random, kOptions).value();
      ExpectModel(*store, model);
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

}  // namespace
}  // namespace tenuto
