#include "session/chain.h"

#include <algorithm>

namespace tenuto {

uint64_t KvChain::bytes() const {
  uint64_t sum = 0;
  for (const PieceRow& piece : pieces)
    sum += piece.location.bytes;
  return sum;
}

namespace {

// The row that goes on at `begin`: the newest wins, since a merge writes later rows over the same
// positions.
const PieceRow* FindNext(std::span<const PieceRow> rows, TokenPos begin,
                         const Digest256& fingerprint) {
  const PieceRow* best = nullptr;
  for (const PieceRow& row : rows) {
    if (row.range.begin != begin || row.range.size() <= 0) continue;
    if (row.fingerprint != fingerprint) continue;
    if (best == nullptr || row.id > best->id) best = &row;
  }
  return best;
}

TokenPos FarthestEnd(std::span<const PieceRow> rows, const Digest256& fingerprint, bool equal) {
  TokenPos end = 0;
  for (const PieceRow& row : rows)
    if ((row.fingerprint == fingerprint) == equal) end = std::max(end, row.range.end);
  return end;
}

}  // namespace

ChainBuild BuildChain(std::span<const PieceRow> rows, std::span<const TokenId> tokens,
                      const Digest256& owner, const Digest256& fingerprint) {
  ChainBuild build;
  KvChain& chain = build.chain;
  chain.end_digest = ChainStart(owner, fingerprint);
  bool prefix_broken = false;
  while (const PieceRow* next = FindNext(rows, chain.end(), fingerprint)) {
    const auto size = static_cast<TokenPos>(tokens.size());
    if (next->range.end >= size || next->prefix_begin != chain.end_digest) {
      prefix_broken = true;
      break;
    }
    const Digest256 end =
        ChainExtend(chain.end_digest, tokens.subspan(static_cast<size_t>(next->range.begin),
                                                     static_cast<size_t>(next->range.size())));
    if (end != next->prefix_end) {
      prefix_broken = true;
      break;
    }
    chain.pieces.push_back(*next);
    chain.end_digest = end;
  }
  for (const PieceRow& row : rows) {
    const bool used = std::any_of(chain.pieces.begin(), chain.pieces.end(),
                                  [&](const PieceRow& piece) { return piece.id == row.id; });
    if (!used) build.stale_rows.push_back(row.id);
  }
  const TokenPos own_end = FarthestEnd(rows, fingerprint, true);
  if (own_end > chain.end())
    build.reasons.push_back({prefix_broken ? "prefix" : "missing", own_end - chain.end(),
                             prefix_broken ? "stored KV belongs to other tokens than the log's"
                                           : "a piece between stored ones is gone"});
  const TokenPos foreign_end = FarthestEnd(rows, fingerprint, false);
  if (foreign_end > std::max(chain.end(), own_end))
    build.reasons.push_back({"fingerprint", foreign_end - std::max(chain.end(), own_end),
                             "stored KV is of another model, build or KV configuration"});
  return build;
}

std::vector<int64_t> CutChain(KvChain& chain, TokenPos end, const Digest256& owner,
                              const Digest256& fingerprint) {
  std::vector<int64_t> cut;
  while (!chain.pieces.empty() && chain.end() > end) {
    cut.push_back(chain.pieces.back().id);
    chain.pieces.pop_back();
  }
  chain.end_digest =
      chain.pieces.empty() ? ChainStart(owner, fingerprint) : chain.pieces.back().prefix_end;
  return cut;
}

}  // namespace tenuto
