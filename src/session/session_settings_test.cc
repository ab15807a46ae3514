#include "session/session_settings.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>

#include "session/testing.h"

namespace tenuto {
namespace {

namespace json = boost::json;

Result<SettingsPatch> Patch(const std::string& text) {
  return SettingsPatchFrom(json::parse(text).as_object());
}

SessionSettings Server() {
  SessionSettings server;
  server.window_tokens = 500;
  server.ttl_s = 1000;
  server.quotas.session_turns_max = 20;
  return server;
}

// What `text` makes of `before`, as JSON.
std::string After(const std::string& text, const std::string& before = "{}") {
  const auto patch = Patch(text);
  if (!patch.ok()) return patch.error().field() + ": " + patch.error().message();
  const auto after = PatchSettings(OverridesFromJson(before).value(), *patch, Server());
  if (!after.ok()) return after.error().field() + ": " + after.error().message();
  return OverridesToJson(*after);
}

std::string FieldAtFault(const std::string& text, const std::string& before = "{}") {
  const auto patch = Patch(text);
  if (!patch.ok()) {
    EXPECT_EQ(patch.error().code(), Code::kInvalid);
    return patch.error().field();
  }
  const auto after = PatchSettings(OverridesFromJson(before).value(), *patch, Server());
  EXPECT_FALSE(after.ok()) << text;
  return after.ok() ? "none" : after.error().field();
}

TEST(SessionSettingsForm, AllOfThemThereAndBack) {
  const std::string all =
      R"({"window":{"tokens":400,"high":80,"low":40,"grid_tokens":16,"answer_tokens":50},)"
      R"("recall":{"mode":"force","tokens":100,"share":20},"ttl_s":60,"turns_max":9,)"
      R"("bytes_max":4096,"timezone":"Asia/Tokyo"})";
  EXPECT_EQ(After(all), all);
  EXPECT_EQ(OverridesToJson(OverridesFromJson(all).value()), all);
  EXPECT_EQ(SettingNames().size(), kSettingsCount + 1);
  const SessionSettings holds = EffectiveSettings(Server(), OverridesFromJson(all).value());
  EXPECT_EQ(holds.window_tokens, 400);
  EXPECT_DOUBLE_EQ(holds.window_high, 0.8);
  EXPECT_DOUBLE_EQ(holds.window_low, 0.4);
  const WindowLimits limits = holds.Limits(std::nullopt);
  EXPECT_EQ(limits.grid_tokens, 16);
  EXPECT_EQ(limits.answer_tokens, 50);
  EXPECT_EQ(holds.recall.mode, RecallMode::kForced);
  EXPECT_EQ(holds.recall.tokens_max, 100);
  EXPECT_DOUBLE_EQ(holds.recall.share_max, 0.2);
  EXPECT_EQ(holds.ttl_s, 60u);
  EXPECT_EQ(holds.quotas.session_turns_max, 9u);
  EXPECT_EQ(holds.quotas.session_bytes_max, 4096u);
  EXPECT_EQ(holds.ZoneAt("", 0), 9 * 3600);
  EXPECT_EQ(holds.ZoneAt("-02:00", 0), -2 * 3600);  // who asks says another
  EXPECT_EQ(Server().ZoneAt("", 0), 0);
}

TEST(SessionSettingsForm, APatchChangesWhatItNames) {
  const std::string before = R"({"window":{"tokens":400,"high":80},"ttl_s":60})";
  EXPECT_EQ(After(R"({"ttl_s":null})", before), R"({"window":{"tokens":400,"high":80}})");
  EXPECT_EQ(After(R"({"window":{"high":null}})", before),
            R"({"window":{"tokens":400},"ttl_s":60})");
  EXPECT_EQ(After(R"({"timezone":"+09:00"})", R"({"timezone":"UTC"})"), R"({"timezone":"+09:00"})");
  EXPECT_EQ(After(R"({"timezone":null})", R"({"ttl_s":60,"timezone":"UTC"})"), R"({"ttl_s":60})");
  EXPECT_EQ(After(R"({"window":null})", before), R"({"ttl_s":60})");
  EXPECT_EQ(After(R"({"ttl_s":61.0,"recall":{"mode":"off"}})", before),
            R"({"window":{"tokens":400,"high":80},"recall":{"mode":"off"},"ttl_s":61})");
}

TEST(SessionSettingsForm, WhatIsWrongIsNamedWithWhatIsAllowed) {
  EXPECT_NE(After(R"({"recall":"off"})").find(R"({"mode": "off"})"), std::string::npos);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({})", ""},
      {R"({"window":{}})", ""},
      {R"({"windows":{"tokens":100}})", "windows"},
      {R"({"tokens":100})", "tokens"},
      {R"({"window":{"token":100}})", "window.token"},
      {R"({"window":100})", "window"},
      {R"({"recall":"off"})", "recall"},
      {R"({"window":{"tokens":"100"}})", "window.tokens"},
      {R"({"window":{"tokens":99.5}})", "window.tokens"},
      {R"({"window":{"tokens":true}})", "window.tokens"},
      {R"({"window":{"tokens":63}})", "window.tokens"},
      {R"({"window":{"tokens":501}})", "window.tokens"},
      {R"({"window":{"tokens":1e300}})", "window.tokens"},
      {R"({"window":{"high":101}})", "window.high"},
      {R"({"window":{"high":50}})", "window.high"},
      {R"({"window":{"low":90}})", "window.low"},
      {R"({"window":{"high":60,"low":60}})", "window.low"},
      {R"({"window":{"grid_tokens":0}})", "window.grid_tokens"},
      {R"({"window":{"answer_tokens":126}})", "window.answer_tokens"},
      {R"({"recall":{"mode":"never"}})", "recall.mode"},
      {R"({"recall":{"mode":1}})", "recall.mode"},
      {R"({"recall":{"tokens":501}})", "recall.tokens"},
      {R"({"recall":{"share":51}})", "recall.share"},
      {R"({"timezone":"Atlantis/Poseidonis"})", "timezone"},
      {R"({"timezone":9})", "timezone"},
      {R"({"timezone":""})", "timezone"},
      {R"({"ttl_s":0})", "ttl_s"},
      {R"({"ttl_s":-1})", "ttl_s"},
      {R"({"ttl_s":1001})", "ttl_s"},
      {R"({"turns_max":21})", "turns_max"},
      {R"({"bytes_max":18446744073709551615})", "bytes_max"},
      {R"({"bytes_max":9007199254740992})", "bytes_max"}};
  for (const auto& [text, field] : bad)
    EXPECT_EQ(FieldAtFault(text), field) << text;
  EXPECT_EQ(After(R"({"window":{"tokens":501}})"),
            "window.tokens: 'window.tokens' must be from 64 to 500, the server's own limit");
  EXPECT_EQ(After(R"({"ttl_s":1001})"),
            "ttl_s: 'ttl_s' must be from 1 to 1000, the server's own limit");
  // What is set already must fit a new window.
  EXPECT_EQ(FieldAtFault(R"({"window":{"tokens":100}})", R"({"window":{"answer_tokens":100}})"),
            "window.answer_tokens");
  // What the server allowed when it was set stands in nobody's way.
  EXPECT_EQ(After(R"({"ttl_s":5})", R"({"turns_max":50})"), R"({"ttl_s":5,"turns_max":50})");
}

TEST(SessionSettingsForm, AServerThatGivesLessNowIsTheLimit) {
  const auto own =
      OverridesFromJson(R"({"window":{"tokens":900},"ttl_s":5000,"turns_max":50})").value();
  const SessionSettings holds = EffectiveSettings(Server(), own);
  EXPECT_EQ(holds.window_tokens, 500);
  EXPECT_EQ(holds.ttl_s, 1000u);
  EXPECT_EQ(holds.quotas.session_turns_max, 20u);
}

TEST(SessionSettingsForm, StoredOnesAreReadWithCare) {
  EXPECT_TRUE(OverridesFromJson(R"({"later":{"x":1},"window":{"shape":2}})").ok());
  for (const char* text : {"", "[]", "{", R"({"ttl_s":"x"})", R"({"ttl_s":-5})", R"({"window":3})",
                           R"({"recall":{"mode":"x"}})", "null"})
    EXPECT_EQ(OverridesFromJson(text).error().code(), Code::kCorrupt) << text;
}

class SettingsOfASession : public ::testing::Test {
 protected:
  Result<SessionInfo> Change(const std::string& session, const std::string& text) {
    std::optional<Result<SessionInfo>> result;
    stack->OnCore([&] {
      stack->manager.ChangeSettings(ParseSessionKey(session).value(), Patch(text).value(),
                                    [&](Result<SessionInfo> info) { result = std::move(info); });
    });
    EXPECT_TRUE(stack->manager.CheckIdle());
    return *result;
  }
  const TurnOutcome& Ask(const std::string& session, const std::string& text) {
    last = stack->Ask(session, text);
    EXPECT_TRUE(last->ok()) << last->result->error().message();
    EXPECT_TRUE(stack->manager.CheckIdle());
    return **last;
  }
  void Restart() { stack = std::make_unique<TestStack>(disk); }

