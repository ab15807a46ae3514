#include "io/runner.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "io/clock.h"

namespace tenuto {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr std::chrono::seconds kLong(30);  // a wait that ends at once unless something is broken
constexpr int64_t kNever = 3600 * 1000 * kMs;

// Calls back when it is destroyed: what a dropped task held.
class OnDestroy {
 public:
  explicit OnDestroy(std::function<void()> call) : call_(std::move(call)) {}
  ~OnDestroy() { call_(); }
  OnDestroy(const OnDestroy&) = delete;
  OnDestroy& operator=(const OnDestroy&) = delete;

 private:
  std::function<void()> call_;
};

TEST(ThreadRunner, RunsInTheOrderPosted) {
  std::vector<int> ran;
  ThreadRunner runner("order");
  for (int i = 0; i < 1000; ++i)
    runner.Post([&ran, i] { ran.push_back(i); });
  runner.DrainAndStop();
  ASSERT_EQ(ran.size(), 1000u);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

TEST(ThreadRunner, RunsOnItsOwnNamedThread) {
  std::string name(16, '\0');
  std::thread::id id;
  ThreadRunner runner("a-name-of-more-than-15-bytes");
  runner.Post([&] {
    id = std::this_thread::get_id();
    pthread_getname_np(pthread_self(), name.data(), name.size());
  });
  runner.DrainAndStop();
  EXPECT_NE(id, std::this_thread::get_id());
  EXPECT_STREQ(name.c_str(), "a-name-of-more-");
}

TEST(ThreadRunner, ATaskMayPost) {
  std::promise<int> done;
  ThreadRunner runner("self");
  runner.Post([&] { runner.Post([&] { runner.Post([&] { done.set_value(3); }); }); });
  EXPECT_EQ(done.get_future().get(), 3);
}

TEST(ThreadRunner, TimersFireInOrderOfTimeAndNotEarly) {
  std::promise<void> done;
  std::vector<int> fired;
  std::vector<int64_t> at_ns;
  ThreadRunner runner("timers");
  const int64_t start = SystemClock().MonotonicNs();
  const auto record = [&](int n) {
    fired.push_back(n);
    at_ns.push_back(SystemClock().MonotonicNs());
  };
  runner.Post([&] {
    runner.After(9 * kMs, [&] {
      record(9);
      done.set_value();
    });
    runner.After(3 * kMs, [&] { record(3); });
    runner.After(6 * kMs, [&] { record(6); });
    runner.After(-5, [&] { record(0); });
  });
  done.get_future().get();
  ASSERT_EQ(fired, (std::vector<int>{0, 3, 6, 9}));
  for (size_t i = 0; i < fired.size(); ++i)
    EXPECT_GE(at_ns[i] - start, fired[i] * kMs);
}

TEST(ThreadRunner, AnEarlierTimerWakesASleepingThread) {
  std::promise<void> done;
  std::promise<void> asleep;
  ThreadRunner runner("wake");
  runner.After(kNever, [] { ADD_FAILURE() << "an hour has not passed"; });
  runner.After(std::numeric_limits<int64_t>::max(), [] { ADD_FAILURE() << "nor has eternity"; });
  runner.Post([&] { asleep.set_value(); });
  asleep.get_future().get();
  runner.After(2 * kMs, [&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(ThreadRunner, ACancelledTimerDoesNotRun) {
  std::promise<void> done;
  bool ran = false;
  ThreadRunner runner("cancel");
  const Runner::TimerId id = runner.After(2 * kMs, [&] { ran = true; });
  EXPECT_NE(id, 0u);
  runner.Cancel(id);
  runner.Cancel(id);
  runner.Cancel(0);
  runner.Cancel(id + 1000);
  runner.After(5 * kMs, [&] { done.set_value(); });
  done.get_future().get();
  EXPECT_FALSE(ran);
}

TEST(ThreadRunner, CancelOnTheRunnerStopsATimerThatIsAlreadyDue) {
  std::promise<void> done;
  bool ran = false;
  Runner::TimerId id = 0;
  ThreadRunner runner("due");
  runner.Post([&] {
    runner.Post([&] { runner.Cancel(id); });
    id = runner.After(0, [&] { ran = true; });  // due at once, behind the task above
    runner.After(kMs, [&] { done.set_value(); });
  });
  done.get_future().get();
  EXPECT_FALSE(ran);
}

TEST(ThreadRunner, ATimerRunsOnceAndItsCancelAfterwardsIsNothing) {
  std::promise<void> done;
  int ran = 0;
  Runner::TimerId id = 0;
  ThreadRunner runner("once");
  runner.Post([&] {
    id = runner.After(0, [&] {
      ++ran;
      runner.Cancel(id);
    });
    runner.After(kMs, [&] { done.set_value(); });
  });
  done.get_future().get();
  EXPECT_EQ(ran, 1);
}

TEST(ThreadRunner, DrainRunsWhatWasPostedAndDropsTheRest) {
  std::vector<int> ran;
  ThreadRunner runner("drain");
  std::promise<void> go;
  runner.Post([&] { go.get_future().wait(); });
  runner.Post([&] {
    ran.push_back(1);
    runner.Post([&] { ran.push_back(3); });
  });
  runner.Post([&] { ran.push_back(2); });
  runner.After(kNever, [&] { ran.push_back(4); });
  // Set free by the drop of a timer, which shows that DrainAndStop has begun.
  runner.After(kNever, [held = std::make_shared<OnDestroy>([&] { go.set_value(); })] {});
  runner.DrainAndStop();
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
  runner.DrainAndStop();
  runner.Post([&] { ran.push_back(5); });
  EXPECT_NE(runner.After(0, [&] { ran.push_back(6); }), 0u);
  EXPECT_EQ(ran.size(), 2u);
}

TEST(ThreadRunner, DestructorFinishesTheTaskAtHandAndDropsTheRest) {
  bool finished = false;
  bool dropped_ran = false;
  std::promise<void> started;
  std::promise<void> go;
  {
    ThreadRunner runner("drop");
    runner.Post([&] {
      started.set_value();
      go.get_future().wait();
      finished = true;
    });
    runner.Post(
        [&, held = std::make_shared<OnDestroy>([&] { go.set_value(); })] { dropped_ran = true; });
    started.get_future().wait();
  }
  EXPECT_TRUE(finished);
  EXPECT_FALSE(dropped_ran);
}

TEST(ThreadRunner, ADroppedTaskMayCallBackWhileItIsDestroyed) {
  std::promise<void> started;
  std::promise<void> go;
  bool called = false;
  {
    ThreadRunner runner("callback");
    runner.Post([&] {
      started.set_value();
      go.get_future().wait();
    });
    runner.Post([held = std::make_shared<OnDestroy>([&] {
                   runner.Post([] {});
                   runner.Cancel(runner.After(0, [] {}));
                   called = true;
                   go.set_value();
                 })] {});
    started.get_future().wait();
  }
  EXPECT_TRUE(called);
}

TEST(ThreadRunner, ACancelledTaskMayCallBackWhileItIsDestroyed) {
  ThreadRunner runner("cancelcb");
  bool called = false;
  const auto id = runner.After(kNever, [held = std::make_shared<OnDestroy>([&] {
                                          runner.Post([] {});
                                          called = true;
                                        })] {});
  runner.Cancel(id);
  EXPECT_TRUE(called);
}

TEST(ThreadRunner, ATaskMayBeTheLastOwner) {
  // The thread is joined by nobody, so what it touches last must not stand on this stack.
  auto gone = std::make_shared<std::promise<void>>();
  std::future<void> is_gone = gone->get_future();
  auto runner = std::make_shared<ThreadRunner>("last");
  Runner& posted_to = *runner;
  auto held = std::make_shared<OnDestroy>([gone = std::move(gone)] { gone->set_value(); });
  std::promise<void> go;
  posted_to.Post([runner = std::move(runner), held = std::move(held), &go]() mutable {
    go.get_future().wait();
    runner.reset();  // on its own thread
    held.reset();
  });
  go.set_value();
  EXPECT_EQ(is_gone.wait_for(kLong), std::future_status::ready);
}

TEST(ThreadRunner, ManyPostersKeepTheirOwnOrder) {
  constexpr int kPosters = 8;
  constexpr int kPosts = 1000;
  std::vector<std::vector<int>> ran(kPosters);
  std::atomic<int> timers_ran{0};
  ThreadRunner runner("many");
  std::vector<std::thread> posters;
  for (int p = 0; p < kPosters; ++p)
    posters.emplace_back([&, p] {
      for (int i = 0; i < kPosts; ++i) {
        runner.Post([&ran, p, i] { ran[static_cast<size_t>(p)].push_back(i); });
        const auto kept = runner.After(0, [&] { ++timers_ran; });
        const auto cancelled = runner.After(kNever, [&] { timers_ran += 1'000'000; });
        runner.Cancel(cancelled);
        EXPECT_LT(kept, cancelled);
      }
    });
  for (std::thread& poster : posters)
    poster.join();
  runner.DrainAndStop();
  for (const std::vector<int>& one : ran) {
    ASSERT_EQ(one.size(), static_cast<size_t>(kPosts));
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  }
  EXPECT_LE(timers_ran.load(), kPosters * kPosts);
}

TEST(ThreadRunner, StoppingWhileOthersPostIsSafe) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ran{0};
    ThreadRunner runner("stop");
    std::vector<std::thread> posters;
    for (int p = 0; p < 3; ++p)
      posters.emplace_back([&] {
        for (int i = 0; i < 200; ++i)
          runner.Post([&] { ++ran; });
      });
    runner.DrainAndStop();
    const int at_stop = ran;
    for (std::thread& poster : posters)
      poster.join();
    EXPECT_EQ(ran, at_stop);
  }
}

TEST(ThreadRunner, IdleCostsNoCpu) {
  ThreadRunner idle("idle");
  PoolRunner pool("idlepool", 4);
  idle.After(kNever, [] {});
  pool.After(kNever, [] {});
  std::promise<void> done;
  ThreadRunner waker("waker");
  const std::clock_t before = std::clock();  // of the whole process
  waker.After(50 * kMs, [&] { done.set_value(); });
  done.get_future().get();
  const double cpu_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_seconds, 0.025);
}

TEST(ThreadRunnerDeathTest, DrainOnItsOwnThreadAborts) {
  EXPECT_DEATH(
      {
        ThreadRunner runner("self");
        std::promise<void> done;
        runner.Post([&] {
          runner.DrainAndStop();
          done.set_value();
        });
        done.get_future().get();
      },
      "internal error");
}

TEST(PoolRunner, RunsSideBySideOnAllThreads) {
  constexpr int kThreads = 4;
  std::barrier together(kThreads);  // passes only when all threads are inside
  std::atomic<int> ran{0};
  PoolRunner pool("pool", kThreads);
  for (int i = 0; i < 3 * kThreads; ++i)
    pool.Post([&] {
      together.arrive_and_wait();
      ++ran;
    });
  pool.DrainAndStop();
  EXPECT_EQ(ran, 3 * kThreads);
}

TEST(PoolRunner, ATimerFiresWhileOtherThreadsAreBlocked) {
  std::promise<void> go;
  const std::shared_future<void> gate = go.get_future().share();
  std::promise<void> fired;
  PoolRunner pool("blocked", 2);
  pool.After(3 * kMs, [&] { fired.set_value(); });
  pool.Post([gate] { gate.wait(); });
  EXPECT_EQ(fired.get_future().wait_for(kLong), std::future_status::ready);
  go.set_value();
}

TEST(PoolRunner, TimersDueTogetherRunSideBySide) {
  std::barrier together(3);
  std::atomic<int> ran{0};
  std::promise<void> done;
  PoolRunner pool("together", 3);
  for (int i = 0; i < 3; ++i)
    pool.After(kMs, [&] {
      together.arrive_and_wait();
      if (++ran == 3) done.set_value();
    });
  done.get_future().get();
  EXPECT_EQ(ran, 3);
}

TEST(PoolRunner, CancelAndDropWork) {
  std::atomic<int> ran{0};
  std::promise<void> done;
  {
    PoolRunner pool("cancel", 2);
    pool.Cancel(pool.After(kMs, [&] { ran += 100; }));
    pool.After(kNever, [&] { ran += 100; });
    pool.After(3 * kMs, [&] {
      ++ran;
      done.set_value();
    });
    done.get_future().get();
  }
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace tenuto
