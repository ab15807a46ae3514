#include "session/recall_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "recall/newer.h"
#include "session/quoter.h"

namespace tenuto {
namespace {

constexpr size_t kHitsRead = 12;          // best hits whose text is looked at
constexpr size_t kPresentHitsMax = 3;     // that are named though the prompt has them
constexpr size_t kIndexPageTurns = 1024;  // read from the log at once
constexpr uint32_t kFoundWordsMax = 200;  // of each side of a turn that a search found
constexpr int64_t kMsPerS = 1000;

Moment MomentOf(int64_t unix_ms, int32_t zone_s) {
  return {unix_ms / kMsPerS, zone_s};
}

void AddTurn(RecallIndex& index, Analyser& analyser, const ItemsRow& row, const ArchivedText& text,
             const RecallRecord& record) {
  std::vector<uint32_t> recalled;
  for (const RecallQuote& quote : record.quotes)
    recalled.push_back(static_cast<uint32_t>(quote.line));
  index.Add(analyser, {.turn = static_cast<uint32_t>(row.line),
                       .time = MomentOf(text.unix_ms, text.zone_s),
                       .user = text.user,
                       .answer = text.answer,
                       .tool = text.tool,
                       .name = text.name,
                       .recalled = recalled});
}

bool Has(std::span<const TurnRange> ranges, uint64_t line) {
  return std::ranges::any_of(
      ranges, [&](const TurnRange& range) { return range.begin <= line && line < range.end; });
}

// The turn that must come along with this one since a client says that it holds instead: the newest
// of those that hold instead of one another, of which none is in the prompt as it is. 0: none.
uint32_t NewestInstead(const RecallQuestion& question, uint64_t line) {
  std::vector<uint64_t> chain;
  auto newer = question.superseded.find(line);
  // Later turns only: what an older version let in may be a loop.
  while (newer != question.superseded.end() && newer->second > newer->first) {
    chain.push_back(newer->second);
    newer = question.superseded.find(newer->second);
  }
  for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
    if (Has(question.scope.window, *at)) return 0;
    if (Has(question.scope.candidates, *at)) return static_cast<uint32_t>(*at);
  }
  return 0;
}

// Which hits are the newest of several that say the same: the ranking has only these.
std::map<uint32_t, uint32_t> NewestOf(const RecallIndex& index, const RecallQuestion& question,
                                      const Ranking& ranking) {
  struct Same {
    uint32_t hit = 0;
    uint32_t newest = 0;
    uint32_t turns = 0;
  };
  std::map<uint32_t, Same> by_digest;
  uint64_t seen = 0;  // a bit for some of each digest: all turns are looked at
  for (const RecallHit& hit : ranking.hits) {
    const int64_t at = index.TurnAt(hit.turn);
    if (at < 0) continue;
    const TurnInfo& info = index.turns()[static_cast<size_t>(at)];
    if (index.passages()[info.first_passage].user_tokens == 0) continue;
    by_digest.try_emplace(info.user_digest, Same{hit.turn, 0, 0});
    seen |= uint64_t{1} << info.user_digest % 64;
  }
  for (const TurnInfo& info : index.turns()) {
    if ((seen >> info.user_digest % 64 & 1) == 0) continue;
    const auto same = by_digest.find(info.user_digest);
    if (same == by_digest.end() || !Has(question.scope.candidates, info.turn)) continue;
    same->second.newest = info.turn;
    ++same->second.turns;
  }
  std::map<uint32_t, uint32_t> newest_of;
  for (const auto& [digest, same] : by_digest)
    if (same.turns > 1 && same.newest == same.hit) newest_of.emplace(same.hit, same.turns);
  return newest_of;
}

TextRange FoundPart(const std::string& text, std::span<const std::string> terms) {
  if (text.size() <= kFoundWordsMax) return {0, static_cast<uint32_t>(text.size())};
  return ChooseExcerpt(text, terms, kFoundWordsMax);
}

bool IsPart(const std::string& text, TextRange range) {
  return range.begin > 0 || range.end < text.size();
}

}  // namespace

RecallMemory::RecallMemory(TokenLog& log, IndexCache& indexes, TokenizeText tokenize,
                           const RecallSettings& settings)
    : log_(log), indexes_(indexes), tokenize_(std::move(tokenize)), settings_(settings) {}

