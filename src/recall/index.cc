#include "recall/index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tenuto {
namespace {

constexpr uint8_t kCountMax = 15;

void Bump(uint8_t& count) {
  if (count < kCountMax) ++count;
}

// The answer without its fenced blocks; those go to `tool`.
std::string WithoutFences(std::string_view answer, std::string& tool) {
  constexpr std::string_view kFence = "```";
  std::string prose;
  while (true) {
    const size_t open = answer.find(kFence);
    prose.append(answer.substr(0, open));
    if (open == std::string_view::npos) return prose;
    answer.remove_prefix(open + kFence.size());
    const size_t close = std::min(answer.find(kFence), answer.size());
    tool.append("\n").append(answer.substr(0, close));
    answer.remove_prefix(std::min(close + kFence.size(), answer.size()));
    prose += '\n';
  }
}

}  // namespace

// What a turn is made of, by passage.
struct RecallIndex::Parts {
  std::vector<std::map<TermKey, TermCounts>> terms;
  std::vector<PassageInfo> passages;

  void Need(size_t count) {
    if (terms.size() < count) terms.resize(count);
    if (passages.size() < count) passages.resize(count);
  }

  // `offset`: tokens of the turn before this text.
  void Take(const Analysed& text, uint32_t offset, uint8_t TermCounts::*field) {
    const bool by_user = field == &TermCounts::user;
    size_t passage = SIZE_MAX;
    uint32_t first_sentence = 0;  // of the passage
    for (const Term& term : text.terms) {
      // A character inside a word is looked for in what the user says only: it is most of a CJK
      // text's postings and least of its meaning.
      if (term.inside && !(by_user && term.edge)) continue;
      const size_t at = (offset + term.position) / kPassageTokensMax;
      if (at != passage) first_sentence = at == 0 ? 0 : term.sentence;
      passage = at;
      Need(at + 1);
      TermCounts& counts = terms[at][term.key];
      Bump(counts.*(by_user && term.asked ? &TermCounts::asked : field));
      if (by_user) Mark(counts, term.sentence - std::min(first_sentence, term.sentence));
    }
  }

  // What belongs to all sentences of the user.
  void TakeEverywhere(const Term& term) {
    TermCounts& counts = terms[0][term.key];
    Bump(counts.user);
    counts.sentences = 0xFF;
  }

  static void Mark(TermCounts& counts, uint32_t sentence) {
    counts.sentences |= static_cast<uint8_t>(1u << std::min(sentence, kSentencesMax - 1));
  }

  // Lengths of [offset, offset + tokens) by passage.
  void Measure(uint32_t offset, uint32_t tokens, uint16_t PassageInfo::*field) {
    while (tokens > 0) {
      const uint32_t at = offset / kPassageTokensMax;
      const uint32_t here = std::min(tokens, kPassageTokensMax - offset % kPassageTokensMax);
      Need(at + 1);
      passages[at].*field = static_cast<uint16_t>(passages[at].*field + here);
      offset += here;
      tokens -= here;
    }
  }
};

void RecallIndex::Add(Analyser& analyser, const ArchivedTurn& turn) {
  TENUTO_CHECK(turns_.empty() || turn.turn > turns_.back().turn);
  const AnalyseOptions options = OptionsAt(turn.time);
  std::string tool_text(turn.tool);
  const std::string prose = WithoutFences(turn.answer, tool_text);
  const Analysed user = analyser.Analyse(turn.user, options);
  const Analysed answer = analyser.Analyse(prose, options);
  const Analysed tool = analyser.Analyse(tool_text, options);
  const Analysed name = analyser.Analyse(turn.name, options);

  Parts parts;
  parts.Need(1);
  parts.Take(user, 0, &TermCounts::user);
  for (const Term& term : name.terms)
    parts.TakeEverywhere(term);
  parts.TakeEverywhere(StampTerm(turn.time));
  parts.Take(answer, user.tokens, &TermCounts::answer);
  parts.Take(tool, 0, &TermCounts::tool);
  parts.Measure(0, user.tokens, &PassageInfo::user_tokens);
  parts.Measure(user.tokens, answer.tokens, &PassageInfo::answer_tokens);

  TurnInfo info;
  info.turn = turn.turn;
  info.time = turn.time;
  info.tokens = user.tokens + answer.tokens + tool.tokens;
  info.first_passage = static_cast<uint32_t>(passages_.size());
  info.user_digest = DigestOf(user);
  if (user.sentences > 0 && user.asking == user.sentences) info.flags |= TurnInfo::kBareQuestion;
  if (user.has_number) info.flags |= TurnInfo::kHasNumber;
  if (Corrects(user.folded)) info.flags |= TurnInfo::kCorrects;
  if (user.tokens <= kShortTokens) info.flags |= TurnInfo::kShort;
  const auto turn_at = static_cast<uint32_t>(turns_.size());
  turns_.push_back(info);
  if (!turn.recalled.empty()) {
    recalled_[turn_at].assign(turn.recalled.begin(), turn.recalled.end());
  }
  ++languages_[static_cast<size_t>(user.language)];
  for (size_t i = 0; i < parts.terms.size(); ++i) {
    parts.passages[i].turn_at = turn_at;
    passages_.push_back(parts.passages[i]);
    AddPostings(parts.terms[i], info.first_passage + static_cast<uint32_t>(i));
  }
  Count(turns_.back(), 1);
}

