// What every PayloadStore promises, over all of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "io/fake.h"
#include "payload/fake.h"
#include "payload/record_bytes.h"
#include "payload/segment/store.h"

namespace tenuto {
namespace {

// A store with whatever it stands on.
struct Fixture {
  std::unique_ptr<FakeDisk> disk;
  std::unique_ptr<SeededRandom> random;
  std::string folder;  // of the real disk, removed at the end
  std::unique_ptr<PayloadStore> store;

  Fixture() = default;
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture() {
    store.reset();
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }
};

std::unique_ptr<Fixture> MakeMemory() {
  auto fixture = std::make_unique<Fixture>();
  fixture->store = std::make_unique<MemoryPayloadStore>();
  return fixture;
}

std::unique_ptr<Fixture> MakeOnFakeDisk() {
  auto fixture = std::make_unique<Fixture>();
  fixture->disk = std::make_unique<FakeDisk>(1);
  fixture->random = std::make_unique<SeededRandom>(2);
  fixture->store = SegmentStore::Open(fixture->disk->Root(), *fixture->random).value();
  return fixture;
}

std::unique_ptr<Fixture> MakeOnRealDisk() {
  auto fixture = std::make_unique<Fixture>();
  std::string text = (std::filesystem::temp_directory_path() / "tenuto-store-XXXXXX").string();
  fixture->folder = mkdtemp(text.data());
  fixture->store = SegmentStore::Open(OpenDir(fixture->folder).value(), SystemRandom()).value();
  return fixture;
}

struct Kind {
  const char* name;
  std::unique_ptr<Fixture> (*make)();
};

class StoreConformanceTest : public testing::TestWithParam<Kind> {
 protected:
  StoreConformanceTest() : fixture_(GetParam().make()), store_(*fixture_->store) {}

  PayloadLocation MustAppend(PayloadFileId file, const TestRecord& record) {
    auto location = AppendOne(store_, file, record);
    EXPECT_TRUE(location.ok()) << location.error().message();
    return location.ok() ? *location : PayloadLocation{};
  }
  void ExpectReads(const PayloadLocation& location, const TestRecord& record) {
    const auto bytes = ReadWhole(store_, location);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message();
    EXPECT_EQ(*bytes, record.Whole());
  }
  void ExpectReadFails(const PayloadLocation& location, Code code) {
    std::vector<std::byte> out(16);
    const size_t bytes = std::min<uint64_t>(location.bytes, out.size());
    // A huge claim is made without a huge buffer: the sizes differ then, and that is refused first.
    const Status status = store_.Read(location, std::span(out).first(bytes));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), location.bytes > out.size() ? Code::kInvalid : code)
        << status.error().message();
  }

  std::unique_ptr<Fixture> fixture_;
  PayloadStore& store_;
};

TEST_P(StoreConformanceTest, StartsEmpty) {
  const auto files = store_.List();
  ASSERT_TRUE(files.ok());
  EXPECT_TRUE(files->empty());
}

TEST_P(StoreConformanceTest, ReadsBackWhatItAppended) {
  const TestRecord record = MakeRecord(1, 1024, 100'000);
  const PayloadLocation location = MustAppend({}, record);
  EXPECT_NE(location.file.value, 0U);
  EXPECT_EQ(location.bytes, 101'024U);
  ExpectReads(location, record);
  EXPECT_EQ(store_.List().value(), std::vector<PayloadFileId>{location.file});
}

TEST_P(StoreConformanceTest, OneCallOneFile) {
  std::vector<TestRecord> records;
  for (size_t i = 0; i < 100; ++i)
    records.push_back(MakeRecord(i, 1 + i, i * 97));
  std::vector<PayloadRecord> views;
  for (const TestRecord& record : records)
    views.push_back(record.View());
  const auto locations = store_.Append({}, views);
  ASSERT_TRUE(locations.ok());
  ASSERT_EQ(locations->size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ((*locations)[i].file, (*locations)[0].file);
    ExpectReads((*locations)[i], records[i]);
  }
}

TEST_P(StoreConformanceTest, AppendsToTheFileThatIsNamed) {
  std::map<PayloadLocation, TestRecord> model;
  PayloadFileId file;
  for (size_t i = 0; i < 20; ++i) {
    const TestRecord record = MakeRecord(i, 10, 5000 + i);
    const PayloadLocation location = MustAppend(file, record);
    if (i > 0) {
      EXPECT_EQ(location.file, file);
    }
    file = location.file;
    model[location] = record;
  }
  EXPECT_EQ(model.size(), 20U);
  for (const auto& [location, record] : model)
    ExpectReads(location, record);
}

TEST_P(StoreConformanceTest, ZeroMakesANewFileEachTime) {
  std::set<PayloadFileId> files;
  for (size_t i = 0; i < 50; ++i)
    files.insert(MustAppend({}, MakeRecord(i, 1, 0)).file);
  EXPECT_EQ(files.size(), 50U);
  EXPECT_EQ(store_.List().value(), std::vector<PayloadFileId>(files.begin(), files.end()));
}

TEST_P(StoreConformanceTest, EitherPartMayBeEmptyButNotBoth) {
  const TestRecord no_header = MakeRecord(1, 0, 10);
  const TestRecord no_payload = MakeRecord(2, 10, 0);
  ExpectReads(MustAppend({}, no_header), no_header);
  ExpectReads(MustAppend({}, no_payload), no_payload);

  const auto empty = AppendOne(store_, {}, MakeRecord(3, 0, 0));
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code(), Code::kInvalid);
  const auto none = store_.Append({}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), Code::kInvalid);
  EXPECT_EQ(store_.List().value().size(), 2U);
}

