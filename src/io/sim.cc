#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "io/fake.h"

namespace tenuto {
namespace {

class SimRunner;

// What the runners of one world share.
struct SimCore {
  explicit SimCore(uint64_t seed) : random(seed), schedule(~seed) {}

  struct Due {
    int64_t at_ns;
    Runner::TimerId id;  // in the order made, world-wide: ties fire in that order
    SimRunner* runner;
    bool operator<(const Due& other) const {
      return std::tie(at_ns, id) < std::tie(other.at_ns, other.id);
    }
  };

  FakeClock clock;
  SeededRandom random;    // for whoever asks the world
  SeededRandom schedule;  // who goes next: its own stream, so that other draws don't move it
  Runner::TimerId last_timer = 0;
  std::set<Due> due;  // not yet in a runner's queue
  bool dropping = false;
};

class SimRunner final : public Runner {
 public:
  SimRunner(SimCore& core, std::string name, int64_t jitter_ns_max)
      : core_(core), name_(std::move(name)), jitter_ns_max_(jitter_ns_max) {}

  void Post(Task task) override {
    if (!core_.dropping) queue_.push_back({0, std::move(task)});
  }

  TimerId After(int64_t delay_ns, Task task) override {
    const TimerId id = ++core_.last_timer;
    if (core_.dropping) return id;
    const int64_t now = core_.clock.now_ns;
    const int64_t delay = std::max<int64_t>(delay_ns, 0);
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    const int64_t at = now > kMax - delay ? kMax : now + delay;
    timers_.emplace(id, Timer{at, std::move(task)});
    core_.due.insert({at, id, this});
    return id;
  }

  void Cancel(TimerId id) override {
    const auto found = timers_.find(id);
    if (found == timers_.end()) return;
    core_.due.erase({found->second.at_ns, id, this});
    const Task dropped = std::move(found->second.task);
    timers_.erase(found);  // before `dropped` is destroyed, which may call back
  }

  void Enqueue(TimerId due) { queue_.push_back({due, nullptr}); }

  const std::string& name() const { return name_; }
  bool busy() const { return busy_until_ns_ > core_.clock.now_ns; }
  int64_t busy_until_ns() const { return busy_until_ns_; }

  // Whether a task waits. Forgets cancelled timers at the front first.
  bool HasTask() {
    while (!queue_.empty() && queue_.front().timer != 0 && !timers_.contains(queue_.front().timer))
      queue_.pop_front();
    return !queue_.empty();
  }

  // REQUIRES: HasTask().
  void RunOne() {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    if (entry.timer != 0) {
      const auto found = timers_.find(entry.timer);
      entry.task = std::move(found->second.task);
      timers_.erase(found);
    }
    if (jitter_ns_max_ > 0)
      busy_until_ns_ =
          core_.clock.now_ns +
          static_cast<int64_t>(core_.schedule.Below(static_cast<uint64_t>(jitter_ns_max_) + 1));
    entry.task();
  }

  void DropAll() {
    std::deque<Entry> queue = std::exchange(queue_, {});
    std::unordered_map<TimerId, Timer> timers = std::exchange(timers_, {});
    busy_until_ns_ = 0;
  }

 private:
  struct Entry {
    TimerId timer;  // 0: the task is here
    Task task;
  };
  struct Timer {
    int64_t at_ns;
    Task task;
  };

  SimCore& core_;
  const std::string name_;
  const int64_t jitter_ns_max_;
  int64_t busy_until_ns_ = 0;
  std::deque<Entry> queue_;
  std::unordered_map<TimerId, Timer> timers_;  // looked up, never walked: its order is not ours
};

}  // namespace

struct SimWorld::State {
  explicit State(uint64_t seed) : core(seed) {}

  SimCore core;
  std::vector<std::unique_ptr<SimRunner>> runners;
  std::string last_runner;

  void MoveDueTimers() {
    while (!core.due.empty() && core.due.begin()->at_ns <= core.clock.now_ns) {
      const SimCore::Due due = *core.due.begin();
      core.due.erase(core.due.begin());
      due.runner->Enqueue(due.id);
    }
  }

  // The next moment at which something can happen, or the largest number when nothing will.
  int64_t NextMoment() {
    int64_t next = core.due.empty() ? std::numeric_limits<int64_t>::max() : core.due.begin()->at_ns;
    for (const auto& runner : runners)
      if (runner->HasTask()) next = std::min(next, runner->busy_until_ns());
    return next;
  }
};

SimWorld::SimWorld(uint64_t seed) : state_(std::make_unique<State>(seed)) {}

SimWorld::~SimWorld() {
  DropAll();
}

Clock& SimWorld::clock() {
  return state_->core.clock;
}

SeededRandom& SimWorld::random() {
  return state_->core.random;
}

Runner& SimWorld::NewRunner(std::string name, int64_t jitter_ns_max) {
  TENUTO_CHECK(jitter_ns_max >= 0);
  return *state_->runners.emplace_back(
      std::make_unique<SimRunner>(state_->core, std::move(name), jitter_ns_max));
}

const std::string& SimWorld::last_runner() const {
  return state_->last_runner;
}

bool SimWorld::Step() {
  state_->MoveDueTimers();
  std::vector<SimRunner*> ready;
  for (const auto& runner : state_->runners)
    if (!runner->busy() && runner->HasTask()) ready.push_back(runner.get());
  if (!ready.empty()) {
    SimRunner& next = *ready[state_->core.schedule.Below(ready.size())];
    state_->last_runner = next.name();
    next.RunOne();
    return true;
  }
  const int64_t next = state_->NextMoment();
  if (next == std::numeric_limits<int64_t>::max()) return false;
  state_->core.clock.now_ns = std::max(state_->core.clock.now_ns, next);
  return true;
}

bool SimWorld::RunUntil(const std::function<bool()>& done, uint64_t steps_max) {
  for (uint64_t i = 0; i < steps_max; ++i) {
    if (done()) return true;
    if (!Step()) return done();
  }
  return done();
}

void SimWorld::DropAll() {
  // What the dropped tasks post while they are destroyed belongs to the dead process as well.
  state_->core.dropping = true;
  state_->core.due.clear();
  for (const auto& runner : state_->runners)
    runner->DropAll();
  state_->core.dropping = false;
}

}  // namespace tenuto
