#include "session/quota.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>

#include "session/testing.h"

namespace tenuto {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

std::vector<ImportItem> Pairs(int count) {
  std::vector<ImportItem> items;
  for (int i = 0; i < count; ++i) {
    items.push_back({{"user", "question " + std::to_string(i), ""}, 0, ""});
    items.push_back({{"assistant", "answer", ""}, 0, ""});
  }
  return items;
}

class Quota : public ::testing::Test {
 protected:
  void Start(const Quotas& quotas) {
    TestStackOptions options;
    options.session.quotas = quotas;
    stack = std::make_unique<TestStack>(*disk, options);
  }
  std::string Refusal(const std::string& session) {
    const auto answer = stack->Ask(session, "hello there");
    EXPECT_TRUE(stack->manager.CheckIdle());
    if (answer->ok()) return "";
    EXPECT_EQ(answer->code(), Code::kExhausted);
    EXPECT_TRUE(answer->streamed.empty());
    return answer->result->error().field();
  }
  std::string ImportRefusal(const std::string& session, int pairs) {
    std::optional<Result<ImportOutcome>> result;
    stack->OnCore([&] {
      stack->manager.Import(Key(session), Pairs(pairs),
                            [&](Result<ImportOutcome> outcome) { result = std::move(outcome); });
    });
    EXPECT_TRUE(stack->manager.CheckIdle());
    if (result->ok()) return "";
    EXPECT_EQ(result->error().code(), Code::kExhausted);
    return result->error().field();
  }
  void Delete(const std::string& session) {
    stack->OnCore([&] {
      stack->manager.Delete(Key(session), [](const Status& status) { EXPECT_TRUE(status.ok()); });
    });
  }
  void Wait(int64_t ns) {
    stack->core.After(ns, [] {});
    stack->Settle();
  }
  static SessionKey Key(const std::string& name) { return ParseSessionKey(name).value(); }
  SessionRow Row(const std::string& name) { return disk->log.FindSession(Key(name)).value(); }

  std::unique_ptr<TestDisk> disk = std::make_unique<TestDisk>();
  std::unique_ptr<TestStack> stack;
};

TEST_F(Quota, TurnsOfASession) {
  Start({.session_turns_max = 3});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Refusal("a"), "") << i;
  EXPECT_EQ(Refusal("a"), "quota.turns_max");
  const auto answer = stack->Ask("a", "why?");
  EXPECT_EQ(answer->result->error().message(),
            "session a holds 3 turns, and this would add 1; at most 3 are allowed (turns_max). "
            "Go on in another session, delete this one, or raise the limit");
  EXPECT_EQ(Row("a").turns, 3u);
  EXPECT_EQ(Refusal("b"), "");
  EXPECT_EQ(Refusal(""), "");  // without a session nothing is kept
  EXPECT_EQ(ImportRefusal("b", 3), "quota.turns_max");
  EXPECT_EQ(Row("b").turns, 1u);
  EXPECT_EQ(ImportRefusal("b", 2), "");
  EXPECT_EQ(ImportRefusal("c", 4), "quota.turns_max");
  EXPECT_EQ(disk->log.FindSession(Key("c")).error().code(), Code::kNotFound);
}

// What the session holds is what the log says, live and after a restart.
TEST_F(Quota, BytesOfASession) {
  Start({});
  EXPECT_EQ(Refusal("a"), "");
  const uint64_t one = Row("a").bytes;
  EXPECT_EQ(Refusal("a"), "");
  const uint64_t two = Row("a").bytes;
  for (const bool restarted : {false, true}) {
    stack.reset();
    disk = std::make_unique<TestDisk>();
    Start({.session_bytes_max = two});
    EXPECT_EQ(Refusal("a"), "");
    EXPECT_EQ(Row("a").bytes, one);
    EXPECT_EQ(Refusal("a"), "");
    if (restarted) Start({.session_bytes_max = two});
    EXPECT_EQ(Refusal("a"), "quota.bytes_max");
    EXPECT_EQ(ImportRefusal("a", 1), "quota.bytes_max");
    // A turn's bytes come back with its deletion.
    stack->OnCore([&] {
      stack->manager.DeleteTurn(Key("a"), Row("a").head,
                                [](const Result<TurnDeletion>& done) { EXPECT_TRUE(done.ok()); });
    });
    EXPECT_EQ(Refusal("a"), "");
  }
}

