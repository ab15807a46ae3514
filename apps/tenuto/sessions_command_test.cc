#include "sessions_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/ids.h"
#include "canned_server.h"
#include "io/clock.h"
#include "payload/segment/store.h"
#include "session_report.h"
#include "store_layout.h"
#include "tokenlog/sqlite/log.h"

namespace tenuto {
namespace {

namespace json = boost::json;
using Action = SessionsOptions::Action;

TurnRow MakeTurn(const std::string& id, const std::string& parent, const std::string& items) {
  TurnRow turn;
  turn.id = TurnId{id};
  turn.parent = TurnId{parent};
  turn.prompt = {1, 2, 3};
  turn.answer = {4, 5};
  turn.items_json = items;
  turn.params_json = "{}";
  turn.finish_reason = "stop";
  turn.created_unix_ms = 1'700'000'000'000;
  turn.completed_unix_ms = 1'700'000'005'000;
  return turn;
}

const std::string kFirstId = "01HF00000000000000000000AA";
const std::string kSecondId = "01HF00000000000000000000BB";
const std::string kFirstItems = R"([{"role":"system","content":"Be terse."},)"
                                R"({"role":"user","content":"Hi","name":"ann"},)"
                                R"({"role":"assistant","content":"Hello\nyou"}])";
const std::string kSecondItems = R"([{"role":"system","content":"Be terse."},)"
                                 R"({"role":"user","content":"More\u001b[2J"},)"
                                 R"({"role":"assistant","content":"Done"}])";

class SessionsCommandTest : public testing::Test {
 protected:
  SessionsCommandTest() {
    std::string name = "/tmp/tenuto_sess_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~SessionsCommandTest() override { std::filesystem::remove_all(root_); }

  struct Outcome {
    int status = -1;
    std::string out, err;
  };
  Outcome Do(Action action, const std::string& session = "", bool as_json = false) const {
    std::ostringstream out, err;
    Outcome outcome;
    outcome.status = RunSessions(
        {.action = action, .session = session, .file = "", .store = root_, .json = as_json}, out,
        err);
    outcome.out = out.str();
    outcome.err = err.str();
    return outcome;
  }

  // Two sessions: one with two turns and a stored piece, one with a turn.
  void Fill() {
    auto store = OpenStoreForWriting(root_);
    ASSERT_TRUE(store.ok()) << store.error().message();
    auto log = SqliteTokenLog::Open(store->paths.log, SqliteMode::kWriter);
    ASSERT_TRUE(log.ok()) << log.error().message();
    const auto epoch = (*log)->NextLeaseEpoch();
    ASSERT_TRUE(epoch.ok());
    const auto commit = [&](const std::string& name, const TurnRow& turn) {
      TurnCommit one;
      one.key = ParseSessionKey(name).value();
      one.expected_head = turn.parent;
      one.lease_epoch = *epoch;
      one.system_json = R"([{"role":"system","content":"Be terse."}])";
      one.turn = turn;
      const auto verdicts = (*log)->Commit({&one, 1});
      EXPECT_TRUE(verdicts.at(0).ok()) << verdicts.at(0).error().message();
      return verdicts.at(0).ok() ? *verdicts.at(0) : 0;
    };
    const int64_t first = commit("alice::x", MakeTurn(kFirstId, "", kFirstItems));
    commit("alice::x", MakeTurn(kSecondId, kFirstId, kSecondItems));
    commit("chat", MakeTurn(kFirstId, "", kFirstItems));

    auto payload = SegmentStore::Open(std::move(store->kv), SystemRandom());
    ASSERT_TRUE(payload.ok());
    const std::array<std::byte, 1000> bytes{};
    const PayloadRecord record{bytes, bytes};
    const auto locations = (*payload)->Append({}, {&record, 1});
    ASSERT_TRUE(locations.ok()) << locations.error().message();
    PieceRow piece;
    piece.kind = 1;
    piece.range = {0, 9};
    piece.location = locations->at(0);
    ASSERT_TRUE((*log)->AddPieces(first, {&piece, 1}).ok());
  }

  size_t SegmentFiles() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ + "/kv"))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  }

