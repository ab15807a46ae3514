#include "recall/episodes.h"

#include <algorithm>
#include <span>
#include <vector>

namespace tenuto {
namespace {

constexpr uint32_t kClusterTurns = 16;  // turns this near are one episode

}  // namespace

// Calls fn(passage) for those that have all of these terms in the user's words, in order, until
// it returns false.
template <typename Fn>
void EpisodeCounts::ForEachWithAll(uint32_t mask, Fn fn) const {
  std::vector<std::span<const uint64_t>> common;
  size_t words = SIZE_MAX;
  const Postings* rare = nullptr;
  for (size_t i = 0; i < query_.terms.size(); ++i) {
    const QueryTerm& term = query_.terms[i];
    if ((mask >> i & 1u) == 0) continue;
    if (term.dense != nullptr) {
      common.push_back(term.dense->user_bits());
      words = std::min(words, common.back().size());
    } else if (rare == nullptr || term.postings->all < rare->all) {
      rare = term.postings;
    }
  }
  if (rare != nullptr) {  // all passages of a rare term are in the evidence
    return ForEachPostingUntil(*rare, [&](uint32_t passage, TermCounts) {
      return (evidence_.At(passage).user & mask) != mask || fn(passage);
    });
  }
  for (size_t word = 0; word < words; ++word) {
    uint64_t bits = ~uint64_t{0};
    for (const auto& one : common)
      bits &= one[word];
    for (; bits != 0; bits &= bits - 1) {
      const auto bit = static_cast<uint32_t>(__builtin_ctzll(bits));
      if (!fn(static_cast<uint32_t>(word * kWordBits) + bit)) return;
    }
  }
}

uint32_t EpisodeCounts::Count(uint32_t mask, uint32_t most) {
  const auto [known, fresh] = known_.try_emplace(uint64_t{mask} << 32 | most, 0);
  if (!fresh) return known->second;
  uint32_t episodes = 0;
  uint32_t last = 0;
  ForEachWithAll(mask, [&](uint32_t passage) {
    const uint32_t turn_at = index_.passages()[passage].turn_at;
    if (episodes == 0 || turn_at - last > kClusterTurns) ++episodes;
    last = turn_at;
    return episodes < most;
  });
  known->second = episodes;
  return episodes;
}

}  // namespace tenuto
