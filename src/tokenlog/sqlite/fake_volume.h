// A volume in memory for tests, as a VFS of SQLite: it forgets what was not synced, tears it, fills
// up, and fails at a chosen step. Several connections of one process may share its files (locks and
// shared memory work). Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenuto {

class FakeVolume {
 public:
  explicit FakeVolume(uint64_t seed);
  ~FakeVolume();  // after everything that has files open here

  // The VFS that knows all fake volumes, and the name of a file on this one.
  static std::string VfsName();
  std::string Path(const std::string& name) const;

  // Every write, sync, truncation, creation and removal is one step.
  uint64_t steps() const;
  uint64_t syncs() const;

  enum class Fault : uint8_t { kNone, kWrite, kSync, kFull };
  // The n-th write (kWrite, kFull) or sync (kSync) from now fails, once.
  void FailNext(Fault fault, uint64_t n = 1);
  // From the n-th step from now on every step fails: the process is as good as dead.
  void HaltAtStep(uint64_t n);
  // More than this many bytes in all files: writes give SQLITE_FULL. 0: no limit.
  void SetCapacity(uint64_t bytes);

  // Power loss: what was not synced is lost, kept or torn by chance. Ends a halt. REQUIRES: nothing
  // is open here.
  void Crash();

  std::vector<std::string> Names() const;
  std::string Contents(const std::string& name) const;
  void Overwrite(const std::string& name, std::string bytes);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace tenuto
