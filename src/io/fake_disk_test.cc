// What the fake disk forgets and breaks, and that it never invents or loses more than a real one
// may.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "io/fake.h"
#include "io/test_bytes.h"

namespace tenuto {
namespace {

constexpr uint64_t kSeeds = 200;
constexpr size_t kSector = 512;

// A durable file "f" of `text` in the root.
std::unique_ptr<File> DurableFile(Dir& root, const std::string& text) {
  auto file = std::move(root.Create("f")).value();
  EXPECT_TRUE(WriteText(*file, 0, text).ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_TRUE(root.Sync().ok());
  return file;
}

// What stands in "f", or "<none>".
std::string After(const FakeDisk& disk) {
  const auto bytes = disk.Contents("f");
  return bytes.ok() ? TextOf(*bytes) : "<none>";
}

template <typename Act>
std::set<std::string> OutcomesOf(Act act) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDisk disk(seed);
    act(disk);
    disk.Crash();
    outcomes.insert(After(disk));
  }
  return outcomes;
}

TEST(FakeDisk, SyncedBytesUnderASyncedNameAlwaysSurvive) {
  const std::string text(3000, 's');
  EXPECT_EQ(OutcomesOf([&](FakeDisk& disk) { DurableFile(*disk.Root(), text); }),
            std::set<std::string>{text});
}

TEST(FakeDisk, ANameThatWasNotSyncedMayVanish) {
  EXPECT_EQ(OutcomesOf([](FakeDisk& disk) {
              auto file = std::move(disk.Root()->Create("f")).value();
              EXPECT_TRUE(WriteText(*file, 0, "data").ok());
              EXPECT_TRUE(file->Sync().ok());
            }),
            (std::set<std::string>{"<none>", "data"}));
}

TEST(FakeDisk, ARemoveThatWasNotSyncedMayComeBack) {
  EXPECT_EQ(OutcomesOf([](FakeDisk& disk) {
              DurableFile(*disk.Root(), "old");
              EXPECT_TRUE(disk.Root()->Remove("f").ok());
            }),
            (std::set<std::string>{"<none>", "old"}));
  EXPECT_EQ(OutcomesOf([](FakeDisk& disk) {
              DurableFile(*disk.Root(), "old");
              EXPECT_TRUE(disk.Root()->Remove("f").ok());
              EXPECT_TRUE(disk.Root()->Sync().ok());
            }),
            std::set<std::string>{"<none>"});
}

TEST(FakeDisk, AReplacedNameIsTheOldFileOrTheNew) {
  EXPECT_EQ(OutcomesOf([](FakeDisk& disk) {
              auto root = disk.Root();
              DurableFile(*root, "old");
              EXPECT_TRUE(root->Remove("f").ok());
              auto file = std::move(root->Create("f")).value();
              EXPECT_TRUE(WriteText(*file, 0, "new").ok());
              EXPECT_TRUE(file->Sync().ok());
            }),
            (std::set<std::string>{"old", "new"}));
}

TEST(FakeDisk, UnsyncedSectorsAreKeptOrDroppedOneByOne) {
  const std::set<std::string> outcomes = OutcomesOf([](FakeDisk& disk) {
    auto file = DurableFile(*disk.Root(), std::string(4 * kSector, 'o'));
    EXPECT_TRUE(WriteText(*file, 0, std::string(4 * kSector, 'n')).ok());
  });
  std::set<std::string> patterns;
  for (const std::string& outcome : outcomes) {
    ASSERT_EQ(outcome.size(), 4 * kSector);
    std::string pattern;
    for (size_t i = 0; i < 4; ++i) {
      const std::string sector = outcome.substr(i * kSector, kSector);
      pattern += sector[0];
      EXPECT_EQ(sector, std::string(kSector, sector[0]));  // a sector is whole
      EXPECT_TRUE(sector[0] == 'o' || sector[0] == 'n');   // and old or new
    }
    patterns.insert(pattern);
  }
  EXPECT_TRUE(patterns.contains("oooo"));
  EXPECT_TRUE(patterns.contains("nnnn"));
  EXPECT_TRUE(patterns.contains("nnoo"));  // torn
  EXPECT_GT(patterns.size(), 8u);          // and mixed
}

TEST(FakeDisk, AnUnsyncedTailIsLostCutOrZeros) {
  const std::string head(700, 'h');
  const std::set<std::string> outcomes = OutcomesOf([&](FakeDisk& disk) {
    auto file = DurableFile(*disk.Root(), head);
    EXPECT_TRUE(WriteText(*file, head.size(), std::string(1500, 't')).ok());
  });
  std::set<size_t> sizes;
  bool zeros = false;
  for (const std::string& outcome : outcomes) {
    sizes.insert(outcome.size());
    ASSERT_EQ(outcome.substr(0, head.size()), head);  // what was synced stands
    for (const char c : outcome.substr(head.size())) {
      ASSERT_TRUE(c == 't' || c == '\0');
      zeros = zeros || c == '\0';
    }
  }
  EXPECT_TRUE(sizes.contains(700));
  EXPECT_TRUE(sizes.contains(2200));
  EXPECT_TRUE(sizes.contains(1024));
  EXPECT_LE(*sizes.rbegin(), 2200u);
  EXPECT_GE(*sizes.begin(), 700u);
  EXPECT_TRUE(zeros);
}

TEST(FakeDisk, TheLastWriteMayBeTornWhileTheOnesBeforeItStand) {
  bool torn = false;
  for (const std::string& outcome : OutcomesOf([](FakeDisk& disk) {
         auto file = DurableFile(*disk.Root(), std::string(6 * kSector, 'o'));
         EXPECT_TRUE(WriteText(*file, 0, std::string(2 * kSector, '1')).ok());
         EXPECT_TRUE(WriteText(*file, 2 * kSector, std::string(4 * kSector, '2')).ok());
       }))
    torn = torn || outcome == std::string(2 * kSector, '1') + std::string(2 * kSector, '2') +
                                  std::string(2 * kSector, 'o');
  EXPECT_TRUE(torn);
}

TEST(FakeDisk, ASecondCrashChangesNothing) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FakeDisk disk(seed);
    auto file = std::move(disk.Root()->Create("f")).value();
    ASSERT_TRUE(WriteText(*file, 0, std::string(3000, 'x')).ok());
    disk.Crash();
    const std::string once = After(disk);
    disk.Crash();
    EXPECT_EQ(After(disk), once);
  }
}

