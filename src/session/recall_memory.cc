#include "session/recall_memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "recall/lex.h"
#include "recall/newer.h"

namespace tenuto {
namespace {

constexpr size_t kHitsRead = 12;           // best hits whose text is looked at
constexpr size_t kIndexPageTurns = 1024;   // read from the log at once
constexpr uint32_t kQuoteWordsMax = 200;   // of what the user said in one turn
constexpr uint32_t kQuoteWordsStart = 24;  // of them in the tightest budget, unless it is too tight
constexpr uint32_t kQuoteWordsMin = 12;    // with fewer a turn is not quoted
constexpr uint32_t kOtherSideShare = 3;    // of these for the side that was not asked for
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

// Whether this part of the text has one of the terms, which are stems.
bool HoldsAny(std::string_view text, TextRange range, std::span<const std::string> terms) {
  const std::string folded = FoldCase(text.substr(range.begin, range.end - range.begin));
  return std::ranges::any_of(terms, [&](const std::string& term) {
    return !term.empty() && folded.find(term) != std::string::npos;
  });
}

// Of what is quoted already, at most so many words.
TextRange Shorter(std::string_view text, TextRange range, std::span<const std::string> terms,
                  uint32_t words) {
  const std::string_view part = text.substr(range.begin, range.end - range.begin);
  const TextRange kept = ChooseExcerpt(part, terms, words);
  return {range.begin + kept.begin, range.begin + kept.end};
}

// Reads the turns of hits, cuts them to size and puts them together.
class Quoter {
 public:
  Quoter(TokenLog& log, const TokenizeText& tokenize, const RecallQuestion& question,
         const Ranking& ranking, std::map<uint32_t, TurnId> ids)
      : log_(log),
        tokenize_(tokenize),
        question_(question),
        ids_(std::move(ids)),
        // Fewer in a tight budget.
        words_(std::clamp(static_cast<uint32_t>(std::max(0, question.tokens_max)) / 2,
                          kQuoteWordsStart, kQuoteWordsMax)),
        asks_assistant_(ranking.cues.asks_assistant) {}

  // nullptr: deleted, or not to be read.
  const QuotedTurn* Read(uint32_t line, std::span<const std::string> terms) {
    if (const auto known = turns_.find(line); known != turns_.end()) return &known->second.turn;
    const auto rows = log_.ReadItems(question_.row.id, question_.row.head, line, 1);
    if (!rows.ok() || rows->empty() || rows->front().deleted || rows->front().line != line)
      return nullptr;
    auto text = ArchivedTextOf(rows->front());
    if (!text.ok()) return nullptr;
    Sized sized;
    sized.user = ChooseExcerpt(text->user, terms, asks_assistant_ ? OtherWords() : words_);
    sized.answer = ChooseExcerpt(text->answer, terms, asks_assistant_ ? words_ : OtherWords());
    sized.turn.quote = {rows->front().id, line, sized.user, sized.answer};
    sized.turn.text = std::move(*text);
    sized.terms.assign(terms.begin(), terms.end());
    return &turns_.emplace(line, std::move(sized)).first->second.turn;
  }

  // Nothing: deleted, or not to be read.
  std::optional<TurnId> IdOf(const RecallHit& hit) {
    if (const auto known = ids_.find(hit.turn); known != ids_.end()) return known->second;
    const QuotedTurn* turn = Read(hit.turn, hit.terms);
    return turn == nullptr ? std::nullopt : std::optional(turn->quote.turn);
  }

  // What of the hits the gate lets through, whatever it costs; those that are gone leave the
  // ranking. Those that are held back are not read: a long session's pages are many and cold.
  GateResult Decide(Ranking& ranking, GateSettings gate) {
    std::erase_if(ranking.hits, [&](const RecallHit& hit) { return !IdOf(hit); });
    gate.tokens_max = UINT32_MAX;
    GateResult result = ApplyGate(ranking, gate);
    const auto gone = [&](const RecallHit& hit) {
      return std::ranges::find(result.injected, hit.turn) != result.injected.end() &&
             Read(hit.turn, hit.terms) == nullptr;
    };
    if (!std::ranges::any_of(ranking.hits, gone)) return result;
    ids_.clear();
    return Decide(ranking, gate);
  }

