// Which sessions have outlived their time to live. The log lists sessions by when they were last
// updated; a pass goes on where the last one stopped, so that each idle session is looked at once.
// Behind the place that was reached nothing is due before `next_due_unix_ms`, which sends the sweep
// back to the start; in front of it nothing is due that is younger than the shortest time to live
// in use. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenlog/log.h"

namespace tenuto {

struct SessionSettings;

struct ExpiryState {
  IdleCursor reached;
  int64_t next_due_unix_ms = 0;
  uint64_t shortest_ttl_s = 0;  // of those known; 0: none
  bool all_known = false;       // every session's own was read since the start
  bool sweeping = false;

  // Somebody gave a session this time to live (0: none).
  void Note(int64_t updated_unix_ms, uint64_t ttl_s);
  // There is something to look for. Turns back to the start when it is time.
  bool BeginPass(int64_t now_unix_ms);
  // Sessions updated before this may be due.
  int64_t IdleBefore(int64_t now_unix_ms) const;
};

struct ExpiryPage {
  struct Due {
    SessionKey key;
    int64_t updated_unix_ms = 0;
  };
  std::vector<Due> due;
  ExpiryState state;  // after it
  bool more = false;
};

// The most rows that a pass lists, and sessions that it deletes.
inline constexpr size_t kSweepRowsMax = 1000;
inline constexpr size_t kSweepDeletesMax = 64;

// `rows` as TokenLog::ListIdleSessions gave them for `before` and kSweepRowsMax.
ExpiryPage JudgeIdle(const SessionSettings& server, const ExpiryState& before,
                     const std::vector<SessionRow>& rows, int64_t now_unix_ms);

}  // namespace tenuto