  TestDisk disk;
  std::unique_ptr<TestStack> stack = std::make_unique<TestStack>(disk);
  TestStack::AnswerPtr last;
};

TEST_F(SettingsOfASession, ASmallerWindowIsACutInTheNextTurn) {
  for (int i = 0; i < 6; ++i)
    Ask("a", "question number " + std::to_string(i));
  ASSERT_EQ((**last).archived_turns, 0);
  ASSERT_GT((**last).window_tokens, 150);
  const auto info = Change("a", R"({"window":{"tokens":150}})");
  ASSERT_TRUE(info.ok()) << info.error().message();
  EXPECT_EQ(info->row.settings_json, R"({"window":{"tokens":150}})");
  Ask("a", "and now");
  EXPECT_GT((**last).trimmed_turns, 0);
  EXPECT_EQ((**last).window_limit, 150);
  EXPECT_LE((**last).window_tokens, 150);
  Ask("b", "another session has the server's");
  EXPECT_EQ((**last).window_limit, 500);
  // Taken back: there is room again, and what was cut stays in the archive.
  ASSERT_TRUE(Change("a", R"({"window":null})").ok());
  EXPECT_EQ(Ask("a", "more room").window_limit, 500);
  EXPECT_EQ((**last).trimmed_turns, 0);
  EXPECT_GT((**last).archived_turns, 0);
}

// INV-8: the cut is a function of log, message and settings.
TEST(SettingsStory, TheSameCutsLiveAndAfterRestarts) {
  const auto story = [](bool restarts, bool idle_time) {
    TestDisk disk;
    auto stack = std::make_unique<TestStack>(disk);
    std::vector<std::string> told;
    for (int i = 0; i < 24; ++i) {
      stack->idle_time = idle_time;
      if (i == 5 || i == 14) {
        const char* text = i == 5 ? R"({"window":{"tokens":200,"low":30,"grid_tokens":8}})"
                                  : R"({"window":{"tokens":300,"low":null}})";
        stack->OnCore([&] {
          stack->manager.ChangeSettings(ParseSessionKey("a").value(), Patch(text).value(),
                                        [](const Result<SessionInfo>& info) {
                                          EXPECT_TRUE(info.ok()) << info.error().message();
                                        });
        });
      }
      const auto answer = stack->Ask("a", "question number " + std::to_string(i));
      EXPECT_TRUE(answer->ok());
      told.push_back((**answer).text + " " + std::to_string((**answer).prompt_tokens) + " " +
                     std::to_string((**answer).window_limit));
      if (restarts) stack = std::make_unique<TestStack>(disk);
    }
    return told;
  };
  const auto told = story(false, true);
  EXPECT_EQ(story(true, true), told);
  EXPECT_EQ(story(false, false), told);
  EXPECT_EQ(story(true, false), told);
}

TEST_F(SettingsOfASession, AChangeDuringATurnHoldsFromTheNextOn) {
  Ask("a", "begin");
  const auto running = stack->Submit(TestStack::Chat("a", "while this runs"));
  const auto preparing = [&] { return running->turn->phase != TurnPhase::kWaiting; };
  ASSERT_TRUE(stack->world.RunUntil(preparing));
  ASSERT_TRUE(Change("a", R"({"window":{"tokens":200}})").ok());
  ASSERT_TRUE(running->ok());
  EXPECT_EQ((**running).window_limit, 500);
  EXPECT_EQ(Ask("a", "next").window_limit, 200);
}

TEST_F(SettingsOfASession, AWindowThatItsHeadFillsIsRefused) {
  TurnRequest request = TestStack::Chat("a", "hello");
  request.messages.insert(request.messages.begin(), {"system", std::string(60, 's'), ""});
  ASSERT_TRUE(stack->Ask(std::move(request))->ok());
  const auto refused = Change("a", R"({"window":{"tokens":100}})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_EQ(refused.error().field(), "window.tokens");
  EXPECT_NE(refused.error().message().find("40 %"), std::string::npos);
  EXPECT_TRUE(Change("a", R"({"window":{"tokens":400}})").ok());
  EXPECT_EQ(Change("none", R"({"ttl_s":5})").error().code(), Code::kNotFound);
}

TEST_F(SettingsOfASession, TwoChangesAtOnceLoseNothing) {
  Ask("a", "begin");
  int done = 0;
  stack->OnCore([&] {
    for (const char* text : {R"({"ttl_s":50})", R"({"turns_max":7})", R"({"nothing":1})",
                             R"({"recall":{"mode":"off"}})"}) {
      const auto patch = Patch(text);
      if (!patch.ok()) continue;
      stack->manager.ChangeSettings(ParseSessionKey("a").value(), *patch,
                                    [&](const Result<SessionInfo>&) { ++done; });
    }
  });
  EXPECT_EQ(done, 3);
  EXPECT_EQ(disk.log.FindSession(ParseSessionKey("a").value())->settings_json,
            R"({"recall":{"mode":"off"},"ttl_s":50,"turns_max":7})");
}

TEST_F(SettingsOfASession, RecallIsOffWhereASessionSaysSo) {
  Ask("a", "My cat is called Miso and she is afraid of thunder.");
  for (int i = 0; i < 12; ++i)
    Ask("a", "the choir sings on thursday evenings, note " + std::to_string(i));
  ASSERT_GT((**last).archived_turns, 0);
  const std::string question = "What is my cat called?";
  EXPECT_NE(Ask("a", question).recall.decision, "off");
  ASSERT_TRUE(Change("a", R"({"recall":{"mode":"off"}})").ok());
  EXPECT_EQ(Ask("a", question).recall.decision, "off");
  Restart();
  EXPECT_EQ(Ask("a", question).recall.decision, "off");
  TurnRequest request = TestStack::Chat("a", question);
  request.recall = RecallMode::kAuto;  // the request has the last word
  EXPECT_NE((**stack->Ask(std::move(request))).recall.decision, "off");
}

}  // namespace
}  // namespace tenuto
