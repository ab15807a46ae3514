#include "tokenlog/memory/log.h"

#include <algorithm>
#include <set>

#include "tokenlog/checks.h"

namespace tenuto {

void MemoryTokenLog::FailWrite(Fault fault) {
  const MutexLock lock(mutex_);
  fault_ = fault;
}

void MemoryTokenLog::Crash() {
  const MutexLock lock(mutex_);
  if (in_doubt_) state_ = *std::move(in_doubt_);
  in_doubt_.reset();
  fault_.reset();
  dead_.reset();
}

uint64_t MemoryTokenLog::writes() const {
  const MutexLock lock(mutex_);
  return writes_;
}

template <typename Change>
Status MemoryTokenLog::Write(Change change) {
  if (dead_) return *dead_;
  if (fault_ && --fault_->at_write == 0) {
    const Fault fault = *fault_;
    fault_.reset();
    if (fault.kept) {
      in_doubt_ = state_;
      change(*in_doubt_);
    }
    Error error(fault.code, "a write failed on purpose");
    if (fault.code == Code::kIo) dead_ = error;
    return error;
  }
  if (change(state_)) ++writes_;
  return Ok();
}

Result<uint64_t> MemoryTokenLog::NextLeaseEpoch() {
  const MutexLock lock(mutex_);
  uint64_t epoch = 0;
  TENUTO_TRY(Write([&](State& state) {
    epoch = ++state.lease_epoch;
    return true;
  }));
  return epoch;
}

std::vector<Result<int64_t>> MemoryTokenLog::Commit(std::span<const TurnCommit> commits) {
  const MutexLock lock(mutex_);
  std::vector<Result<int64_t>> verdicts;
  const Status status = Write([&](State& state) {
    verdicts.clear();
    bool stored = false;
    for (const TurnCommit& commit : commits) {
      verdicts.push_back(CommitOne(state, commit));
      stored = stored || verdicts.back().ok();
    }
    return stored;
  });
  if (!status) verdicts.assign(commits.size(), status.error());
  return verdicts;
}

Result<int64_t> MemoryTokenLog::CommitOne(State& state, const TurnCommit& commit) {
  TENUTO_TRY(CheckTurnCommit(commit));
  const TurnRow& turn = commit.turn;
  const auto found = state.by_key.find(commit.key);
  Session* session = found == state.by_key.end() ? nullptr : &state.sessions.at(found->second);
  TENUTO_TRY(JudgeCommit(commit, session == nullptr ? nullptr : &session->row));

  StoredTurn stored{
      .row = turn, .line_turns = 1, .line_tokens = turn.prompt.size() + turn.answer.size()};
  if (session != nullptr) {
    if (!turn.idempotency_key.empty() && session->idempotency.contains(turn.idempotency_key))
      return DuplicateIdempotencyKey();
    if (session->turns.contains(turn.id.value)) return DuplicateTurn(commit);
  }
  if (!turn.parent.empty()) {
    if (session == nullptr) return MissingParent(commit);
    const auto parent = session->turns.find(turn.parent.value);
    if (parent == session->turns.end()) return MissingParent(commit);
    stored.line_turns += parent->second.line_turns;
    stored.line_tokens += parent->second.line_tokens;
  }
  TENUTO_TRY(CheckWindow(turn, stored.line_turns));

  if (session == nullptr) {
    const int64_t id = state.next_session++;
    state.by_key.emplace(commit.key, id);
    session = &state.sessions[id];
    session->row.id = id;
    session->row.key = commit.key;
    session->row.created_unix_ms = turn.created_unix_ms;
    session->row.vocabulary = commit.vocabulary;
    session->row.system_json = commit.system_json;
    session->row.head_tokens = commit.head_tokens;
    session->row.bytes = SystemBytes(commit);
  }
  session->row.updated_unix_ms = UpdateTime(commit);
  session->row.head = turn.id;
  session->row.lease_epoch = commit.lease_epoch;
  session->row.turns = stored.line_turns;
  session->row.tokens = stored.line_tokens;
  session->row.bytes += TurnBytes(turn);
  if (!turn.idempotency_key.empty())
    session->idempotency.emplace(turn.idempotency_key, turn.id.value);
  session->turns.emplace(turn.id.value, std::move(stored));
  return session->row.id;
}

Result<SessionRow> MemoryTokenLog::FindSession(const SessionKey& key) {
  const MutexLock lock(mutex_);
  const auto found = state_.by_key.find(key);
  if (found == state_.by_key.end()) return NoSuchSession(key.Short());
  return state_.sessions.at(found->second).row;
}

template <typename TurnsOf>
Result<std::vector<TurnRow>> MemoryTokenLog::ReadNewest(int64_t session, const TurnId& last,
                                                        TurnsOf turns_of) {
  const auto found = state_.sessions.find(session);
  if (found == state_.sessions.end()) return NoSuchSession(std::to_string(session));
  std::vector<TurnRow> newest;
  if (last.empty()) return newest;
  const auto& turns = found->second.turns;
  auto turn = turns.find(last.value);
  if (turn == turns.end()) return NoSuchTurn("id " + last.value);
  for (uint64_t left = turns_of(turn->second); left > 0; --left) {
    newest.push_back(turn->second.row);
    const TurnId& parent = newest.back().parent;
    if (parent.empty()) break;
    turn = turns.find(parent.value);
    if (turn == turns.end()) return BrokenLine(parent);
  }
  return newest;
}

Result<std::vector<TurnRow>> MemoryTokenLog::ReadTurns(int64_t session, const TurnId& head) {
  const MutexLock lock(mutex_);
  TENUTO_ASSIGN(std::vector<TurnRow> line,
                ReadNewest(session, head, [](const StoredTurn& last) { return last.line_turns; }));
  std::reverse(line.begin(), line.end());
  return line;
}

Result<std::vector<TurnRow>> MemoryTokenLog::ReadWindow(int64_t session, const TurnId& head) {
  const MutexLock lock(mutex_);
  TENUTO_ASSIGN(std::vector<TurnRow> window, ReadNewest(session, head, [](const StoredTurn& last) {
                  return last.line_turns - last.row.window_first + 1;
                }));
  std::reverse(window.begin(), window.end());
  return window;
}

Result<std::vector<TurnRow>> MemoryTokenLog::ReadTurnsBack(int64_t session, const TurnId& last,
                                                           size_t limit) {
  const MutexLock lock(mutex_);
  return ReadNewest(session, last,
                    [&](const StoredTurn&) { return std::min(limit, kTurnPageMax); });
}

Result<std::vector<ItemsRow>> MemoryTokenLog::ReadItems(int64_t session, const TurnId& head,
                                                        uint64_t first_line, size_t limit) {
  const MutexLock lock(mutex_);
  LineRange range;
  TENUTO_ASSIGN(const std::vector<TurnRow> newest,
                ReadNewest(session, head, [&](const StoredTurn& last) {
                  range = ItemsRange(first_line, limit, last.line_turns);
                  return last.line_turns - range.first + 1;
                }));
  std::vector<ItemsRow> items;
  for (uint64_t line = range.first; line < range.end; ++line) {
    const TurnRow& turn = newest[newest.size() - 1 - (line - range.first)];
    items.push_back({.line = line,
                     .id = turn.id,
                     .items_json = turn.items_json,
                     .recall_json = turn.recall_json,
                     .created_unix_ms = turn.created_unix_ms,
                     .deleted = turn.deleted});
  }
  return items;
}

Result<TurnRow> MemoryTokenLog::FindByIdempotencyKey(int64_t session, const std::string& key) {
  const MutexLock lock(mutex_);
  const auto found = state_.sessions.find(session);
  if (found == state_.sessions.end()) return NoSuchSession(std::to_string(session));
  const auto turn = found->second.idempotency.find(key);
  if (turn == found->second.idempotency.end()) return NoSuchTurn("this idempotency key");
  return found->second.turns.at(turn->second).row;
}

Result<SessionPage> MemoryTokenLog::ListSessions(const std::string& tenant, const std::string& user,
                                                 const std::string& after, size_t limit) {
  SessionKey start{.tenant = "", .user = "", .agent = "", .session = ""};
  if (!after.empty()) {
    TENUTO_ASSIGN(start, ParseSessionKey(after));
  }
  const MutexLock lock(mutex_);
  SessionPage page;
  limit = std::min(limit, kSessionPageMax);
  for (auto at = state_.by_key.upper_bound(start); at != state_.by_key.end(); ++at) {
    const SessionKey& key = at->first;
    if (!tenant.empty() && (key.tenant != tenant || (!user.empty() && key.user != user))) continue;
    if (page.sessions.size() == limit) {
      page.more = true;
      break;
    }
    page.sessions.push_back(state_.sessions.at(at->second).row);
  }
  return page;
}

Result<std::vector<SessionRow>> MemoryTokenLog::ListIdleSessions(int64_t updated_before_ms,
                                                                 size_t limit,
                                                                 const IdleCursor& after) {
  const auto place = [](const SessionRow& row) { return std::pair(row.updated_unix_ms, row.id); };
  const MutexLock lock(mutex_);
  std::vector<SessionRow> idle;
  for (const auto& [id, session] : state_.sessions)
    if (session.row.updated_unix_ms < updated_before_ms &&
        place(session.row) > std::pair(after.updated_unix_ms, after.session))
      idle.push_back(session.row);
  std::sort(idle.begin(), idle.end(),
            [&](const SessionRow& a, const SessionRow& b) { return place(a) < place(b); });
  idle.resize(std::min({idle.size(), limit, kSessionPageMax}));
  return idle;
}

// Counted anew each time: what the sums that other stores keep are compared with.
Result<TenantTotals> MemoryTokenLog::TenantUse(const std::string& tenant) {
  const MutexLock lock(mutex_);
  TenantTotals totals;
  for (const auto& [id, session] : state_.sessions) {
    if (session.row.key.tenant != tenant) continue;
    ++totals.sessions;
    totals.bytes += session.row.bytes;
    for (const auto& [turn_id, turn] : session.turns)
      totals.turns += turn.row.deleted ? 0 : 1;
  }
  return totals;
}

Status MemoryTokenLog::SetSessionSettings(int64_t session, const std::string& settings_json) {
  TENUTO_TRY(CheckSettings(settings_json));
  const MutexLock lock(mutex_);
  if (!state_.sessions.contains(session)) return NoSuchSession(std::to_string(session));
  return Write([&](State& state) {
    state.sessions.at(session).row.settings_json = settings_json;
    return true;
  });
}

MemoryTokenLog::StoredTurn* MemoryTokenLog::FindLive(State& state, int64_t session,
                                                     const TurnId& turn) {
  auto& turns = state.sessions.at(session).turns;
  const auto found = turns.find(turn.value);
  return found == turns.end() || found->second.row.deleted ? nullptr : &found->second;
}

Status MemoryTokenLog::SetTurnMarks(int64_t session, const TurnMarks& marks) {
  TENUTO_TRY(CheckTurnMarks(marks));
  const MutexLock lock(mutex_);
  const auto found = state_.sessions.find(session);
  if (found == state_.sessions.end()) return NoSuchSession(std::to_string(session));
  const StoredTurn* turn = FindLive(state_, session, marks.turn);
  if (turn == nullptr) return NoSuchTurn("id " + marks.turn.value);
  if (!marks.superseded_by.empty() && !found->second.turns.contains(marks.superseded_by.value))
    return NoSuchTurn("id " + marks.superseded_by.value);
  TurnMarks stored = marks;
  stored.line = turn->line_turns;
  return Write([&](State& state) {
    auto& all = state.sessions.at(session).marks;
    all.erase(stored.turn.value);
    if (!SaysNothing(stored)) all.emplace(stored.turn.value, stored);
    return true;
  });
}

Result<std::vector<TurnMarks>> MemoryTokenLog::ReadTurnMarks(int64_t session) {
  const MutexLock lock(mutex_);
  const auto found = state_.sessions.find(session);
  if (found == state_.sessions.end()) return NoSuchSession(std::to_string(session));
  std::vector<TurnMarks> all;
  for (const auto& [id, marks] : found->second.marks)
    all.push_back(marks);
  std::stable_sort(all.begin(), all.end(),
                   [](const TurnMarks& a, const TurnMarks& b) { return a.line < b.line; });
  return all;
}

Status MemoryTokenLog::DeleteTurn(int64_t session, const TurnId& turn) {
  const MutexLock lock(mutex_);
  if (!state_.sessions.contains(session)) return NoSuchSession(std::to_string(session));
  if (FindLive(state_, session, turn) == nullptr) return NoSuchTurn("id " + turn.value);
  return Write([&](State& state) {
    Session& of = state.sessions.at(session);
    TurnRow& row = FindLive(state, session, turn)->row;
    of.row.bytes -= TurnBytes(row);
    of.idempotency.erase(row.idempotency_key);
    of.marks.erase(row.id.value);
    row = TombstoneOf(row);
    return true;
  });
}

Result<std::vector<PayloadFileId>> MemoryTokenLog::DeleteSession(const SessionKey& key) {
  const MutexLock lock(mutex_);
  if (!state_.by_key.contains(key)) return NoSuchSession(key.Short());
  std::vector<PayloadFileId> files;
  TENUTO_TRY(Write([&](State& state) {
    const int64_t id = state.by_key.at(key);
    for (const auto& [piece_id, piece] : state.sessions.at(id).pieces)
      files.push_back(piece.location.file);
    state.sessions.erase(id);
    state.by_key.erase(key);
    files = Unnamed(state, std::move(files));
    return true;
  }));
  return files;
}

Result<std::vector<PieceRow>> MemoryTokenLog::ReadPieces(int64_t session) {
  const MutexLock lock(mutex_);
  const auto found = state_.sessions.find(session);
  if (found == state_.sessions.end()) return NoSuchSession(std::to_string(session));
  std::vector<PieceRow> pieces;
  for (const auto& [id, piece] : found->second.pieces)
    pieces.push_back(piece);
  std::stable_sort(pieces.begin(), pieces.end(), [](const PieceRow& a, const PieceRow& b) {
    return a.range.begin < b.range.begin;
  });
  return pieces;
}

Result<std::vector<int64_t>> MemoryTokenLog::AddPieces(int64_t session,
                                                       std::span<const PieceRow> pieces) {
  for (const PieceRow& piece : pieces)
    TENUTO_TRY(CheckPieceRow(piece));
  const MutexLock lock(mutex_);
  if (!state_.sessions.contains(session)) return NoSuchSession(std::to_string(session));
  std::vector<int64_t> ids;
  if (pieces.empty()) return ids;
  TENUTO_TRY(Write([&](State& state) {
    ids.clear();
    for (PieceRow piece : pieces) {
      piece.id = state.next_piece++;
      state.sessions.at(session).pieces.emplace(piece.id, piece);
      ids.push_back(piece.id);
    }
    return true;
  }));
  return ids;
}

Result<std::vector<PayloadFileId>> MemoryTokenLog::DropPieces(int64_t session,
                                                              std::span<const int64_t> ids) {
  const MutexLock lock(mutex_);
  if (!state_.sessions.contains(session)) return NoSuchSession(std::to_string(session));
  std::vector<PayloadFileId> files;
  TENUTO_TRY(Write([&](State& state) {
    auto& pieces = state.sessions.at(session).pieces;
    for (const int64_t id : ids) {
      const auto piece = pieces.find(id);
      if (piece == pieces.end()) continue;
      files.push_back(piece->second.location.file);
      pieces.erase(piece);
    }
    const bool stored = !files.empty();
    files = Unnamed(state, std::move(files));
    return stored;
  }));
  return files;
}

Result<std::vector<PayloadFileId>> MemoryTokenLog::ReferencedFiles() {
  const MutexLock lock(mutex_);
  std::set<PayloadFileId> files;
  for (const auto& [id, session] : state_.sessions)
    for (const auto& [piece_id, piece] : session.pieces)
      files.insert(piece.location.file);
  return std::vector<PayloadFileId>(files.begin(), files.end());
}

std::vector<PayloadFileId> MemoryTokenLog::Unnamed(const State& state,
                                                   std::vector<PayloadFileId> files) {
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  std::erase_if(files, [&](PayloadFileId file) {
    return std::any_of(state.sessions.begin(), state.sessions.end(), [&](const auto& session) {
      return std::any_of(session.second.pieces.begin(), session.second.pieces.end(),
                         [&](const auto& piece) { return piece.second.location.file == file; });
    });
  });
  return files;
}

}  // namespace tenuto
