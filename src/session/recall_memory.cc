#include "session/recall_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tenuto {
namespace {

constexpr size_t kHitsRead = 12;          // best hits whose text is looked at
constexpr size_t kIndexPageTurns = 1024;  // read from the log at once
constexpr uint32_t kQuoteWordsMax = 200;  // of what the user said in one turn
constexpr uint32_t kQuoteWordsMin = 24;
constexpr uint32_t kOtherSideShare = 3;  // of these for the side that was not asked for
constexpr int64_t kMsPerS = 1000;

Moment MomentOf(int64_t unix_ms) {
  return {unix_ms / kMsPerS, 0};
}

void AddTurn(RecallIndex& index, Analyser& analyser, const ItemsRow& row, const ArchivedText& text,
             const RecallRecord& record) {
  std::vector<uint32_t> recalled;
  for (const RecallQuote& quote : record.quotes)
    recalled.push_back(static_cast<uint32_t>(quote.line));
  index.Add(analyser, {.turn = static_cast<uint32_t>(row.line),
                       .time = MomentOf(text.unix_ms),
                       .user = text.user,
                       .answer = text.answer,
                       .tool = text.tool,
                       .name = text.name,
                       .recalled = recalled});
}

// Reads the turns of hits, cuts them to size and puts them together.
class Quoter {
 public:
  Quoter(TokenLog& log, const TokenizeText& tokenize, const RecallQuestion& question,
         const Ranking& ranking, std::map<uint32_t, TurnId> ids)
      : log_(log), tokenize_(tokenize), question_(question), ids_(std::move(ids)) {
    // Words for what was asked for, fewer for the other side; a tight budget quotes less of each.
    const auto words = std::clamp(static_cast<uint32_t>(std::max(0, question.tokens_max)) / 2,
                                  kQuoteWordsMin, kQuoteWordsMax);
    user_words_ = ranking.cues.asks_assistant ? words / kOtherSideShare : words;
    answer_words_ = ranking.cues.asks_assistant ? words : words / kOtherSideShare;
  }

  // nullptr: deleted, or not to be read.
  const QuotedTurn* Read(uint32_t line, std::span<const std::string> terms) {
    if (const auto known = turns_.find(line); known != turns_.end()) return &known->second;
    const auto rows = log_.ReadItems(question_.row.id, question_.row.head, line, 1);
    if (!rows.ok() || rows->empty() || rows->front().deleted || rows->front().line != line)
      return nullptr;
    auto text = ArchivedTextOf(rows->front());
    if (!text.ok()) return nullptr;
    QuotedTurn turn;
    turn.quote = {rows->front().id, line, ChooseExcerpt(text->user, terms, user_words_),
                  ChooseExcerpt(text->answer, terms, answer_words_)};
    turn.text = std::move(*text);
    return &turns_.emplace(line, std::move(turn)).first->second;
  }

  // Nothing: deleted, or not to be read.
  std::optional<TurnId> IdOf(const RecallHit& hit) {
    if (const auto known = ids_.find(hit.turn); known != ids_.end()) return known->second;
    const QuotedTurn* turn = Read(hit.turn, hit.terms);
    return turn == nullptr ? std::nullopt : std::optional(turn->quote.turn);
  }

  // What of the hits goes into the prompt; those that are gone leave the ranking. Most are held
  // back whatever they cost, and are not read: a long session's pages are many and cold.
  GateResult Decide(Ranking& ranking, GateSettings gate) {
    std::erase_if(ranking.hits, [&](const RecallHit& hit) { return !IdOf(hit); });
    gate.tokens_max = UINT32_MAX;
    GateResult result = ApplyGate(ranking, gate);
    if (result.injected.empty()) return result;
    if (!Weigh(ranking, result)) {
      ids_.clear();
      return Decide(ranking, gate);
    }
    const RecallHit& first = ranking.hits.front();
    const auto best = std::span(Read(first.turn, first.terms), 1);
    const int32_t frame =
        Tokens(SpanText(std::string(8, '0'), best)) - static_cast<int32_t>(first.tokens);
    gate.tokens_max = static_cast<uint32_t>(std::max(0, question_.tokens_max - frame));
    return ApplyGate(ranking, gate);
  }