  // How much of a turn that was read is quoted: all that may be, with 0; then step by step less of
  // the side that was not asked for, then fewer words around the matches. False: there is no
  // shorter one.
  bool Resize(uint32_t line, uint32_t step) {
    Sized& sized = turns_.at(line);
    RecallQuote& quote = sized.turn.quote;
    quote.user = sized.user;
    quote.answer = sized.answer;
    if (step == 0) return true;
    const bool answer = KeepsAnswer(sized);
    const std::string& kept_text = answer ? sized.turn.text.answer : sized.turn.text.user;
    const std::string& other_text = answer ? sized.turn.text.user : sized.turn.text.answer;
    TextRange& kept = answer ? quote.answer : quote.user;
    TextRange& other = answer ? quote.user : quote.answer;
    if (step == 1) {
      other = Shorter(other_text, other, sized.terms, OtherWords() / 2);
      return true;
    }
    other = {};
    if (!sized.kept) sized.kept = ChooseExcerpt(kept_text, sized.terms, words_);
    kept = *sized.kept;
    uint32_t words = words_;
    for (uint32_t i = kAsksLess; i < step && words >= kQuoteWordsMin; ++i)
      words = words * 3 / 4;
    if (step > kAsksLess) kept = Shorter(kept_text, kept, sized.terms, words);
    return words >= kQuoteWordsMin;
  }
  // The last step of Resize that leaves alone what was asked for.
  static constexpr uint32_t kAsksLess = 2;

  // In the order of time, in a frame whose mark neither these nor the message hold. False: that is
  // too long.
  bool Compose(const std::set<uint32_t>& lines, RecallChoice& choice) {
    std::vector<QuotedTurn> turns;
    std::vector<std::string_view> texts = {question_.message};
    choice.quotes.clear();
    choice.span = {};
    for (const uint32_t line : lines) {
      const QuotedTurn& turn = turns_.at(line).turn;
      turns.push_back(turn);
      texts.insert(texts.end(), {turn.text.user, turn.text.answer, turn.text.name});
      choice.quotes.push_back(turn.quote);
      choice.span.lines.push_back(line);
    }
    choice.mark = question_.mark;
    if (lines.empty()) return true;
    if (choice.mark.empty() || AnyHolds(texts, choice.mark))
      choice.mark = ChooseMark(FirstTurn(), texts);
    const std::string text = SpanText(choice.mark, turns);
    choice.digest = SpanDigest(text);
    auto tokens = tokenize_(text, false, false);
    if (!tokens.ok()) return false;
    choice.span.tokens = std::move(*tokens);
    return static_cast<int32_t>(choice.span.tokens.size()) <= question_.tokens_max;
  }

 private:
  struct Sized {
    QuotedTurn turn;
    TextRange user, answer;         // the most that is quoted of each
    std::optional<TextRange> kept;  // the most of the side that is kept when the other goes
    std::vector<std::string> terms;
    std::optional<bool> keeps_answer;
  };

  uint32_t OtherWords() const { return words_ / kOtherSideShare; }

  // The side that is shortened last: what was asked for, unless only the other matches.
  bool KeepsAnswer(Sized& sized) const {
    if (sized.keeps_answer) return *sized.keeps_answer;
    const ArchivedText& text = sized.turn.text;
    const bool user = HoldsAny(text.user, sized.user, sized.terms);
    const bool answer = HoldsAny(text.answer, sized.answer, sized.terms);
    sized.keeps_answer = asks_assistant_ ? !text.answer.empty() && (answer || !user)
                                         : text.user.empty() || (answer && !user);
    return *sized.keeps_answer;
  }

  // What a mark is made of. Of the log, so that the same log quotes in the same frames (INV-8), and
  // random: whoever wrote a text that is quoted one day can't have known it.
  const std::string& FirstTurn() {
    if (!first_turn_) {
      const auto first = log_.ReadItems(question_.row.id, question_.row.head, 1, 1);
      first_turn_ = first.ok() && !first->empty() ? first->front().id.value : "";
    }
    return *first_turn_;
  }

  TokenLog& log_;
  const TokenizeText& tokenize_;
  const RecallQuestion& question_;
  std::map<uint32_t, TurnId> ids_;  // by line, of turns that need not be read to be named
  const uint32_t words_;            // of what was asked for; fewer of the other side
  const bool asks_assistant_;
  std::map<uint32_t, Sized> turns_;
  std::optional<std::string> first_turn_;
};

// Quotes what the gate let through, the best first, each with what must come along: an old fact is
// never left without the newest. What does not fit beside the better ones is shortened.
class Fitting {
 public:
  Fitting(Quoter& quoter, const Ranking& ranking, RecallChoice& choice)
      : quoter_(quoter), ranking_(ranking), choice_(choice) {}