  std::string root_;
};

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(SessionsCommandTest, NoStoreIsAnErrorThatMakesNone) {
  std::filesystem::remove_all(root_);
  for (const Action action : {Action::kList, Action::kShow, Action::kDelete, Action::kExport}) {
    const Outcome outcome = Do(action, "chat");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(Has(outcome.err, "there is no tenuto store at " + root_)) << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(root_));
}

TEST_F(SessionsCommandTest, AStoreWithoutALogIsEmpty) {
  ASSERT_TRUE(OpenStoreForWriting(root_).ok());
  EXPECT_TRUE(Has(Do(Action::kList).out, "no sessions")) << Do(Action::kList).err;
  EXPECT_EQ(Do(Action::kList, "", true).out, "{\"object\":\"list\",\"data\":[]}\n");
  EXPECT_TRUE(Has(Do(Action::kShow, "x").err, "no session 'x'"));
}

TEST_F(SessionsCommandTest, ListsForPeopleAndForScripts) {
  Fill();
  const Outcome table = Do(Action::kList);
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_TRUE(Has(table.out, "SESSION   TURNS  TOKENS  KV ON DISK  LAST TURN\n")) << table.out;
  EXPECT_TRUE(Has(table.out, "alice::x      2      10      2.0 kB  ")) << table.out;
  EXPECT_TRUE(Has(table.out, "chat          1       5         0 B  ")) << table.out;
  const auto list = json::parse(Do(Action::kList, "", true).out).as_object();
  ASSERT_EQ(list.at("data").as_array().size(), 2U);
  const auto& first = list.at("data").as_array().at(0).as_object();
  EXPECT_EQ(first.at("id").as_string(), "alice::x");
  EXPECT_EQ(first.at("turns").to_number<int>(), 2);
  EXPECT_EQ(first.at("head").as_string(), kSecondId);
  EXPECT_EQ(first.at("kv").as_object().at("stored_bytes").to_number<int>(), 2000);
}

TEST_F(SessionsCommandTest, ReadsBesideAWriter) {
  Fill();
  const auto server = OpenStoreForWriting(root_);
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(Do(Action::kList).status, 0);
  EXPECT_EQ(Do(Action::kShow, "chat").status, 0);
}

TEST_F(SessionsCommandTest, ShowsTurnsWithoutTheirControlCharacters) {
  Fill();
  const Outcome shown = Do(Action::kShow, "alice::x");
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_TRUE(Has(shown.out, "2 turns, 10 tokens, 2.0 kB of KV on disk")) << shown.out;
  EXPECT_TRUE(
      Has(shown.out, "  system: Be terse.\n  user (ann): Hi\n  assistant: Hello\n    you\n"))
      << shown.out;
  EXPECT_TRUE(Has(shown.out, "  user: More [2J\n")) << shown.out;
  EXPECT_TRUE(Has(shown.out, kSecondId + "  3 + 2 tokens, stop\n")) << shown.out;
  EXPECT_EQ(shown.out.find("Be terse.", shown.out.find("Be terse.") + 1), std::string::npos)
      << shown.out;
  const auto object = json::parse(Do(Action::kShow, "alice::x", true).out).as_object();
  EXPECT_EQ(object.at("data").as_array().size(), 2U);
  const auto& turn = object.at("data").as_array().at(1).as_object();
  EXPECT_EQ(turn.at("parent").as_string(), kFirstId);
  EXPECT_EQ(turn.at("completion_tokens").to_number<int>(), 2);
  EXPECT_EQ(turn.at("items").as_array().size(), 2U);
}

TEST_F(SessionsCommandTest, ExportsOneItemALine) {
  Fill();
  const Outcome exported = Do(Action::kExport, "alice::x");
  ASSERT_EQ(exported.status, 0) << exported.err;
  std::istringstream lines(exported.out);
  std::vector<json::object> items;
  for (std::string line; std::getline(lines, line);)
    items.push_back(json::parse(line).as_object());
  ASSERT_EQ(items.size(), 5U);  // the repeated system message is left out
  EXPECT_EQ(items[0].at("role").as_string(), "system");
  EXPECT_EQ(items[1].at("name").as_string(), "ann");
  EXPECT_EQ(items[1].at("time").as_string(), "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(items[1].at("id").as_string(), kFirstId + ".1");
  EXPECT_EQ(items[2].at("content").as_string(), "Hello\nyou");
  EXPECT_EQ(items[2].at("time").as_string(), "2023-11-14T22:13:25.000Z");
  EXPECT_EQ(items[3].at("content").as_string(), "More\x1b[2J");  // exact: exports are no terminal
  EXPECT_FALSE(items[3].contains("name"));
}

TEST_F(SessionsCommandTest, UnknownAndBadNames) {
  Fill();
  for (const Action action : {Action::kShow, Action::kDelete, Action::kExport}) {
    const Outcome unknown = Do(action, "nobody");
    EXPECT_EQ(unknown.status, 1);
    EXPECT_TRUE(Has(unknown.err, "there is no session 'nobody'")) << unknown.err;
    EXPECT_EQ(unknown.out, "");
    for (const char* name : {"../x", "a/b", "a::b::c", ""})
      EXPECT_EQ(Do(action, name).status, 1) << name;
  }
}

TEST_F(SessionsCommandTest, DeletesWithoutAServerLogAndKv) {
  Fill();
  ASSERT_EQ(SegmentFiles(), 1U);
  const Outcome deleted = Do(Action::kDelete, "alice::x");
  ASSERT_EQ(deleted.status, 0) << deleted.err;
  EXPECT_EQ(deleted.out, "deleted alice::x\n");
  EXPECT_EQ(SegmentFiles(), 0U);
  EXPECT_TRUE(Has(Do(Action::kShow, "alice::x").err, "no session"));
  EXPECT_EQ(Do(Action::kShow, "chat").status, 0);
  EXPECT_TRUE(OpenStoreForWriting(root_).ok());  // the lock was given back
}

TEST_F(SessionsCommandTest, DeletesThroughARunningServer) {
  Fill();
  const auto lock = OpenStoreForWriting(root_);
  ASSERT_TRUE(lock.ok());
  CannedServer server(
      [](const CannedRequest& request) {
        if (Has(request.head, "::busy "))
          return CannedServer::Json(409, R"({"error":{"message":"a turn of it runs"}})");
        if (Has(request.head, "::none "))
          return CannedServer::Json(404, R"({"error":{"message":"no"}})");
        return CannedServer::Json(200, R"({"deleted":true})");
      },
      root_ + "/control.sock");
  const Outcome deleted = Do(Action::kDelete, "alice::x", true);
  EXPECT_EQ(deleted.status, 0) << deleted.err;
  EXPECT_TRUE(json::parse(deleted.out).as_object().at("deleted").as_bool());
  EXPECT_EQ(server.requests().at(0).Line(),
            "DELETE /v1/sessions/default::alice::default::x HTTP/1.1");
  EXPECT_TRUE(Has(Do(Action::kDelete, "busy").err, "a turn of it runs"));
  EXPECT_TRUE(Has(Do(Action::kDelete, "none").err, "there is no session 'none'"));
}

TEST_F(SessionsCommandTest, AServerThatDoesNotAnswerIsNamed) {
  Fill();
  const auto lock = OpenStoreForWriting(root_);
  ASSERT_TRUE(lock.ok());
  const Outcome outcome = Do(Action::kDelete, "alice::x");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(Has(outcome.err, "control socket does not answer")) << outcome.err;
  EXPECT_TRUE(Has(outcome.err, std::to_string(::getpid()))) << outcome.err;
  EXPECT_EQ(Do(Action::kShow, "alice::x").status, 0);
}

TEST_F(SessionsCommandTest, OtherVersionsAndDamageAreErrors) {
  Fill();
  std::ofstream(root_ + "/format") << "tenuto-store 2\n";
  for (const Action action : {Action::kList, Action::kShow, Action::kDelete, Action::kExport})
    EXPECT_TRUE(Has(Do(action, "chat").err, "format 2")) << Do(action, "chat").err;
  std::ofstream(root_ + "/format") << "tenuto-store 1\n";
  for (const char* name : {"log.db-wal", "log.db-shm"})
    std::filesystem::remove(root_ + "/" + name);
  std::ofstream(root_ + "/log.db") << std::string(8192, 'x');
  EXPECT_EQ(Do(Action::kList).status, 1);
  EXPECT_NE(Do(Action::kList).err, "");
}

TEST(SessionReportTest, ADeletedTurnSaysSo) {
  StoredSession session;
  session.row.key = ParseSessionKey("me::a").value();
  TurnRow gone;
  gone.id = TurnId{"019a0000-0000-7000-8000-000000000001"};
  gone.items_json = "[]";
  gone.deleted = true;
  const auto text = SessionText(session, {gone}, 0);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find(gone.id.value + "  deleted\n"), std::string::npos) << *text;
  const auto json = SessionJson(session, {gone});
  ASSERT_TRUE(json.ok());
  EXPECT_NE(json->find("\"deleted\":true"), std::string::npos) << *json;
}

TEST(SessionReportTest, ItemsThatAreNotJsonAreCorrupt) {
  const std::vector<TurnRow> turns = {MakeTurn(kFirstId, "", "[{")};
  EXPECT_EQ(ExportLines(turns).error().code(), Code::kCorrupt);
  EXPECT_EQ(SessionText({}, turns, 0).error().code(), Code::kCorrupt);
  EXPECT_EQ(SessionJson({}, turns).error().code(), Code::kCorrupt);
  EXPECT_TRUE(Has(ExportLines(turns).error().message(), kFirstId));
}

}  // namespace
}  // namespace tenuto
