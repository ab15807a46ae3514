// Sessions as clients see them: list, one, its turns, delete.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "session/manager.h"
#include "session/prepare.h"
#include "session/quote.h"

namespace tenuto {
namespace {

// Blocking. In a listing: how far stored KV of this engine reaches, gaps not looked for.
void FillStored(const SessionContext& context, SessionInfo& info) {
  const auto rows = context.log.ReadPieces(info.row.id);
  if (!rows.ok()) return;
  for (const PieceRow& row : *rows) {
    info.stored_bytes += row.location.bytes;
    if (row.fingerprint == context.engine.info().fingerprint)
      info.stored_tokens = std::max(info.stored_tokens, row.range.end);
  }
}

// Blocking. One session with its window, and the stored KV that this window can use.
Result<SessionInfo> ReadInfo(const SessionContext& context, const SessionKey& key) {
  SessionInfo info;
  TENUTO_ASSIGN(info.row, context.log.FindSession(key));
  TENUTO_ASSIGN(const SessionWindow window,
                ReadSessionWindow(context.log, TokenizerOf(context.engine), info.row));
  info.window = {window.size(), window.archived_turns()};
  TENUTO_ASSIGN(const auto rows, context.log.ReadPieces(info.row.id));
  const ChainBuild build =
      BuildChain(rows, window.tokens(), OwnerDigest(key), context.engine.info().fingerprint);
  info.stored_tokens = build.chain.end();
  for (const PieceRow& row : rows)
    info.stored_bytes += row.location.bytes;
  return info;
}

// Blocking.
Result<SessionListing> ReadListing(const SessionContext& context, const std::string& tenant,
                                   const std::string& user, const std::string& after,
                                   size_t limit) {
  TENUTO_ASSIGN(auto page, context.log.ListSessions(tenant, user, after, limit));
  SessionListing listing;
  listing.more = page.more;
  for (SessionRow& row : page.sessions) {
    SessionInfo info;
    info.row = std::move(row);
    FillStored(context, info);
    listing.sessions.push_back(std::move(info));
  }
  return listing;
}

Result<TurnPage> NewestFirst(TokenLog& log, const SessionRow& row, const TurnPageRequest& wanted) {
  TurnPage page;
  const bool from_end = wanted.after.empty();
  const TurnId last = from_end ? row.head : TurnId{wanted.after};
  // One more tells whether there are more; the one that was seen comes along.
  TENUTO_ASSIGN(page.turns, log.ReadTurnsBack(row.id, last, wanted.limit + (from_end ? 1 : 2)));
  if (!from_end) page.turns.erase(page.turns.begin());
  page.more = page.turns.size() > wanted.limit;
  if (page.more) page.turns.pop_back();
  return page;
}

Result<TurnPage> OldestFirst(TokenLog& log, const SessionRow& row, const TurnPageRequest& wanted) {
  TENUTO_ASSIGN(auto line, log.ReadTurns(row.id, row.head));
  auto begin = line.begin();
  if (!wanted.after.empty()) {
    begin =
        std::ranges::find(line, wanted.after, [](const TurnRow& turn) { return turn.id.value; });
    if (begin == line.end())
      return Error(Code::kNotFound, "the session has no turn " + wanted.after).At("after");
    ++begin;
  }
  TurnPage page;
  const auto count = std::min(wanted.limit, static_cast<size_t>(line.end() - begin));
  page.turns.assign(std::move_iterator(begin),
                    std::move_iterator(begin + static_cast<std::ptrdiff_t>(count)));
  page.more = begin + static_cast<std::ptrdiff_t>(count) != line.end();
  return page;
}

// A turn that is gone supersedes nothing: then what it stood for holds again.
Status DropMarksOfDeleted(TokenLog& log, const SessionRow& row, TurnPage& page) {
  for (TurnMarks& marks : page.marks) {
    const bool here = std::ranges::find(page.turns, marks.turn, &TurnRow::id) != page.turns.end();
    if (!here || marks.superseded_by.empty()) continue;
    TENUTO_ASSIGN(const auto newer, log.ReadTurnsBack(row.id, marks.superseded_by, 1));
    if (newer.empty() || newer.front().deleted) marks.superseded_by = {};
  }
  return Ok();
}

Result<LinePage> ReadLinePage(TokenLog& log, const SessionKey& key, LineCursor from) {
  constexpr uint64_t kPageTurns = 32;  // a turn may have megabytes
  TENUTO_ASSIGN(const SessionRow row, log.FindSession(key));
  if (from.head.empty()) from = {row.head, row.turns, 1};
  LinePage page;
  page.next = from;
  if (from.line > from.turns) return page;
  const uint64_t last = std::min(from.turns, from.line + kPageTurns - 1);
  TurnId end = from.head;
  if (last < from.turns) {
    TENUTO_ASSIGN(const auto items, log.ReadItems(row.id, from.head, last, 1));
    if (items.empty()) return Error(Code::kCorrupt, "the session's line has a gap");
    end = items.front().id;
  }
  TENUTO_ASSIGN(page.turns, log.ReadTurnsBack(row.id, end, last - from.line + 1));
  std::ranges::reverse(page.turns);
  page.next.line = last + 1;
  page.more = last < from.turns;
  return page;
}

}  // namespace

void SessionManager::OverlayLive(SessionInfo& info) const {
  const auto it = sessions_.find(info.row.key.Full());
  if (it == sessions_.end()) return;
  const Session& session = *it->second;
  info.live_tokens = session.resident.live_end;
  info.running = session.busy;
}

void SessionManager::List(const std::string& tenant, const std::string& user,
                          const std::string& after, size_t limit,
                          std::function<void(Result<SessionListing>)> done) {
  AnswerFromPool(
      context_,
      [this, tenant, user, after, limit] {
        return ReadListing(context_, tenant, user, after, limit);
      },
      [this, done = std::move(done)](Result<SessionListing> listing) {
        if (listing.ok())
          for (SessionInfo& info : listing->sessions)
            OverlayLive(info);
        done(std::move(listing));
      });
}

void SessionManager::Get(const SessionKey& key, std::function<void(Result<SessionInfo>)> done) {
  AnswerFromPool(
      context_, [this, key] { return ReadInfo(context_, key); },
      [this, done = std::move(done)](Result<SessionInfo> info) {
        if (info.ok()) OverlayLive(*info);
        done(std::move(info));
      });
}

void SessionManager::GetTurns(const SessionKey& key, TurnPageRequest page,
                              std::function<void(Result<TurnPage>)> done) {
  AnswerFromPool(
      context_,
      [this, key, page = std::move(page)]() -> Result<TurnPage> {
        TENUTO_ASSIGN(const SessionRow row, context_.log.FindSession(key));
        TENUTO_ASSIGN(TurnPage found, page.newest_first ? NewestFirst(context_.log, row, page)
                                                        : OldestFirst(context_.log, row, page));
        TENUTO_ASSIGN(found.marks, context_.log.ReadTurnMarks(row.id));
        TENUTO_TRY(DropMarksOfDeleted(context_.log, row, found));
        return found;
      },
      std::move(done));
}

void SessionManager::ReadLine(const SessionKey& key, LineCursor from,
                              std::function<void(Result<LinePage>)> done) {
  AnswerFromPool(
      context_,
      [this, key, from = std::move(from)] { return ReadLinePage(context_.log, key, from); },
      std::move(done));
}

Error SessionManager::InUse(const SessionKey& key) {
  return {Code::kConflict,
          "session " + key.Short() + " has a turn in progress; try again after it"};
}

void SessionManager::Delete(const SessionKey& key, std::function<void(Status)> done) {
  DeleteIf(key, std::nullopt, std::move(done));
}

void SessionManager::DeleteIf(const SessionKey& key, std::optional<int64_t> unchanged_since,
                              std::function<void(Status)> done) {
  const SessionPtr session = FindOrAddSession(key);
  if (session->busy || session->deleting) {
    context_.core.Post([done = std::move(done), key] { done(InUse(key)); });
    return;
  }
  session->deleting = true;
  const auto erase = [this, session, unchanged_since, done = std::move(done)] {
    residency_.Evict(session->resident);
    residency_.Evict(session->spare);
    context_.pool.Post([this, session, unchanged_since, done] {
      const auto row = context_.log.FindSession(session->key);
      const int64_t id = row.ok() ? row->id : 0;
      const bool used = unchanged_since && row.ok() && row->updated_unix_ms != *unchanged_since;
      context_.core.Post([this, session, id, used, done] {
        if (used) return DeletedOn(session, InUse(session->key), done);
        context_.writer.DeleteSession(
            session->key, [this, session, id, done](Result<std::vector<PayloadFileId>> files) {
              if (files.ok()) RemoveIndex(id);
              DeletedOn(session, std::move(files), done);
            });
      });
    });
  };
  WhenQuiet(session, erase);
}

void SessionManager::RemoveIndex(int64_t session_id) {
  if (context_.indexes == nullptr || session_id == 0) return;
  context_.pool.Post([this, session_id] {
    if (const Status status = context_.indexes->Remove(session_id); !status)
      Log(LogLevel::kWarn, "recall.index_not_removed", {{"detail", status.error().message()}});
  });
}

// Runs `task` when no KV of the session is being stored or computed ahead.
void SessionManager::WhenQuiet(const SessionPtr& session, std::function<void()> task) {
  const bool ahead = cutting_ahead_ == session;
  if (ahead) context_.engine.Cancel(session->spare_run);
  if (session->settling || ahead) {
    session->after_settle.push_back(std::move(task));
  } else {
    task();
  }
}

void SessionManager::DeletedOn(const SessionPtr& session, Result<std::vector<PayloadFileId>> files,
                               const std::function<void(Status)>& done) {
  // Turns that came meanwhile start a session of the same name from nothing.
  session->deleting = false;
  if (files.ok()) {
    session->row.reset();
    session->window = SessionWindow{};
    session->chain = KvChain{};
    session->chain.end_digest = ChainStart(session->owner, context_.engine.info().fingerprint);
    session->stale_rows.clear();
    session->lost.clear();
    session->file = PayloadFileId{};
    tenant_quota_.Forget(session->key.tenant);
    Log(LogLevel::kInfo, "session.deleted", {{"session", session->key.Full()}});
    RemoveFiles(std::move(*files));
  }
  session->loaded = false;
  const bool failed = !files.ok() && files.error().code() != Code::kNotFound;
  if (files.ok() || failed) {
    done(files.ok() ? Ok() : Status(std::move(files).error()));
  } else {
    done(Error(Code::kNotFound, "there is no session " + session->key.Short()));
  }
  if (session->waiting.empty()) {
    if (!session->busy) sessions_.erase(session->key.Full());
    return;
  }
  ReleaseLease(session);
}

bool SessionManager::CheckIdle() const {
  if (!residency_.CheckConsistent() || settling_ != 0) return false;
  for (const auto& [name, session] : sessions_) {
    const Resident& resident = session->resident;
    if (session->busy || session->settling || !session->waiting.empty() || resident.pins != 0)
      return false;
    if (resident.live_end > session->window.size()) return false;
    if (session->spare.pins != 0 || session->spare.live_end > session->spare_window.size())
      return false;
    if (session->chain.end() > session->window.size()) return false;
  }
  return std::all_of(anonymous_.begin(), anonymous_.end(), [](const AnonymousPtr& held) {
    return held->resident.pins == 0 && held->resident.live() &&
           held->resident.live_end <= static_cast<TokenPos>(held->tokens.size());
  });
}

}  // namespace tenuto