TEST_F(Quota, OfATenantOverAllItsSessions) {
  Start({.tenant_turns_max = 4});
  EXPECT_EQ(Refusal("a"), "");
  EXPECT_EQ(ImportRefusal("ada::b", 4), "quota.tenant_turns_max");
  EXPECT_EQ(ImportRefusal("ada::b", 3), "");
  EXPECT_EQ(Refusal("a"), "quota.tenant_turns_max");
  EXPECT_EQ(Refusal("c"), "quota.tenant_turns_max");
  EXPECT_EQ(Refusal("other::ada::default::c"), "");
  Delete("ada::b");
  EXPECT_EQ(Refusal("c"), "");  // known at once
  EXPECT_EQ(stack->metrics.GetCounter("tenuto_quota_refusals_total", "").value(), 3u);
}

TEST_F(Quota, SessionsOfATenant) {
  Start({.tenant_sessions_max = 2});
  EXPECT_EQ(Refusal("a"), "");
  EXPECT_EQ(ImportRefusal("ada::b", 2), "");
  EXPECT_EQ(Refusal("c"), "quota.tenant_sessions_max");
  EXPECT_EQ(ImportRefusal("c", 1), "quota.tenant_sessions_max");
  EXPECT_EQ(disk->log.FindSession(Key("c")).error().code(), Code::kNotFound);
  // Those that are there go on, after a restart too, and so do other tenants.
  Start({.tenant_sessions_max = 2});
  EXPECT_EQ(Refusal("a"), "");
  EXPECT_EQ(Refusal("a"), "");
  EXPECT_EQ(ImportRefusal("ada::b", 2), "");
  EXPECT_EQ(Refusal("other::u::a::c"), "");
  EXPECT_EQ(Refusal("c"), "quota.tenant_sessions_max");
  Delete("ada::b");
  EXPECT_EQ(Refusal("c"), "");
}

TEST_F(Quota, ATenantsTotalsAreReadOnceASecond) {
  Start({.tenant_bytes_max = 1});
  EXPECT_EQ(Refusal("a"), "quota.tenant_bytes_max");
  Start({.tenant_turns_max = 1});
  EXPECT_EQ(Refusal("a"), "");
  EXPECT_EQ(Refusal("a"), "");  // within the second
  Wait(2 * kSecondNs);
  EXPECT_EQ(Refusal("a"), "quota.tenant_turns_max");
}

TEST_F(Quota, ARetryGetsItsAnswer) {
  Start({.session_turns_max = 1, .tenant_turns_max = 1});
  TurnRequest request = TestStack::Chat("a", "hello");
  request.idempotency_key = "k";
  const auto first = stack->Ask(request);
  ASSERT_TRUE(first->ok());
  Wait(2 * kSecondNs);
  const auto again = stack->Ask(request);
  ASSERT_TRUE(again->ok());
  EXPECT_TRUE((**again).replayed);
  EXPECT_EQ((**again).text, (**first).text);
}

TEST_F(Quota, ASessionsOwnIsTighterThanTheServers) {
  Start({.session_turns_max = 5});
  EXPECT_EQ(Refusal("a"), "");
  const auto patch = SettingsPatchFrom(boost::json::parse(R"({"turns_max":2})").as_object());
  stack->OnCore([&] {
    stack->manager.ChangeSettings(Key("a"), *patch,
                                  [](const Result<SessionInfo>& info) { EXPECT_TRUE(info.ok()); });
  });
  EXPECT_EQ(ImportRefusal("a", 2), "quota.turns_max");
  EXPECT_EQ(Refusal("a"), "");
  EXPECT_EQ(Refusal("a"), "quota.turns_max");
  Start({.session_turns_max = 5});
  EXPECT_EQ(Refusal("a"), "quota.turns_max");
  Start({.session_turns_max = 1});
  EXPECT_EQ(Refusal("a"), "quota.turns_max");
}

}  // namespace
}  // namespace tenuto