TEST(FakeDisk, TheSameSeedForgetsTheSame) {
  const auto run = [](uint64_t seed) {
    FakeDisk disk(seed);
    auto root = disk.Root();
    for (int i = 0; i < 20; ++i) {
      auto file = std::move(root->Create(std::to_string(i))).value();
      EXPECT_TRUE(WriteText(*file, 0, std::string(3000, 'x')).ok());
    }
    disk.Crash();
    std::string all;
    for (const std::string& path : disk.Paths())
      all += path + TextOf(*disk.Contents(path));
    return all;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST(FakeDisk, OpenFilesAreDeadAfterACrashAndLocksAreFree) {
  FakeDisk disk(1);
  auto root = disk.Root();
  auto file = DurableFile(*root, "abc");
  auto lock = std::move(root->Lock("lock")).value();
  disk.Crash();
  std::array<std::byte, 3> out{};
  EXPECT_EQ(file->ReadAt(0, out).error().code(), Code::kIo);
  EXPECT_EQ(WriteText(*file, 0, "x").error().code(), Code::kIo);
  EXPECT_EQ(file->Sync().error().code(), Code::kIo);
  EXPECT_EQ(file->Size().error().code(), Code::kIo);
  auto new_lock = std::move(root->Lock("lock")).value();
  lock.reset();  // the dead process's handle goes; the new holder keeps its lock
  EXPECT_EQ(root->Lock("lock").error().code(), Code::kConflict);
  EXPECT_EQ(ReadText(*root->OpenRead("f").value()), "abc");
}

TEST(FakeDisk, OneStepFailsWithItsCode) {
  FakeDisk disk(2);
  auto root = disk.Root();
  auto file = DurableFile(*root, "abc");
  disk.FailAtStep(2, Code::kExhausted);
  EXPECT_TRUE(WriteText(*file, 0, "x").ok());
  EXPECT_EQ(WriteText(*file, 0, "y").error().code(), Code::kExhausted);
  EXPECT_TRUE(WriteText(*file, 0, "z").ok());
  disk.FailAtStep(1, Code::kIo);
  disk.FailAtStep(0, Code::kIo);
  EXPECT_TRUE(file->Sync().ok());
}

TEST(FakeDisk, EveryKindOfStepCountsAndCanFail) {
  FakeDisk disk(3);
  auto root = disk.Root();
  auto file = DurableFile(*root, "abc");
  std::array<std::byte, 1> out{};
  const std::vector<std::function<bool()>> kinds = {
      [&] { return file->ReadAt(0, out).ok(); }, [&] { return WriteText(*file, 0, "x").ok(); },
      [&] { return file->Sync().ok(); },         [&] { return root->Create("new").ok(); },
      [&] { return root->Remove("new").ok(); },  [&] { return root->Sync().ok(); },
  };
  for (const auto& kind : kinds) {
    const uint64_t before = disk.steps();
    disk.FailAtStep(1, Code::kIo);
    EXPECT_FALSE(kind());
    EXPECT_EQ(disk.steps(), before + 1);
    EXPECT_TRUE(kind());
    EXPECT_EQ(disk.steps(), before + 2);
  }
}

TEST(FakeDisk, AFailedWriteLeavesAPrefix) {
  std::set<size_t> lengths;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDisk disk(seed);
    auto file = DurableFile(*disk.Root(), "oooooooo");
    disk.FailAtStep(1, Code::kExhausted);
    EXPECT_FALSE(WriteText(*file, 0, "nnnnnnnn").ok());
    const std::string now = After(disk);
    const size_t length = now.find_first_not_of('n') == std::string::npos ? 8 : now.find('o');
    EXPECT_EQ(now, std::string(length, 'n') + std::string(8 - length, 'o'));
    lengths.insert(length);
  }
  EXPECT_EQ(lengths.size(), 9u);  // 0 to 8
}

TEST(FakeDisk, AFailedSyncLosesBytesThatNoLaterSyncBringsBack) {
  int lost = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDisk disk(seed);
    auto file = DurableFile(*disk.Root(), std::string(2 * kSector, 'o'));
    ASSERT_TRUE(WriteText(*file, 0, std::string(2 * kSector, 'n')).ok());
    disk.FailAtStep(1, Code::kIo);
    EXPECT_FALSE(file->Sync().ok());
    EXPECT_EQ(After(disk), std::string(2 * kSector, 'n'));  // the cache still shows it
    EXPECT_TRUE(file->Sync().ok());                         // and the next Sync claims success
    disk.Crash();
    lost += After(disk) == std::string(2 * kSector, 'n') ? 0 : 1;
  }
  EXPECT_GT(lost, static_cast<int>(kSeeds) / 2);
}

