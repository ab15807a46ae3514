#include "session/expiry.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>

#include "session/testing.h"

namespace tenuto {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

class Expiry : public ::testing::Test {
 protected:
  void Start(uint64_t ttl_s) {
    TestStackOptions options;
    options.session.ttl_s = ttl_s;
    stack = std::make_unique<TestStack>(*disk, options);
    // A restart's clock goes on.
    stack->core.After(now_s * kSecondNs, [] {});
    stack->Settle();
  }
  void Wait(int64_t seconds) {
    now_s += seconds;
    stack->core.After(seconds * kSecondNs, [] {});
    stack->Settle();
  }
  // Passes until there is nothing more to do.
  int Sweep() {
    int passes = 0;
    bool more = true;
    while (more && passes < 1000) {
      ++passes;
      stack->OnCore([&] { stack->manager.SweepExpired([&](bool m) { more = m; }); });
      EXPECT_TRUE(stack->manager.CheckIdle());
    }
    return passes;
  }
  void Say(const std::string& session) { EXPECT_TRUE(stack->Ask(session, "hello")->ok()); }
  void LiveFor(const std::string& session, const std::string& ttl_s) {
    const auto patch =
        SettingsPatchFrom(boost::json::parse("{\"ttl_s\":" + ttl_s + "}").as_object());
    stack->OnCore([&] {
      stack->manager.ChangeSettings(
          Key(session), *patch, [](const Result<SessionInfo>& info) { EXPECT_TRUE(info.ok()); });
    });
  }
  bool Lives(const std::string& session) { return disk->log.FindSession(Key(session)).ok(); }
  uint64_t Expired() {
    return stack->metrics.GetCounter("tenuto_sessions_expired_total", "").value();
  }
  static SessionKey Key(const std::string& name) { return ParseSessionKey(name).value(); }