TEST_P(StoreConformanceTest, UnknownFileIsNotFound) {
  ExpectReadFails({{12345}, 4096, 10}, Code::kNotFound);
  ExpectReadFails({{0}, 4096, 10}, Code::kNotFound);
}

TEST_P(StoreConformanceTest, AppendToAnUnknownFileGoesToANewOne) {
  const TestRecord record = MakeRecord(1, 10, 10);
  const PayloadLocation location = MustAppend({12345}, record);
  EXPECT_NE(location.file, PayloadFileId{12345});
  ExpectReads(location, record);
}

TEST_P(StoreConformanceTest, LocationsOutsideTheFileAreCorrupt) {
  const PayloadLocation good = MustAppend({}, MakeRecord(1, 5, 5));
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  for (const uint64_t offset :
       {uint64_t{0}, good.offset + (uint64_t{1} << 20), kMax, kMax - 4095}) {
    ExpectReadFails({good.file, offset, 10}, Code::kCorrupt);
  }
  ExpectReadFails({good.file, good.offset, 0}, Code::kCorrupt);
  for (const uint64_t bytes : {kMax, kMax - good.offset, kMax - 9}) {
    ExpectReadFails({good.file, good.offset, bytes}, Code::kCorrupt);
  }
  std::vector<std::byte> out(100'000);
  const Status status = store_.Read({good.file, good.offset, out.size()}, out);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kCorrupt);
}

TEST_P(StoreConformanceTest, BufferOfAnotherSizeIsInvalid) {
  const PayloadLocation location = MustAppend({}, MakeRecord(1, 5, 5));
  std::vector<std::byte> out(9);
  const Status status = store_.Read(location, out);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kInvalid);
}

TEST_P(StoreConformanceTest, RemovedIsGoneAndTwiceIsFine) {
  const PayloadLocation a = MustAppend({}, MakeRecord(1, 5, 5));
  const TestRecord record = MakeRecord(2, 5, 5);
  const PayloadLocation b = MustAppend({}, record);
  EXPECT_TRUE(store_.Remove(a.file).ok());
  EXPECT_TRUE(store_.Remove(a.file).ok());
  EXPECT_TRUE(store_.Remove(PayloadFileId{}).ok());
  ExpectReadFails(a, Code::kNotFound);
  ExpectReads(b, record);
  EXPECT_EQ(store_.List().value(), std::vector<PayloadFileId>{b.file});
  EXPECT_NE(MustAppend(a.file, MakeRecord(3, 5, 5)).file, b.file);
}

TEST_P(StoreConformanceTest, ManyThreadsAppendReadAndRemove) {
  constexpr int kThreads = 4;
  constexpr uint64_t kRounds = 30;
  const TestRecord shared_record = MakeRecord(999, 10, 3000);
  const PayloadFileId shared_file = MustAppend({}, shared_record).file;
  std::vector<std::string> faults(kThreads);
  std::vector<std::vector<PayloadLocation>> in_shared(kThreads);
  const auto work = [&](int number) -> Status {
    PayloadFileId own;
    for (uint64_t i = 0; i < kRounds; ++i) {
      const TestRecord record = MakeRecord(i + 1000 * static_cast<uint64_t>(number), 10, 2000 + i);
      TENUTO_ASSIGN(const PayloadLocation mine, AppendOne(store_, own, record));
      own = mine.file;
      TENUTO_ASSIGN(const PayloadLocation shared, AppendOne(store_, shared_file, record));
      in_shared[static_cast<size_t>(number)].push_back(shared);
      for (const PayloadLocation& location : {mine, shared}) {
        TENUTO_ASSIGN(const std::vector<std::byte> bytes, ReadWhole(store_, location));
        if (bytes != record.Whole()) return Error(Code::kCorrupt, "read other bytes");
      }
      if (i % 10 == 9) {
        TENUTO_TRY(store_.Remove(own));
        own = {};
      }
    }
    return Ok();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Status status = work(t);
      if (!status.ok()) faults[static_cast<size_t>(t)] = status.error().message();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& fault : faults)
    EXPECT_EQ(fault, "");

  // Nobody's record of the shared file lies over another's.
  std::map<uint64_t, uint64_t> ranges;
  for (const auto& locations : in_shared) {
    for (const PayloadLocation& location : locations) {
      EXPECT_EQ(location.file, shared_file);
      ranges[location.offset] = location.offset + location.bytes;
    }
  }
  EXPECT_EQ(ranges.size(), kThreads * kRounds);
  uint64_t last_end = 0;
  for (const auto& [begin, end] : ranges) {
    EXPECT_GE(begin, last_end);
    last_end = end;
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformanceTest,
                         testing::Values(Kind{"Memory", MakeMemory},
                                         Kind{"SegmentFakeDisk", MakeOnFakeDisk},
                                         Kind{"SegmentRealDisk", MakeOnRealDisk}),
                         [](const testing::TestParamInfo<Kind>& kind) {
                           return std::string(kind.param.name);
                         });

}  // namespace
}  // namespace tenuto