// Adds or takes away what the turn is to the statistics.
void RecallIndex::Count(const TurnInfo& turn, int32_t sign) {
  turns_live_ += static_cast<uint32_t>(sign);
  const auto turn_at = static_cast<uint32_t>(&turn - turns_.data());
  for (size_t i = turn.first_passage; i < passages_.size() && passages_[i].turn_at == turn_at;
       ++i) {
    const PassageInfo& passage = passages_[i];
    if (passage.user_tokens + passage.answer_tokens == 0 && i > turn.first_passage) continue;
    passages_live_ += static_cast<uint32_t>(sign);
    if (passage.user_tokens > 0) lengths_[passage.user_tokens] += static_cast<uint32_t>(sign);
    user_tokens_ += static_cast<uint64_t>(int64_t{sign} * passage.user_tokens);
    answer_tokens_ += static_cast<uint64_t>(int64_t{sign} * passage.answer_tokens);
  }
}

void RecallIndex::AddPostings(const std::map<TermKey, TermCounts>& terms, uint32_t passage) {
  for (const auto& [key, counts] : terms)
    Append(GrownOf(key), passage, counts);
}

RecallIndex::LoadedTerm* RecallIndex::FindLoaded(TermKey key) {
  const auto found =
      std::lower_bound(loaded_.begin(), loaded_.end(), key,
                       [](const LoadedTerm& term, TermKey wanted) { return term.key < wanted; });
  const bool here = found != loaded_.end() && found->key == key && found->postings.all > 0;
  return here ? &*found : nullptr;
}

// What was read is copied when it is first written to.
RecallIndex::Grown& RecallIndex::GrownOf(TermKey key) {
  const auto [entry, fresh] = grown_.try_emplace(key);
  Grown& grown = entry->second;
  if (!fresh) return grown;
  LoadedTerm* loaded = FindLoaded(key);
  if (loaded == nullptr) {
    ++terms_;
    return grown;
  }
  grown.bytes = loaded->postings.bytes;
  grown.postings = std::exchange(loaded->postings, Postings());
  grown.postings.bytes = grown.bytes;
  return grown;
}

void RecallIndex::Append(Grown& grown, uint32_t passage, TermCounts counts) {
  Postings& postings = grown.postings;
  const uint64_t delta = postings.all == 0 ? passage + 1 : passage - postings.last_passage;
  const auto* form = std::find(kForms.begin(), kForms.end(), counts);
  PutVarint(grown.bytes, delta << kFormBits | static_cast<uint64_t>(form - kForms.begin()));
  if (form == kForms.end()) {
    PutVarint(grown.bytes, static_cast<uint64_t>(counts.user | counts.asked << 4 |
                                                 counts.answer << 8 | counts.tool << 12));
    if (counts.user + counts.asked > 0) PutVarint(grown.bytes, counts.sentences);
  }
  postings.bytes = grown.bytes;
  postings.last_passage = passage;
  ++postings.all;
  if (counts.user + counts.asked + counts.answer > 0) ++postings.df;
  if (counts.user + counts.asked > 0) ++postings.df_user;
}

uint32_t RecallIndex::DigestOf(const Analysed& user) {
  std::vector<TermKey> keys;
  keys.reserve(user.terms.size());
  for (const Term& term : user.terms)
    keys.push_back(term.key);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  uint64_t digest = 0x9e3779b97f4a7c15u;
  for (const TermKey key : keys)
    digest = (digest ^ key) * 0x100000001b3u;
  return static_cast<uint32_t>(digest ^ (digest >> 32));
}

bool RecallIndex::Remove(uint32_t turn) {
  const int64_t at = TurnAt(turn);
  if (at < 0) return false;
  const auto turn_at = static_cast<uint32_t>(at);
  TurnInfo& info = turns_[turn_at];
  Count(info, -1);
  uint32_t end = info.first_passage;
  while (end < passages_.size() && passages_[end].turn_at == turn_at)
    ++end;
  std::vector<TermKey> holding;
  for (const LoadedTerm& term : loaded_) {
    if (HasPassage(term.postings, info.first_passage, end)) holding.push_back(term.key);
  }
  for (const auto& [key, grown] : grown_) {
    if (HasPassage(grown.postings, info.first_passage, end)) holding.push_back(key);
  }
  for (const TermKey key : holding) {
    Grown& grown = GrownOf(key);
    Grown kept;
    ForEachPosting(grown.postings, [&](uint32_t passage, TermCounts counts) {
      if (passages_[passage].turn_at != turn_at) Append(kept, passage, counts);
    });
    if (kept.postings.all == 0) {
      grown_.erase(key);
      --terms_;
      continue;
    }
    grown = std::move(kept);
    grown.postings.bytes = grown.bytes;
  }
  for (size_t i = info.first_passage; i < end; ++i) {
    passages_[i].user_tokens = 0;
    passages_[i].answer_tokens = 0;
  }
  recalled_.erase(turn_at);
  dense_.Forget();
  const TurnInfo gone = info;
  info = TurnInfo();
  info.turn = gone.turn;  // numbers stay ascending
  info.first_passage = gone.first_passage;
  info.flags = TurnInfo::kRemoved;
  return true;
}

std::span<const uint32_t> RecallIndex::RecalledBy(uint32_t turn_at) const {
  const auto found = recalled_.find(turn_at);
  return found == recalled_.end() ? std::span<const uint32_t>() : found->second;
}

int64_t RecallIndex::TurnAt(uint32_t turn) const {
  const auto found =
      std::lower_bound(turns_.begin(), turns_.end(), turn,
                       [](const TurnInfo& info, uint32_t wanted) { return info.turn < wanted; });
  if (found == turns_.end() || found->turn != turn || found->Is(TurnInfo::kRemoved)) return -1;
  return found - turns_.begin();
}

const Postings* RecallIndex::Find(TermKey key) const {
  const auto grown = grown_.find(key);
  if (grown != grown_.end()) return &grown->second.postings;
  const auto found =
      std::lower_bound(loaded_.begin(), loaded_.end(), key,
                       [](const LoadedTerm& term, TermKey wanted) { return term.key < wanted; });
  const bool here = found != loaded_.end() && found->key == key && found->postings.all > 0;
  return here ? &found->postings : nullptr;
}

// Whether some passage of [first, end) is in it. Reads no further than it must.
bool RecallIndex::HasPassage(const Postings& postings, uint32_t first, uint32_t end) {
  if (postings.all == 0 || postings.last_passage < first) return false;
  bool found = false;
  ForEachPostingUntil(postings, [&](uint32_t passage, TermCounts) {
    found = passage >= first && passage < end;
    return passage < first;
  });
  return found;
}

AnalyseOptions RecallIndex::OptionsAt(Moment time) const {
  AnalyseOptions options;
  options.now = time;
  const auto most = std::max_element(languages_.begin() + 1, languages_.end());
  if (*most > 0) options.fallback = static_cast<Language>(most - languages_.begin());
  return options;
}

bool RecallIndex::Speaks(Language language) const {
  return language == Language::kUnknown || languages_[static_cast<size_t>(language)] > 0;
}

uint32_t RecallIndex::MedianUserTokens() const {
  uint64_t live = 0;
  for (const uint32_t count : lengths_)
    live += count;
  uint64_t seen = 0;
  for (size_t tokens = 0; tokens < lengths_.size(); ++tokens) {
    seen += lengths_[tokens];
    if (seen > 0 && seen * 2 >= live) return static_cast<uint32_t>(tokens);
  }
  return 0;
}

double RecallIndex::AverageTokens(double answer_weight) const {
  if (passages_live_ == 0) return 1.0;
  const double tokens =
      static_cast<double>(user_tokens_) + answer_weight * static_cast<double>(answer_tokens_);
  return std::max(1.0, tokens / passages_live_);
}

}  // namespace tenuto