TEST(FakeDisk, AfterAHaltEveryCallFailsUntilTheCrash) {
  FakeDisk disk(4);
  auto root = disk.Root();
  auto file = DurableFile(*root, "abc");
  disk.HaltAtStep(2);
  EXPECT_TRUE(WriteText(*file, 0, "x").ok());
  EXPECT_EQ(file->Sync().error().code(), Code::kIo);
  std::array<std::byte, 1> out{};
  EXPECT_FALSE(file->ReadAt(0, out).ok());
  EXPECT_FALSE(file->Size().ok());
  EXPECT_FALSE(root->List().ok());
  EXPECT_FALSE(root->OpenRead("f").ok());
  EXPECT_FALSE(root->OpenWrite("f").ok());
  EXPECT_FALSE(root->Create("g").ok());
  EXPECT_FALSE(root->Remove("f").ok());
  EXPECT_FALSE(root->Sub("s").ok());
  EXPECT_FALSE(root->Lock("l").ok());
  EXPECT_FALSE(root->Sync().ok());
  EXPECT_EQ(disk.Paths(), std::vector<std::string>{"f"});  // nothing happened after the halt
  disk.Crash();
  EXPECT_TRUE(root->OpenRead("f").ok());
}

TEST(FakeDisk, TheStepOfAHaltMayHaveHappened) {
  std::set<size_t> files;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FakeDisk disk(seed);
    disk.HaltAtStep(1);
    EXPECT_FALSE(disk.Root()->Create("f").ok());
    EXPECT_FALSE(disk.Root()->Create("g").ok());
    files.insert(disk.Paths().size());
  }
  EXPECT_EQ(files, (std::set<size_t>{0, 1}));
}

