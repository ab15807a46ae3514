// Random operations on the SQLite store and on the one in memory: the same answers, the same
// contents, also after power losses between operations.
#include <gtest/gtest.h>

#include "io/fake.h"
#include "tokenlog/memory/log.h"
#include "tokenlog/sqlite/fake_volume.h"
#include "tokenlog/sqlite/log.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

template <typename T>
std::string Verdict(const Result<T>& result) {
  return result.ok()
             ? "ok"
             : std::string(CodeName(result.error().code())) + ": " + result.error().message();
}

std::string Describe(const Result<std::vector<PayloadFileId>>& files) {
  std::string text = Verdict(files);
  if (files.ok())
    for (const PayloadFileId file : *files)
      text += " " + std::to_string(file.value);
  return text;
}

std::string Describe(const Result<std::vector<int64_t>>& ids) {
  std::string text = Verdict(ids);
  if (ids.ok())
    for (const int64_t id : *ids)
      text += " " + std::to_string(id);
  return text;
}

std::string Describe(const Result<std::vector<TurnRow>>& turns) {
  std::string text = Verdict(turns);
  if (turns.ok())
    for (const TurnRow& turn : *turns)
      text += "\n" + Describe(turn);
  return text;
}

std::string Describe(const Result<std::vector<ItemsRow>>& items) {
  std::string text = Verdict(items);
  if (items.ok())
    for (const ItemsRow& row : *items)
      text += "\n" + Describe(row);
  return text;
}

// One random operation, the same for every log it is done to.
class Operation {
 public:
  Operation(SeededRandom& random, TokenLog& look) : random_(random) { Draw(look); }

  std::string RunOn(TokenLog& log) const {
    switch (kind_) {
      case 0: {
        const auto epoch = log.NextLeaseEpoch();
        return epoch.ok() ? std::to_string(*epoch) : Verdict(epoch);
      }
      case 1:
        return Describe(log.DeleteSession(key_));
      case 2:
        return Describe(log.AddPieces(session_, pieces_));
      case 3:
        return Describe(log.DropPieces(session_, ids_));
      case 4: {
        const auto page = log.ListSessions(tenant_, user_, after_, limit_);
        std::string text = Verdict(page);
        if (!page.ok()) return text;
        for (const SessionRow& row : page->sessions)
          text += "\n" + Describe(row);
        return text + (page->more ? " more" : "");
      }
      case 5: {
        const auto turn = log.FindByIdempotencyKey(session_, idempotency_key_);
        return turn.ok() ? Describe(*turn) : Verdict(turn);
      }
      case 6:
        return Describe(log.ReadTurns(session_, head_));
      case 7:
        return Describe(log.ReadWindow(session_, head_));
      case 8:
        return Describe(log.ReadTurnsBack(session_, head_, limit_));
      case 9:
        return Describe(log.ReadItems(session_, head_, first_line_, limit_));
      case 10:
        return Verdict(log.SetTurnMarks(session_, marks_));
      case 11:
        return Verdict(log.DeleteTurn(session_, head_));
      case 12:
        return Verdict(log.SetSessionSettings(session_, settings_));
      case 13: {
        const auto idle = log.ListIdleSessions(idle_before_ms_, limit_, idle_after_);
        std::string text = Verdict(idle);
        if (idle.ok())
          for (const SessionRow& row : *idle)
            text += "\n" + Describe(row);
        return text + "\n" + Describe(*log.TenantUse(tenant_));
      }
      default: {
        std::string text;
        for (const auto& verdict : log.Commit(commits_))
          text += verdict.ok() ? std::to_string(*verdict) + ";" : Verdict(verdict) + ";";
        return text;
      }
    }
  }

 private:
  SessionKey DrawKey() {
    SessionKey key =
        Key("s" + std::to_string(random_.Below(4)), "u" + std::to_string(random_.Below(2)));
    if (random_.Chance(0.2)) key.tenant = "other";
    return key;
  }