// Turns that the index does not have yet. An index of another line, as after a branch, is built
// anew.
Result<uint64_t> RecallMemory::BringUp(IndexedSession& entry, Analyser& analyser,
                                       const SessionRow& row) {
  if (entry.lines == row.turns && entry.last_turn == row.head) return uint64_t{0};
  // Ahead: turns were committed since `row` was read, and tasks of the pool overtake each other.
  // What is asked for is bounded by the scope.
  if (entry.lines > row.turns) return uint64_t{0};
  if (entry.lines == row.turns) entry.Clear();
  uint64_t added = 0;
  while (entry.lines < row.turns) {
    // The newest turn that is in the index comes along, to see that it is still of this line.
    const uint64_t first = std::max<uint64_t>(1, entry.lines);
    TENUTO_ASSIGN(const auto rows, log_.ReadItems(row.id, row.head, first, kIndexPageTurns));
    if (rows.empty() || rows.back().line <= entry.lines) break;
    if (entry.lines > 0 && rows.front().id != entry.last_turn) {
      entry.Clear();
      continue;
    }
    for (const ItemsRow& turn : rows) {
      if (turn.line <= entry.lines) continue;
      if (!turn.deleted) {
        TENUTO_ASSIGN(const ArchivedText text, ArchivedTextOf(turn));
        TENUTO_ASSIGN(const RecallRecord record, RecordFromJson(turn.recall_json));
        AddTurn(entry.index, analyser, turn, text, record);
      }
      entry.lines = turn.line;
      entry.last_turn = turn.id;
      entry.ids.Add(turn.line, turn.id);
      ++added;
    }
  }
  return added;
}

Status RecallMemory::CatchUp(const SessionRow& row, const Digest256& owner) {
  const auto entry = indexes_.Get(row.id, owner);
  const auto tools = indexes_.Tools();
  {
    const MutexLock lock(entry->mutex);
    TENUTO_TRY(BringUp(*entry, tools->analyser, row));
  }
  indexes_.Used(*entry);
  indexes_.WriteDue();
  return Ok();
}

// The turn before the message.
Result<ArchivedText> RecallMemory::LastText(const SessionRow& row) {
  TENUTO_ASSIGN(const auto rows, log_.ReadItems(row.id, row.head, row.turns, 1));
  if (rows.empty() || rows.front().deleted) return ArchivedText();
  return ArchivedTextOf(rows.front());
}

GateSettings RecallMemory::GateFor(const RecallQuestion& question) const {
  GateSettings gate;
  gate.hits_max = settings_.hits_max;
  gate.force = question.forced;
  return gate;
}

// What is likely to be quoted brings along what was said later on the same matter, unless the
// window has it, and says whether it is the newest of several. Most messages want nothing quoted,
// and a look at all turns would be a good part of what they cost in a long session.
Status RecallMemory::Complete(const IndexedSession& entry, Analyser& analyser,
                              const RecallQuestion& question, Ranked& ranked) {
  const GateResult likely = ApplyGate(ranked.ranking, GateFor(question));
  if (likely.injected.empty()) return Ok();
  ranked.newest_of = NewestOf(entry.index, question, ranked.ranking);
  for (RecallHit& hit : ranked.ranking.hits) {
    if (!std::ranges::binary_search(likely.injected, hit.turn)) continue;
    TENUTO_ASSIGN(const auto rows, log_.ReadItems(question.row.id, question.row.head, hit.turn, 1));
    if (rows.empty() || rows.front().deleted) continue;
    TENUTO_ASSIGN(const ArchivedText text, ArchivedTextOf(rows.front()));
    const OlderTurn older = {hit.turn, MomentOf(text.unix_ms, text.zone_s), text.user};
    AddLater(analyser, entry.index, question.scope.candidates, older, hit);
  }
  return Ok();
}

Result<RecallMemory::Ranked> RecallMemory::Rank(const RecallQuestion& question,
                                                const RankFor& what) {
  const auto entry = indexes_.Get(question.row.id, question.owner);
  const auto tools = indexes_.Tools();
  Ranked ranked;
  {
    const MutexLock lock(entry->mutex);
    TENUTO_ASSIGN(ranked.indexed_now, BringUp(*entry, tools->analyser, question.row));
    ArchivedText last;
    if (question.in_conversation) {
      TENUTO_ASSIGN(last, LastText(question.row));
    }
    const Query query = BuildQuery(tools->analyser, entry->index,
                                   {.text = question.message,
                                    .time = MomentOf(question.now_unix_ms, question.zone_s),
                                    .last_user = last.user,
                                    .last_answer = last.answer});
    ranked.ranking = tools->scorer.Rank(entry->index, query, question.scope, what.hits_max);
    if (what.to_quote) TENUTO_TRY(Complete(*entry, tools->analyser, question, ranked));
    for (const RecallHit& hit : ranked.ranking.hits)
      if (auto id = entry->ids.Find(hit.turn)) ranked.ids.emplace(hit.turn, std::move(*id));
  }
  indexes_.Used(*entry);
  return ranked;
}

Result<RecallChoice> RecallMemory::Choose(const RecallQuestion& question) {
  RecallChoice choice;
  choice.mark = question.mark;
  choice.outcome.decision = "empty";
  if (!question.scope.candidates.empty()) TENUTO_TRY(ChooseArchived(question, choice));
  if (!question.present.empty()) TENUTO_TRY(NamePresent(question, choice));
  return choice;
}