  int32_t Tokens(const std::string& text) const {
    const auto tokens = tokenize_(text, false, false);
    return tokens.ok() ? static_cast<int32_t>(tokens->size()) : question_.tokens_max + 1;
  }

  // In the order of time, in a frame whose mark neither these nor the message hold.
  void Compose(const std::set<uint32_t>& lines, RecallChoice& choice) const {
    std::vector<QuotedTurn> turns;
    std::vector<std::string_view> texts = {question_.message};
    choice.quotes.clear();
    choice.span.lines.clear();
    for (const uint32_t line : lines) {
      const QuotedTurn& turn = turns_.at(line);
      turns.push_back(turn);
      texts.insert(texts.end(), {turn.text.user, turn.text.answer, turn.text.name});
      choice.quotes.push_back(turn.quote);
      choice.span.lines.push_back(line);
    }
    choice.mark = question_.mark;
    if (choice.mark.empty() || AnyHolds(texts, choice.mark))
      choice.mark = ChooseMark(FirstTurn(), texts);
    const std::string text = SpanText(choice.mark, turns);
    choice.digest = SpanDigest(text);
    choice.span.tokens.clear();
    auto tokens = tokenize_(text, false, false);
    if (tokens.ok()) choice.span.tokens = std::move(*tokens);
  }

 private:
  // What it costs to quote each hit that may be quoted, the best one in any case. `result`: of a
  // gate that knew no costs. False: one of them is gone.
  bool Weigh(Ranking& ranking, const GateResult& result) {
    std::set<uint32_t> lines = {ranking.hits.front().turn};
    for (const RecallVerdict& verdict : result.verdicts) {
      if (!verdict.injected && verdict.why != RecallWhy::kOverLimit) continue;
      lines.insert(verdict.hit.turn);
      lines.insert(verdict.hit.with.begin(), verdict.hit.with.end());
    }
    for (RecallHit& hit : ranking.hits) {
      if (!lines.contains(hit.turn)) continue;
      const QuotedTurn* turn = Read(hit.turn, hit.terms);
      if (turn == nullptr) return false;
      hit.tokens = static_cast<uint32_t>(Tokens(QuoteText(*turn)));
    }
    return true;
  }

  // What a mark is made of. Of the log, so that the same log quotes in the same frames (INV-8), and
  // random: whoever wrote a text that is quoted one day can't have known it.
  std::string FirstTurn() const {
    const auto first = log_.ReadItems(question_.row.id, question_.row.head, 1, 1);
    return first.ok() && !first->empty() ? first->front().id.value : "";
  }