  // A commit that mostly fits the log as it is, and else misses it in one of the ways there are.
  TurnCommit DrawCommit(TokenLog& look) {
    const SessionKey key = DrawKey();
    const auto row = look.FindSession(key);
    std::vector<TurnRow> line;
    if (row.ok()) line = *look.ReadTurns(row->id, row->head);
    const std::string id = "T" + std::to_string(random_.Below(100'000));
    TurnCommit commit = MakeCommit(key, id, row.ok() ? row->head.value : "");
    if (!line.empty() && random_.Chance(0.2))
      commit.turn.parent = line[random_.Below(line.size())].id;
    if (random_.Chance(0.05)) commit.turn.parent = {};
    if (random_.Chance(0.05)) commit.turn.parent = {"nowhere"};
    if (random_.Chance(0.05)) commit.expected_head = {"elsewhere"};
    if (!line.empty() && random_.Chance(0.05)) commit.turn.id = line[random_.Below(line.size())].id;
    // Where the window begins: in the line, mostly, and now and then where there is no turn.
    commit.turn.window_first = 1 + random_.Below(line.size() + 1);
    if (random_.Chance(0.3)) commit.turn.window_first = 1;
    if (random_.Chance(0.03)) commit.turn.window_first = random_.Below(2) * (line.size() + 2);
    commit.turn.close_tokens = static_cast<uint32_t>(random_.Below(id.size() + 1));
    if (random_.Chance(0.02)) commit.turn.close_tokens += 7;
    commit.head_tokens.assign(random_.Below(4), static_cast<TokenId>(random_.Below(1000)));
    if (random_.Chance(0.02)) commit.head_tokens.push_back(-1);
    if (random_.Chance(0.05)) commit.vocabulary = Sha256Of(std::string_view("else"));
    if (random_.Chance(0.05)) commit.turn.prompt.push_back(-1);
    if (random_.Chance(0.3)) commit.turn.idempotency_key = "k" + std::to_string(random_.Below(10));
    commit.lease_epoch = random_.Below(3) + (random_.Chance(0.9) ? 2 : 0);
    commit.turn.answer.assign(random_.Below(2000), static_cast<TokenId>(random_.Below(1000)));
    commit.turn.items_json.assign(random_.Below(5000), 'j');
    if (random_.Chance(0.3)) commit.turn.recall_json.assign(random_.Below(50), 'r');
    commit.turn.completed_unix_ms = static_cast<int64_t>(random_.Below(10));
    return commit;
  }

  void Draw(TokenLog& look) {
    kind_ = random_.Below(26);
    key_ = DrawKey();
    const auto row = look.FindSession(key_);
    session_ = row.ok() ? row->id : static_cast<int64_t>(random_.Below(10));
    head_ = row.ok() && random_.Chance(0.8) ? row->head : TurnId{"T1"};
    if (row.ok() && random_.Chance(0.4)) {
      const std::vector<TurnRow> line = *look.ReadTurns(row->id, row->head);
      head_ = line[random_.Below(line.size())].id;
    }
    idempotency_key_ = "k" + std::to_string(random_.Below(10));
    for (uint64_t n = random_.Below(4); n > 0; --n) {
      const auto begin = static_cast<TokenPos>(random_.Below(100));
      pieces_.push_back(MakePiece(begin, begin + 1 + static_cast<TokenPos>(random_.Below(50)),
                                  random_.Below(6), random_.Below(1000) * 4096));
    }
    if (const auto stored = look.ReadPieces(session_); stored.ok())
      for (const PieceRow& piece : *stored)
        if (random_.Chance(0.3)) ids_.push_back(piece.id);
    ids_.push_back(static_cast<int64_t>(random_.Below(20)));
    if (random_.Chance(0.7)) tenant_ = "default";
    if (random_.Chance(0.7)) user_ = "u" + std::to_string(random_.Below(2));
    if (random_.Chance(0.5)) after_ = DrawKey().Full();
    limit_ = random_.Below(5);
    first_line_ = random_.Below(12);
    marks_ = {.turn = head_, .pinned = random_.Chance(0.4), .recall_off = random_.Chance(0.3)};
    if (row.ok() && random_.Chance(0.5)) marks_.superseded_by = row->head;
    if (random_.Chance(0.1)) marks_.superseded_by = {"nowhere"};
    settings_.assign(random_.Below(random_.Chance(0.1) ? 5000 : 100), 's');
    idle_before_ms_ = static_cast<int64_t>(random_.Below(12));
    idle_after_ = {static_cast<int64_t>(random_.Below(10)), session_};
    for (uint64_t n = 1 + random_.Below(3); n > 0; --n)
      commits_.push_back(DrawCommit(look));
  }

  SeededRandom& random_;
  uint64_t kind_ = 0;
  SessionKey key_;
  int64_t session_ = 0;
  TurnId head_;
  std::string idempotency_key_;
  std::vector<PieceRow> pieces_;
  std::vector<int64_t> ids_;
  std::string tenant_, user_, after_;
  size_t limit_ = 0;
  uint64_t first_line_ = 0;
  TurnMarks marks_;
  std::string settings_;
  int64_t idle_before_ms_ = 0;
  IdleCursor idle_after_;
  std::vector<TurnCommit> commits_;
};

class ModelTest : public ::testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Seeds, ModelTest, ::testing::Range(uint64_t{1}, uint64_t{13}));

TEST_P(ModelTest, SqliteAnswersAsTheModel) {
  SeededRandom random(GetParam());
  FakeVolume volume(GetParam());
  MemoryTokenLog model;
  std::unique_ptr<SqliteTokenLog> log;
  const auto reopen = [&] {
    auto opened = SqliteTokenLog::Open(volume.Path("log.db"), SqliteMode::kWriter,
                                       {.busy_timeout_ms = 100, .vfs = FakeVolume::VfsName()});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    log = std::move(opened).value();
  };
  ASSERT_NO_FATAL_FAILURE(reopen());
  uint64_t failures = 0;
  for (int i = 0; i < 300; ++i) {
    const Operation operation(random, model);
    const std::string expected = operation.RunOn(model);
    // Only the text of an error that names the store's file may differ, and none of these does.
    ASSERT_EQ(operation.RunOn(*log), expected) << "seed " << GetParam() << " operation " << i;
    failures += expected.find("conflict") != std::string::npos ? 1 : 0;
    if (random.Chance(0.1)) {
      ASSERT_TRUE(log->Settle().ok());
    }
    if (random.Chance(0.05)) {
      if (random.Chance(0.7)) volume.HaltAtStep(1);  // else a clean end
      log.reset();
      volume.Crash();
      ASSERT_NO_FATAL_FAILURE(reopen());
      ASSERT_EQ(*Dump(*log), *Dump(model))
          << "seed " << GetParam() << " after a crash at operation " << i;
    }
  }
  EXPECT_EQ(*Dump(*log), *Dump(model));
  EXPECT_GT(failures, 5U);
}

}  // namespace
}  // namespace tenuto
