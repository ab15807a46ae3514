// A writing process is killed at random moments: what it acknowledged is there, whole and once.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "io/clock.h"
#include "io/fake.h"
#include "tokenlog/sqlite/log.h"
#include "tokenlog/testing.h"

namespace tenuto {
namespace {

constexpr int kSessions = 3;

// Goes on where the log stands, one turn after the other, and writes each acknowledged id to `out`.
// Never returns.
[[noreturn]] void WriteUntilKilled(const std::string& path, int out, int round) {
  auto log = SqliteTokenLog::Open(path, SqliteMode::kWriter);
  if (!log.ok()) ::_exit(1);
  const auto epoch = (*log)->NextLeaseEpoch();
  if (!epoch.ok()) ::_exit(2);
  for (int i = 0;; ++i) {
    const SessionKey key = Key("s" + std::to_string(i % kSessions));
    const auto row = (*log)->FindSession(key);
    TurnCommit commit = MakeCommit(key, "R" + std::to_string(round) + "-" + std::to_string(i),
                                   row.ok() ? row->head.value : "");
    commit.lease_epoch = *epoch;
    commit.turn.items_json = std::string(static_cast<size_t>(i % 7) * 1000, 'x');
    if (!CommitOne(**log, commit).ok()) ::_exit(3);
    const std::string line = key.session + " " + commit.turn.id.value + "\n";
    if (::write(out, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(4);
    if (!(*log)->Settle().ok()) ::_exit(5);
  }
}

// Lets a child write for about `run_ns`, kills it, and returns what it acknowledged.
std::string RunAndKill(const std::string& path, int round, int64_t run_ns) {
  int pipe_ends[2];
  EXPECT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe_ends[0]);
    WriteUntilKilled(path, pipe_ends[1], round);
  }
  ::close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  const int64_t end_ns = SystemClock().MonotonicNs() + run_ns;
  bool killed = false;
  for (;;) {
    // Blocks until the next acknowledgement, so that the moment of the kill falls into the child's
    // work.
    const ssize_t n = ::read(pipe_ends[0], buffer, sizeof(buffer));
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
    if (!killed && SystemClock().MonotonicNs() >= end_ns) killed = ::kill(child, SIGKILL) == 0;
  }
  ::close(pipe_ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself with " << WEXITSTATUS(status);
  return text;
}

TEST(SqliteKill, AcknowledgedTurnsSurviveFiftyKills) {
  const TempDir folder;
  const std::string path = folder.File("log.db");
  SeededRandom random(21);
  std::set<std::string> acknowledged;
  for (int round = 0; round < 50; ++round) {
    const std::string text =
        RunAndKill(path, round, static_cast<int64_t>(random.Below(30'000'000)));
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      ASSERT_NE(end, std::string::npos);
      EXPECT_TRUE(acknowledged.insert(text.substr(at, end - at)).second);
      at = end + 1;
    }
    const auto log =
        SqliteTokenLog::Open(path, round % 2 == 0 ? SqliteMode::kWriter : SqliteMode::kReader);
    ASSERT_TRUE(log.ok()) << log.error().message();
    std::set<std::string> stored;
    for (int s = 0; s < kSessions; ++s) {
      const auto row = (*log)->FindSession(Key("s" + std::to_string(s)));
      if (!row.ok()) continue;
      const auto turns = (*log)->ReadTurns(row->id, row->head);
      ASSERT_TRUE(turns.ok()) << turns.error().message();
      EXPECT_EQ(turns->size(), row->turns);
      for (const TurnRow& turn : *turns)
        EXPECT_TRUE(stored.insert(row->key.session + " " + turn.id.value).second)
            << "twice: " << turn.id.value;
    }
    for (const std::string& turn : acknowledged)
      ASSERT_TRUE(stored.contains(turn)) << "lost: " << turn;
  }
  EXPECT_GE(acknowledged.size(), 50U);
}

}  // namespace
}  // namespace tenuto
