// Fakes of every io seam for tests: a disk that forgets and breaks, a clock that is told the time,
// runners in virtual time. Everything is driven from one seed. One thread, unless said otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/clock.h"
#include "io/file.h"
#include "io/runner.h"

namespace tenuto {

// xoshiro256** seeded by splitmix64: the same numbers on every machine.
class SeededRandom : public Random {
 public:
  explicit SeededRandom(uint64_t seed);
  void Fill(std::span<std::byte> out) override;
  uint64_t Next();
  uint64_t Below(uint64_t n);  // uniform in [0, n), n > 0
  bool Chance(double probability);

 private:
  uint64_t state_[4];
};

class FakeClock : public Clock {
 public:
  int64_t UnixMs() override { return unix_ms_base + now_ns / 1'000'000; }
  int64_t MonotonicNs() override { return now_ns; }
  int64_t now_ns = 0;
  int64_t unix_ms_base = 1'700'000'000'000;
};

// An in-memory disk. What was not synced is lost, wholly or in part, at Crash(); names too, until
// Dir::Sync.
//
// - Data: each dirty 512-byte sector is kept or dropped by the seed; a write may be torn at a
//   sector. A dropped sector holds what was synced last, or zeros inside a file whose new size did
//   survive.
//
// - Names: a new file may vanish even if its data was synced, a removed one may come back, until
//   Dir::Sync. Folders made by Sub are durable at once, as in OpenDir's.
//
// - A Sync that fails loses data for ever: what it should have written is still read back, but no
//   later Sync writes it.
//
// - A WriteAt that fails leaves a drawn prefix of its bytes.
//
// Faults: every WriteAt, Sync, Create, Remove, Dir::Sync, ReadAt counts as one step.
//
// Thread-safe.
class FakeDisk {
 public:
  explicit FakeDisk(uint64_t seed);
  ~FakeDisk();

  std::unique_ptr<Dir> Root();

  // The power goes: unsynced bytes vanish or are torn (seeded), unsynced names vanish or stay. Open
  // Files turn dead (every call is kIo), their locks are free, faults are off. A Dir may be used
  // again.
  void Crash();

  // Step `n` from now (1 = the next) fails with `code`; 0 turns it off.
  void FailAtStep(uint64_t n, Code code);
  // From step `n` on every call fails with kIo, as if the process was gone: then Crash() and
  // reopen. 0 turns it off.
  void HaltAtStep(uint64_t n);
  // Total bytes the disk holds before WriteAt gives kExhausted. 0: no limit.
  void SetCapacity(uint64_t bytes);
  uint64_t steps() const;

  // For corruption tests. `path` is "name" or "sub/name".
  Result<std::vector<std::byte>> Contents(const std::string& path) const;
  // Creates the file when there is none; both name and bytes are durable.
  void Overwrite(const std::string& path, std::vector<std::byte> bytes);
  std::vector<std::string> Paths() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Many logical runners over one virtual clock. Which runner goes next is drawn from the seed, so
// that every interleaving of runners can occur; order within a runner is kept. The clock moves only
// when no runner is ready: one that posts to itself for ever needs a jitter, or time stands still.
class SimWorld {
 public:
  explicit SimWorld(uint64_t seed);
  ~SimWorld();

  Clock& clock();
  SeededRandom& random();
  // Owned by the world. `jitter_ns_max`: each task of this runner takes a drawn time up to this.
  // While it takes that time, it runs nothing else.
  Runner& NewRunner(std::string name, int64_t jitter_ns_max = 0);

  // Runs one task or, when none is ready, moves the clock to the next timer. False when there is
  // nothing at all.
  bool Step();
  // The name of the runner whose task ran last: what a trace of the schedule is made of.
  const std::string& last_runner() const;
  // Steps until `done` or nothing is left or `steps_max`. True when `done`.
  bool RunUntil(const std::function<bool()>& done, uint64_t steps_max = 10'000'000);
  // Drops every pending task and timer: the process dies.
  void DropAll();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenuto
