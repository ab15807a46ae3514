#include "session/quoter.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "recall/lex.h"

namespace tenuto {
namespace {

constexpr uint32_t kQuoteWordsMax = 200;   // of what the user said in one turn
constexpr uint32_t kQuoteWordsStart = 24;  // of them in the tightest budget, unless it is too tight
constexpr uint32_t kQuoteWordsMin = 12;    // with fewer a turn is not quoted
constexpr uint32_t kOtherSideShare = 3;    // of these for each side that was not asked for

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

class Fitting {
 public:
  Fitting(Quoter& quoter, const Ranking& ranking, RecallChoice& choice)
      : quoter_(quoter), ranking_(ranking), choice_(choice) {}

  void Run(const GateSettings& gate, GateResult& result) {
    uint32_t placed = 0;
    for (size_t i = 0; i < ranking_.hits.size(); ++i) {
      RecallVerdict& verdict = result.verdicts[i];
      if (!MayStand(verdict, gate) || lines_.contains(verdict.hit.turn)) continue;
      if (!HasRoom(gate, verdict.hit, placed)) {
        verdict.why = RecallWhy::kOverLimit;
        continue;
      }
      if (!StandsForItself(verdict.why))
        verdict.why = gate.force ? RecallWhy::kForced : RecallWhy::kMatches;
      if (PlaceHit(ranking_.hits[i])) ++placed;
    }
    PlaceAlso();
    for (RecallVerdict& verdict : result.verdicts) {
      verdict.injected = lines_.contains(verdict.hit.turn);
      const bool itself = StandsForItself(verdict.why);
      if (verdict.injected && !itself) verdict.why = RecallWhy::kCorrection;
      if (!verdict.injected && (itself || verdict.why == RecallWhy::kCorrection)) {
        verdict.why = RecallWhy::kOverBudget;
        choice_.budget_short |= itself;
      }
    }
  }

 private:
  // The gate counted none that was brought along, and no tokens.
  static bool MayStand(const RecallVerdict& verdict, const GateSettings& gate) {
    return StandsForItself(verdict.why) || verdict.why == RecallWhy::kOverLimit ||
           (gate.force && verdict.why == RecallWhy::kCorrection);
  }

  // Turns that come along with a hit, and what must come along with them.
  void Gather(const std::vector<uint32_t>& turns, const RecallHit& hit, std::set<uint32_t>& group) {
    for (const uint32_t turn : turns) {
      if (group.contains(turn) || quoter_.Read(turn, hit.terms) == nullptr) continue;
      group.insert(turn);
      const auto found = std::ranges::find(ranking_.hits, turn, &RecallHit::turn);
      if (found != ranking_.hits.end()) Gather(found->with, *found, group);
    }
  }

  bool PlaceHit(const RecallHit& hit) {
    if (quoter_.Read(hit.turn, hit.terms) == nullptr) return false;
    std::set<uint32_t> group = {hit.turn};
    Gather(hit.with, hit, group);
    const std::optional<uint32_t> step = Place(std::move(group));
    choice_.budget_short |= step && *step > Quoter::kAsksLess;
    return step.has_value();
  }

  // What may correct a hit takes no room from another that matches, nor from older quotes.
  void PlaceAlso() {
    for (const RecallHit& hit : ranking_.hits) {
      if (!lines_.contains(hit.turn)) continue;
      std::set<uint32_t> group;
      Gather(hit.also, hit, group);
      if (!std::ranges::includes(lines_, group)) Place(std::move(group));
    }
  }