// Appends records of one sector, each acknowledged after Sync; the first also after Dir::Sync.
size_t AppendUntilError(Dir& root) {
  auto file = root.Create("f");
  if (!file.ok()) return 0;
  size_t acknowledged = 0;
  for (char c = 'a'; c < 'f'; ++c) {
    if (!WriteText(**file, acknowledged * kSector, std::string(kSector, c)).ok()) break;
    if (!(*file)->Sync().ok()) break;
    if (acknowledged == 0 && !root.Sync().ok()) break;
    ++acknowledged;
  }
  return acknowledged;
}

TEST(FakeDisk, AtEveryStepWhatWasAcknowledgedSurvives) {
  for (uint64_t seed = 0; seed < 30; ++seed)
    for (uint64_t step = 1; step <= 13; ++step) {
      FakeDisk disk(seed);
      disk.HaltAtStep(step);
      const size_t acknowledged = AppendUntilError(*disk.Root());
      disk.Crash();
      const std::string after = After(disk);
      if (acknowledged == 0) continue;
      for (size_t i = 0; i < acknowledged; ++i)
        EXPECT_EQ(after.substr(i * kSector, kSector),
                  std::string(kSector, static_cast<char>('a' + i)))
            << "seed " << seed << " step " << step;
    }
}

TEST(FakeDisk, CapacityIsSharedAndExact) {
  FakeDisk disk(5);
  auto root = disk.Root();
  disk.SetCapacity(100);
  auto a = std::move(root->Create("a")).value();
  auto b = std::move(root->Create("b")).value();
  EXPECT_TRUE(WriteText(*a, 0, std::string(60, 'a')).ok());
  EXPECT_EQ(WriteText(*b, 0, std::string(41, 'b')).error().code(), Code::kExhausted);
  EXPECT_EQ(b->Size().value(), 40u);                         // what fitted is there
  EXPECT_TRUE(WriteText(*a, 0, std::string(60, 'c')).ok());  // in place needs no room
  EXPECT_EQ(WriteText(*a, 60, "x").error().code(), Code::kExhausted);
  ASSERT_TRUE(root->Remove("b").ok());
  EXPECT_TRUE(WriteText(*a, 60, std::string(40, 'd')).ok());
  disk.SetCapacity(0);
  EXPECT_TRUE(WriteText(*a, 100, std::string(1000, 'e')).ok());
}

TEST(FakeDisk, TestsCanLookAndOverwrite) {
  FakeDisk disk(6);
  auto sub = std::move(disk.Root()->Sub("s")).value();
  ASSERT_TRUE(WriteText(*sub->Create("a").value(), 0, "abc").ok());
  ASSERT_TRUE(disk.Root()->Create("top").ok());
  EXPECT_EQ(disk.Paths(), (std::vector<std::string>{"top", "s/a"}));
  EXPECT_EQ(TextOf(*disk.Contents("s/a")), "abc");
  EXPECT_EQ(disk.Contents("s/none").error().code(), Code::kNotFound);
  EXPECT_EQ(disk.Contents("none/a").error().code(), Code::kNotFound);
  const auto bytes = BytesOf("flipped");
  disk.Overwrite("s/a", {bytes.begin(), bytes.end()});
  disk.Overwrite("s/new", {bytes.begin(), bytes.end()});
  EXPECT_EQ(ReadText(*sub->OpenRead("a").value()), "flipped");
  disk.Crash();
  EXPECT_EQ(TextOf(*disk.Contents("s/a")), "flipped");
  EXPECT_EQ(TextOf(*disk.Contents("s/new")), "flipped");
}

TEST(FakeDisk, FilesAndFoldersOutliveIt) {
  std::unique_ptr<Dir> root;
  std::unique_ptr<File> file;
  {
    FakeDisk disk(7);
    root = disk.Root();
    file = std::move(root->Create("f")).value();
  }
  EXPECT_TRUE(WriteText(*file, 0, "abc").ok());
  EXPECT_EQ(ReadText(*root->OpenRead("f").value()), "abc");
}

}  // namespace
}  // namespace tenuto
