// A whole server in virtual time: fake executor, real engine, sessions and scheduler, a log in
// memory, segment files on a disk that forgets. One seed decides which runner goes next, when the
// power fails and what clients ask. The oracle knows what was acknowledged, and computes by itself
// what the model must have answered.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/embedded/engine.h"
#include "engine/fake/executor.h"
#include "io/fake.h"
#include "payload/segment/store.h"
#include "schedule/service.h"
#include "session/manager.h"
#include "tokenlog/memory/log.h"
#include "tokenlog/writer.h"

namespace tenuto::sim {

struct WorldSettings {
  uint64_t seed = 1;
  int32_t cells = 1000;  // small: sessions are swapped, runs preempted
  int32_t sequences = 4;
  int32_t window = 700;
  int32_t running_max = 3;
  int32_t sessions = 4;
  int32_t tenants = 2;             // each session is of one of them
  int32_t tenant_running_max = 2;  // fewer than fit: turns are passed by others
  int64_t queue_timeout_s = 1;     // some turns are refused
  double batch_chance = 0.2;
  int32_t clients = 5;
  int32_t turns_per_client = 12;
  double crash_chance = 0.02;  // per client action
  double cancel_chance = 0.05;
  double pin_chance = 0.05;   // a turn that was just answered is pinned, or not any more
  double retry_chance = 0.5;  // a lost answer is asked for again with the same idempotency key
  bool lose_commits = false;  // canary: the log forgets what it acknowledged
};

// One life of the server: from start to stop or crash.
struct Life;

class World {
 public:
  explicit World(WorldSettings settings);
  ~World();

  // Runs all clients to their end and checks everything. "" or what went wrong, with the seed.
  std::string Run();

  struct Facts {
    uint64_t turns_acknowledged = 0, crashes = 0, cancels = 0, replays = 0, restored_tokens = 0,
             preemptions = 0, turns_past_the_window = 0, turns_that_quote = 0,
             turns_behind_pins = 0, batch_turns = 0, refusals = 0;
    uint64_t steps = 0;
    std::string trace;  // ids and answers in the order of acknowledgement: equal for equal seeds
  };
  const Facts& facts() const { return facts_; }

 private:
  struct Client;
  struct Acknowledged {
    std::string turn;
    std::string text;
    std::vector<TokenId> tokens;
    std::string finish_reason;
  };

  void Start();
  void Crash();
  void Send(Client& client);
  void Answered(size_t index, uint64_t life, const std::string& session,
                Result<TurnOutcome> result);
  void PinSometimes(const SessionKey& key, const TurnId& turn);
  std::string CheckLog();
  void Fail(const std::string& what);

  const WorldSettings settings_;
  SimWorld sim_;
  FakeDisk disk_;
  std::unique_ptr<TokenLog> log_;
  MemoryTokenLog* memory_log_ = nullptr;
  std::unique_ptr<Life> life_;
  uint64_t life_count_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<std::string, std::vector<Acknowledged>> acknowledged_;  // by session
  Facts facts_;
  std::string failure_;
};

}  // namespace tenuto::sim