  // All of them or none. Returns the step to which they are shortened.
  std::optional<uint32_t> Place(std::set<uint32_t> group) {
    std::set<uint32_t> all = lines_;
    all.insert(group.begin(), group.end());
    std::erase_if(group, [&](uint32_t line) { return lines_.contains(line); });
    const auto fits = [&](uint32_t step) {
      for (const uint32_t line : group)
        quoter_.Resize(line, step);
      return quoter_.Compose(all, choice_);
    };
    const uint32_t last = quoter_.LastStep();
    uint32_t step = 0;
    bool placed = all.size() <= kRecallQuotesMax && fits(step);
    // What is too long in the last length is not tried in every other.
    if (!placed && all.size() <= kRecallQuotesMax && fits(last))
      while (!placed && step < last)
        placed = fits(++step);
    if (!placed) {
      quoter_.Compose(lines_, choice_);
      return std::nullopt;
    }
    lines_ = std::move(all);
    return step;
  }

  Quoter& quoter_;
  const Ranking& ranking_;
  RecallChoice& choice_;
  std::set<uint32_t> lines_;  // that are quoted
};

}  // namespace

Quoter::Quoter(TokenLog& log, const TokenizeText& tokenize, const RecallQuestion& question,
               const Ranking& ranking, std::map<uint32_t, TurnId> ids)
    : log_(log),
      tokenize_(tokenize),
      question_(question),
      ids_(std::move(ids)),
      // Fewer in a tight budget.
      words_(std::clamp(static_cast<uint32_t>(std::max(0, question.tokens_max)) / 2,
                        kQuoteWordsStart, kQuoteWordsMax)),
      asks_assistant_(ranking.cues.asks_assistant) {}

const QuotedTurn* Quoter::Read(uint32_t line, std::span<const std::string> terms) {
  if (const auto known = turns_.find(line); known != turns_.end()) return &known->second.turn;
  const auto rows = log_.ReadItems(question_.row.id, question_.row.head, line, 1);
  if (!rows.ok() || rows->empty() || rows->front().deleted || rows->front().line != line)
    return nullptr;
  auto text = ArchivedTextOf(rows->front());
  if (!text.ok()) return nullptr;
  Sized sized;
  sized.terms.assign(terms.begin(), terms.end());
  sized.most = {rows->front().id,
                line,
                ChooseExcerpt(text->user, terms, asks_assistant_ ? OtherWords() : words_),
                ChooseExcerpt(text->answer, terms, asks_assistant_ ? words_ : OtherWords()),
                {}};
  sized.turn.text = std::move(*text);
  sized.most.tool = ToolPart(sized);
  sized.turn.quote = sized.most;
  return &turns_.emplace(line, std::move(sized)).first->second.turn;
}

std::optional<TurnId> Quoter::IdOf(const RecallHit& hit) {
  if (const auto known = ids_.find(hit.turn); known != ids_.end()) return known->second;
  const QuotedTurn* turn = Read(hit.turn, hit.terms);
  return turn == nullptr ? std::nullopt : std::optional(turn->quote.turn);
}

GateResult Quoter::Decide(Ranking& ranking, GateSettings gate) {
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

void Quoter::Resize(uint32_t line, uint32_t step) {
  Sized& sized = turns_.at(line);
  RecallQuote& quote = sized.turn.quote;
  quote = sized.most;
  if (step == 0) return;
  const Side keeps = Kept(sized);
  for (const Side side : kSides) {
    if (side == keeps) continue;
    TextRange& other = PartOf(quote, side);
    const std::string& text = TextOf(sized.turn.text, side);
    other = step == 1 ? Shorter(text, other, sized.terms, OtherWords() / 2) : TextRange();
  }
  if (step == 1) return;
  const std::string& kept_text = TextOf(sized.turn.text, keeps);
  TextRange& kept = PartOf(quote, keeps);
  if (!sized.kept) sized.kept = ChooseExcerpt(kept_text, sized.terms, words_);
  kept = *sized.kept;
  if (step > kAsksLess) kept = Shorter(kept_text, kept, sized.terms, WordsAt(step));
}

uint32_t Quoter::WordsAt(uint32_t step) const {
  uint32_t words = words_;
  for (uint32_t i = kAsksLess; i < step; ++i)
    words = words * 3 / 4;
  return words;
}

uint32_t Quoter::LastStep() const {
  uint32_t step = kAsksLess;
  while (WordsAt(step + 1) >= kQuoteWordsMin)
    ++step;
  return step;
}

bool Quoter::Compose(const std::set<uint32_t>& lines, RecallChoice& choice) {
  std::vector<QuotedTurn> turns;
  std::vector<std::string_view> texts = {question_.message};
  choice.quotes.clear();
  choice.span = {};
  for (const uint32_t line : lines) {
    const QuotedTurn& turn = turns_.at(line).turn;
    if (QuoteText(turn).empty()) return false;  // as good as left out
    turns.push_back(turn);
    texts.insert(texts.end(), {turn.text.user, turn.text.answer, turn.text.tool, turn.text.name});
    choice.quotes.push_back(turn.quote);
    choice.span.lines.push_back(line);
  }
  choice.mark = question_.mark;
  if (lines.empty()) return true;
  if (choice.mark.empty() || AnyHolds(texts, choice.mark))
    choice.mark = ChooseMark(FirstTurn(), texts);
  const std::string text = SpanText(choice.mark, turns);
  auto tokens = tokenize_(text, false, false);
  if (!tokens.ok() || static_cast<int32_t>(tokens->size()) > question_.tokens_max) return false;
  choice.span.tokens = std::move(*tokens);
  choice.digest = SpanDigest(text);
  return true;
}

uint32_t Quoter::OtherWords() const {
  return words_ / kOtherSideShare;
}

const std::string& Quoter::TextOf(const ArchivedText& text, Side side) {
  return side == Side::kUser ? text.user : side == Side::kAnswer ? text.answer : text.tool;
}

TextRange& Quoter::PartOf(RecallQuote& quote, Side side) {
  return side == Side::kUser ? quote.user : side == Side::kAnswer ? quote.answer : quote.tool;
}

// What tools said is quoted only where it has a word of the message that nobody repeated.
TextRange Quoter::ToolPart(const Sized& sized) const {
  const ArchivedText& text = sized.turn.text;
  if (text.tool.empty()) return {};
  const TextRange part = ChooseExcerpt(text.tool, sized.terms, OtherWords());
  const bool adds = std::ranges::any_of(sized.terms, [&](const std::string& term) {
    const std::span<const std::string> one(&term, 1);
    return HoldsAny(text.tool, part, one) && !HoldsAny(text.user, sized.most.user, one) &&
           !HoldsAny(text.answer, sized.most.answer, one);
  });
  return adds ? part : TextRange();
}

// The side that is shortened last: what was asked for, unless only another matches.
Quoter::Side Quoter::Kept(Sized& sized) const {
  if (sized.keeps) return *sized.keeps;
  const ArchivedText& text = sized.turn.text;
  const bool user = HoldsAny(text.user, sized.most.user, sized.terms);
  const bool answer = HoldsAny(text.answer, sized.most.answer, sized.terms);
  const bool by_answer = asks_assistant_ ? !text.answer.empty() && (answer || !user)
                                         : text.user.empty() || (answer && !user);
  const bool by_tool = sized.most.tool.end > 0 && !user && !answer;
  sized.keeps = by_tool ? Side::kTool : by_answer ? Side::kAnswer : Side::kUser;
  return *sized.keeps;
}

// What a mark is made of. Of the log, so that the same log quotes in the same frames (INV-8), and
// random: whoever wrote a text that is quoted one day can't have known it.
const std::string& Quoter::FirstTurn() {
  if (!first_turn_) {
    const auto first = log_.ReadItems(question_.row.id, question_.row.head, 1, 1);
    first_turn_ = first.ok() && !first->empty() ? first->front().id.value : "";
  }
  return *first_turn_;
}

void FitQuotes(Quoter& quoter, const Ranking& ranking, const GateSettings& gate, GateResult& result,
               RecallChoice& choice) {
  Fitting(quoter, ranking, choice).Run(gate, result);
}

}  // namespace tenuto