  TokenLog& log_;
  const TokenizeText& tokenize_;
  const RecallQuestion& question_;
  std::map<uint32_t, TurnId> ids_;  // by line, of turns that need not be read to be named
  uint32_t user_words_ = 0;
  uint32_t answer_words_ = 0;
  std::map<uint32_t, QuotedTurn> turns_;
};

// The gate counted tokens turn by turn; what counts is the whole. The worst hits go, with what came
// along for them, until it fits: an old fact is never left without the newest.
void FitBudget(Quoter& quoter, const Ranking& ranking, GateResult& result,
               const RecallQuestion& question, RecallChoice& choice) {
  std::vector<size_t> bases;  // verdicts that stand for themselves, best first
  for (size_t i = 0; i < result.verdicts.size(); ++i) {
    const RecallVerdict& verdict = result.verdicts[i];
    if (verdict.injected && verdict.why != RecallWhy::kCorrection) bases.push_back(i);
  }
  const auto lines_of = [&] {
    std::set<uint32_t> lines;
    for (const size_t base : bases) {
      const RecallHit& hit = ranking.hits[base];
      lines.insert(hit.turn);
      for (const uint32_t with : hit.with)
        if (quoter.Read(with, hit.terms) != nullptr) lines.insert(with);
    }
    return lines;
  };
  std::set<uint32_t> lines = lines_of();
  quoter.Compose(lines, choice);
  while (!bases.empty() && static_cast<int32_t>(choice.span.tokens.size()) > question.tokens_max) {
    result.verdicts[bases.back()].why = RecallWhy::kOverBudget;
    bases.pop_back();
    lines = lines_of();
    quoter.Compose(lines, choice);
  }
  for (RecallVerdict& verdict : result.verdicts)
    verdict.injected = lines.contains(verdict.hit.turn);
  if (lines.empty()) choice.mark = question.mark;
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

Result<RecallMemory::Ranked> RecallMemory::Rank(const RecallQuestion& question, size_t hits_max) {
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
                                    .time = MomentOf(question.now_unix_ms),
                                    .last_user = last.user,
                                    .last_answer = last.answer});
    ranked.ranking = tools->scorer.Rank(entry->index, query, question.scope, hits_max);
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
  if (question.scope.candidates.empty()) return choice;
  TENUTO_ASSIGN(Ranked ranked, Rank(question, kHitsRead));
  choice.outcome.indexed_now = ranked.indexed_now;
  Ranking& ranking = ranked.ranking;
  for (RecallHit& hit : ranking.hits)
    if (const auto newer = question.superseded.find(hit.turn); newer != question.superseded.end())
      hit.with.push_back(static_cast<uint32_t>(newer->second));
  Quoter quoter(log_, tokenize_, question, ranking, std::move(ranked.ids));
  GateSettings gate;
  gate.hits_max = settings_.hits_max;
  gate.force = question.forced;
  GateResult result = quoter.Decide(ranking, gate);
  if (!result.injected.empty()) FitBudget(quoter, ranking, result, question, choice);
  for (const RecallVerdict& verdict : result.verdicts) {
    const std::optional<TurnId> id = quoter.IdOf(verdict.hit);
    if (!id) continue;
    choice.budget_short |= verdict.why == RecallWhy::kOverBudget;
    if (choice.outcome.candidates.size() < kRecallCandidatesMax)
      choice.outcome.candidates.push_back({*id, verdict.hit.score, verdict.hit.terms,
                                           verdict.injected,
                                           std::string(RecallWhyName(verdict.why))});
  }
  if (ranking.hits.empty()) return choice;
  choice.outcome.decision = choice.span.tokens.empty() ? "gated" : "injected";
  choice.outcome.tokens = static_cast<int32_t>(choice.span.tokens.size());
  return choice;
}

Result<MemoryAnswer> RecallMemory::Search(const SessionRow& row, const Digest256& owner,
                                          const std::string& query, int64_t now_unix_ms,
                                          size_t limit) {
  MemoryAnswer answer;
  answer.decision = "empty";
  RecallQuestion question;
  question.row = row;
  question.owner = owner;
  question.message = query;
  question.now_unix_ms = now_unix_ms;
  question.in_conversation = false;
  question.scope.candidates = {{1, static_cast<uint32_t>(row.turns) + 1}};
  TENUTO_ASSIGN(const Ranked ranked, Rank(question, limit));
  const GateResult gate = ApplyGate(ranked.ranking, {});
  for (const RecallHit& hit : ranked.ranking.hits) {
    TENUTO_ASSIGN(const auto rows, log_.ReadItems(row.id, row.head, hit.turn, 1));
    if (rows.empty() || rows.front().deleted) continue;
    TENUTO_ASSIGN(const ArchivedText text, ArchivedTextOf(rows.front()));
    MemoryHit found{row.key,   rows.front().id, text.client_id,      hit.score,
                    hit.terms, text.unix_ms,    "user: " + text.user};
    if (!text.answer.empty()) found.text += "\nassistant: " + text.answer;
    answer.hits.push_back(std::move(found));
  }
  if (!answer.hits.empty())
    answer.decision = gate.decision == RecallDecision::kInjected ? "injected" : "gated";
  return answer;
}

}  // namespace tenuto