  void Run(const GateSettings& gate, GateResult& result) {
    uint32_t placed = 0;
    for (size_t i = 0; i < ranking_.hits.size(); ++i) {
      RecallVerdict& verdict = result.verdicts[i];
      if (!StandsForItself(verdict, gate) || lines_.contains(verdict.hit.turn)) continue;
      if (placed >= gate.hits_max) continue;  // the gate has said so
      verdict.why = gate.force ? RecallWhy::kForced : RecallWhy::kMatches;
      if (Place(ranking_.hits[i])) ++placed;
    }
    for (RecallVerdict& verdict : result.verdicts) {
      verdict.injected = lines_.contains(verdict.hit.turn);
      const bool itself = verdict.why == RecallWhy::kMatches || verdict.why == RecallWhy::kForced;
      if (verdict.injected && !itself) verdict.why = RecallWhy::kCorrection;
      if (!verdict.injected && (itself || verdict.why == RecallWhy::kCorrection)) {
        verdict.why = RecallWhy::kOverBudget;
        choice_.budget_short = true;
      }
    }
  }

 private:
  // The gate counted none that was brought along, and no tokens.
  static bool StandsForItself(const RecallVerdict& verdict, const GateSettings& gate) {
    switch (verdict.why) {
      case RecallWhy::kMatches:
      case RecallWhy::kForced:
      case RecallWhy::kOverLimit:
        return true;
      case RecallWhy::kCorrection:
        return gate.force;
      default:
        return false;
    }
  }

  void Gather(const RecallHit& hit, std::set<uint32_t>& group) {
    for (const uint32_t with : hit.with) {
      if (group.contains(with) || quoter_.Read(with, hit.terms) == nullptr) continue;
      group.insert(with);
      const auto found = std::ranges::find(ranking_.hits, with, &RecallHit::turn);
      if (found != ranking_.hits.end()) Gather(*found, group);
    }
  }

  bool Place(const RecallHit& hit) {
    if (quoter_.Read(hit.turn, hit.terms) == nullptr) return false;
    std::set<uint32_t> group = {hit.turn};
    Gather(hit, group);
    std::set<uint32_t> all = lines_;
    all.insert(group.begin(), group.end());
    std::erase_if(group, [&](uint32_t line) { return lines_.contains(line); });
    const auto resize = [&](uint32_t step) {
      return std::ranges::all_of(group, [&](uint32_t line) { return quoter_.Resize(line, step); });
    };
    for (uint32_t step = 0; all.size() <= kRecallQuotesMax && resize(step); ++step) {
      if (!quoter_.Compose(all, choice_)) continue;
      lines_ = std::move(all);
      choice_.budget_short |= step > Quoter::kAsksLess;
      return true;
    }
    quoter_.Compose(lines_, choice_);
    return false;
  }

  Quoter& quoter_;
  const Ranking& ranking_;
  RecallChoice& choice_;
  std::set<uint32_t> lines_;  // that are quoted
};

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

// What is likely to be quoted brings the newest turn on the same matter along, unless the window
// has it.
Status RecallMemory::AddNewer(const IndexedSession& entry, Analyser& analyser,
                              const RecallQuestion& question, Ranking& ranking) {
  const GateResult likely = ApplyGate(ranking, GateFor(question));
  for (RecallHit& hit : ranking.hits) {
    if (!std::ranges::binary_search(likely.injected, hit.turn)) continue;
    TENUTO_ASSIGN(const auto rows, log_.ReadItems(question.row.id, question.row.head, hit.turn, 1));
    if (rows.empty() || rows.front().deleted) continue;
    TENUTO_ASSIGN(const ArchivedText text, ArchivedTextOf(rows.front()));
    const uint32_t newest =
        NewestOnTheSame(analyser, entry.index, {hit.turn, MomentOf(text.unix_ms), text.user});
    if (Has(question.scope.candidates, newest) && !std::ranges::count(hit.with, newest))
      hit.with.push_back(newest);
  }
  return Ok();
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
    if (question.in_conversation)
      TENUTO_TRY(AddNewer(*entry, tools->analyser, question, ranked.ranking));
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
    if (const uint32_t newest = NewestInstead(question, hit.turn); newest > 0)
      hit.with.push_back(newest);
  Quoter quoter(log_, tokenize_, question, ranking, std::move(ranked.ids));
  const GateSettings gate = GateFor(question);
  GateResult result = quoter.Decide(ranking, gate);
  if (!result.injected.empty()) Fitting(quoter, ranking, choice).Run(gate, result);
  for (const RecallVerdict& verdict : result.verdicts) {
    const std::optional<TurnId> id = quoter.IdOf(verdict.hit);
    if (!id) continue;
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