  std::unique_ptr<TestDisk> disk = std::make_unique<TestDisk>();
  std::unique_ptr<TestStack> stack;
  int64_t now_s = 0;
};

TEST_F(Expiry, WhatNobodyUsedGoes) {
  Start(100);
  Say("a");
  Say("b");
  Wait(60);
  Say("b");
  Wait(39);
  Sweep();
  EXPECT_TRUE(Lives("a"));
  Wait(1);
  Sweep();
  EXPECT_FALSE(Lives("a"));
  EXPECT_TRUE(Lives("b"));
  EXPECT_EQ(Expired(), 1u);
  EXPECT_TRUE(disk->payloads.List()->size() == 1u);
  Wait(60);
  Sweep();
  EXPECT_FALSE(Lives("b"));
  EXPECT_EQ(Expired(), 2u);
  Say("a");  // a new session of that name
  EXPECT_EQ(disk->log.FindSession(Key("a"))->turns, 1u);
}

TEST_F(Expiry, NeverWithoutATimeToLive) {
  Start(0);
  Say("a");
  Wait(1'000'000'000);
  EXPECT_EQ(Sweep(), 1);
  EXPECT_TRUE(Lives("a"));
}

TEST_F(Expiry, ASessionsOwnTime) {
  Start(1000);
  Say("short");
  Say("usual");
  Sweep();
  LiveFor("short", "50");
  Wait(49);
  Sweep();
  EXPECT_TRUE(Lives("short"));
  Wait(1);
  Sweep();
  EXPECT_FALSE(Lives("short"));
  Say("another");
  LiveFor("another", "50");
  Wait(30);
  LiveFor("another", "null");
  Wait(30);
  Sweep();
  EXPECT_TRUE(Lives("another"));
  Wait(900);
  Sweep();
  EXPECT_FALSE(Lives("usual"));
  EXPECT_TRUE(Lives("another"));
  Wait(70);
  Sweep();
  EXPECT_FALSE(Lives("another"));
}

// The log's settings are the truth: another process set them.
TEST_F(Expiry, OwnTimesAreKnownAfterARestart) {
  Start(0);
  Say("a");
  Say("b");
  LiveFor("a", "50");
  Wait(10);
  Start(0);
  Sweep();
  EXPECT_TRUE(Lives("a"));
  Wait(40);
  Sweep();
  EXPECT_FALSE(Lives("a"));
  EXPECT_TRUE(Lives("b"));
}

TEST_F(Expiry, AnImportOfOldTurnsIsNew) {
  Start(100);
  std::vector<ImportItem> items = {{{"user", "long ago", ""}, 1'000'000'000'000, ""},
                                   {{"assistant", "indeed", ""}, 1'000'000'000'001, ""}};
  stack->OnCore([&] {
    stack->manager.Import(Key("old"), items,
                          [](const Result<ImportOutcome>& done) { EXPECT_TRUE(done.ok()); });
  });
  Sweep();
  EXPECT_TRUE(Lives("old"));
  Wait(100);
  Sweep();
  EXPECT_FALSE(Lives("old"));
}

TEST_F(Expiry, NotWhileATurnRuns) {
  Start(100);
  Say("a");
  Wait(200);
  const auto running = stack->Submit(TestStack::Chat("a", "still here"));
  ASSERT_TRUE(stack->world.RunUntil(
      [&] { return running->turn->session && running->turn->session->busy; }));
  stack->OnCore([&] { stack->manager.SweepExpired([](bool) {}); });
  ASSERT_TRUE(running->ok());
  EXPECT_TRUE(Lives("a"));
  EXPECT_EQ(disk->log.FindSession(Key("a"))->turns, 2u);
  EXPECT_EQ(Expired(), 0u);
  Wait(100);
  Sweep();
  EXPECT_FALSE(Lives("a"));
}

// Whatever the interleaving: a turn is either in the session or begins a new one, and is never
// lost.
TEST_F(Expiry, ATurnThatComesInBetweenIsNotLost) {
  for (int i = 0; i < 30; ++i) {
    stack.reset();
    disk = std::make_unique<TestDisk>();
    now_s = 0;
    Start(100);
    Say("a");
    Wait(200);
    stack->core.Post([&] { stack->manager.SweepExpired([](bool) {}); });
    for (int step = 0; step < i; ++step)
      stack->world.Step();
    const auto asked = stack->Submit(TestStack::Chat("a", "just in time"));
    stack->Settle();
    ASSERT_TRUE(asked->ok()) << i;
    const auto row = disk->log.FindSession(Key("a"));
    ASSERT_TRUE(row.ok()) << i;
    EXPECT_EQ(row->head, (**asked).turn) << i;
    EXPECT_EQ(row->turns, Expired() == 1 ? 1u : 2u) << i;
    EXPECT_TRUE(stack->manager.CheckIdle());
  }
}

TEST_F(Expiry, ManyGoInSeveralPasses) {
  Start(100);
  for (size_t i = 0; i < kSweepDeletesMax + 3; ++i)
    Say("s" + std::to_string(i));
  Wait(100);
  EXPECT_EQ(Sweep(), 2);
  EXPECT_EQ(Expired(), kSweepDeletesMax + 3);
}

// Each idle session is looked at once, and again only when one of them is due.
TEST(ExpiryState, GoesOnWhereItStopped) {
  SessionSettings server;
  server.ttl_s = 1000;
  ExpiryState state;
  state.shortest_ttl_s = server.ttl_s;
  ASSERT_TRUE(state.BeginPass(10'000'000));
  EXPECT_EQ(state.IdleBefore(10'000'000), 10'000'000);  // all, to learn of their own times
  SessionRow row;
  row.id = 1;
  row.updated_unix_ms = 9'990'000;
  row.settings_json = R"({"ttl_s":20})";
  SessionRow corrupt = row;
  corrupt.id = 2;
  corrupt.updated_unix_ms = 9'990'001;
  corrupt.settings_json = "?";
  ExpiryPage page = JudgeIdle(server, state, {row, corrupt}, 10'000'000);
  EXPECT_TRUE(page.due.empty());
  EXPECT_FALSE(page.more);
  EXPECT_EQ(page.state.shortest_ttl_s, 20u);
  EXPECT_EQ(page.state.next_due_unix_ms, 10'010'000);
  EXPECT_EQ(page.state.reached.session, 2);
  state = page.state;
  ASSERT_TRUE(state.BeginPass(10'009'999));
  EXPECT_EQ(state.reached.session, 2);
  EXPECT_EQ(state.IdleBefore(10'009'999), 9'990'000);
  ASSERT_TRUE(state.BeginPass(10'010'000));
  EXPECT_EQ(state.reached.session, 0);
  page = JudgeIdle(server, state, {row, corrupt}, 10'010'000);
  ASSERT_EQ(page.due.size(), 1u);
  EXPECT_EQ(page.due[0].updated_unix_ms, row.updated_unix_ms);
}

}  // namespace
}  // namespace tenuto