Status RecallMemory::NamePresent(const RecallQuestion& question, RecallChoice& choice) {
  RecallQuestion asked = question;
  asked.scope = {question.present, {}};
  TENUTO_ASSIGN(const Ranked ranked, Rank(asked, {kPresentHitsMax, false}));
  choice.outcome.indexed_now += ranked.indexed_now;
  GateSettings gate;
  gate.force = question.forced;
  gate.tokens_max = UINT32_MAX;
  for (const RecallVerdict& verdict : ApplyGate(ranked.ranking, gate).verdicts) {
    const auto id = ranked.ids.find(verdict.hit.turn);
    if (!verdict.injected || id == ranked.ids.end()) continue;
    if (choice.outcome.candidates.size() >= kRecallCandidatesMax) break;
    choice.outcome.candidates.push_back({id->second, verdict.hit.score, verdict.hit.terms, false,
                                         std::string(RecallWhyName(RecallWhy::kInWindow))});
    if (choice.outcome.decision == "empty") choice.outcome.decision = "gated";
  }
  return Ok();
}

Status RecallMemory::ChooseArchived(const RecallQuestion& question, RecallChoice& choice) {
  TENUTO_ASSIGN(Ranked ranked, Rank(question, {kHitsRead, true}));
  choice.outcome.indexed_now = ranked.indexed_now;
  Ranking& ranking = ranked.ranking;
  for (RecallHit& hit : ranking.hits) {
    if (const uint32_t newest = NewestInstead(question, hit.turn); newest > 0)
      hit.with.push_back(newest);
    const size_t closest = hit.also.size();
    for (size_t i = 0; i < closest; ++i)
      if (const uint32_t newest = NewestInstead(question, hit.also[i]); newest > 0)
        hit.also.push_back(newest);
  }
  Quoter quoter(log_, tokenize_, question, ranking, std::move(ranked.ids));
  const GateSettings gate = GateFor(question);
  GateResult result = quoter.Decide(ranking, gate);
  if (!result.injected.empty()) FitQuotes(quoter, ranking, gate, result, choice);
  for (const RecallVerdict& verdict : result.verdicts) {
    const std::optional<TurnId> id = quoter.IdOf(verdict.hit);
    if (!id) continue;
    if (choice.outcome.candidates.size() >= kRecallCandidatesMax) break;
    const auto newest = ranked.newest_of.find(verdict.hit.turn);
    choice.outcome.candidates.push_back({*id, verdict.hit.score, verdict.hit.terms,
                                         verdict.injected, std::string(RecallWhyName(verdict.why)),
                                         newest == ranked.newest_of.end() ? 1 : newest->second});
  }
  if (ranking.hits.empty()) return Ok();
  choice.outcome.decision = choice.span.tokens.empty() ? "gated" : "injected";
  choice.outcome.tokens = static_cast<int32_t>(choice.span.tokens.size());
  return Ok();
}

Result<MemoryAnswer> RecallMemory::Search(const SessionRow& row, const Digest256& owner,
                                          const MemorySearch& search, int64_t now_unix_ms,
                                          int32_t zone_s) {
  MemoryAnswer answer;
  answer.decision = "empty";
  RecallQuestion question;
  question.row = row;
  question.owner = owner;
  question.message = search.query;
  question.now_unix_ms = now_unix_ms;
  question.zone_s = zone_s;
  question.in_conversation = false;
  question.scope.candidates = {{1, static_cast<uint32_t>(row.turns) + 1}};
  TENUTO_ASSIGN(const Ranked ranked, Rank(question, {search.limit, false}));
  const GateResult gate = ApplyGate(ranked.ranking, {});
  for (const RecallHit& hit : ranked.ranking.hits) {
    TENUTO_ASSIGN(const auto rows, log_.ReadItems(row.id, row.head, hit.turn, 1));
    if (rows.empty() || rows.front().deleted) continue;
    TENUTO_ASSIGN(const ArchivedText text, ArchivedTextOf(rows.front()));
    const TextRange user = FoundPart(text.user, hit.terms);
    const TextRange tool = FoundPart(text.tool, hit.terms);
    const TextRange said = FoundPart(text.answer, hit.terms);
    MemoryHit found{row.key,
                    rows.front().id,
                    text.client_id,
                    hit.score,
                    hit.terms,
                    text.unix_ms,
                    "user: " + PartText(text.user, user)};
    if (!text.tool.empty()) found.text += "\ntool: " + PartText(text.tool, tool);
    if (!text.answer.empty()) found.text += "\nassistant: " + PartText(text.answer, said);
    found.excerpt = IsPart(text.user, user) || IsPart(text.tool, tool) || IsPart(text.answer, said);
    answer.hits.push_back(std::move(found));
  }
  if (!answer.hits.empty())
    answer.decision = gate.decision == RecallDecision::kInjected ? "injected" : "gated";
  return answer;
}

}  // namespace tenuto
