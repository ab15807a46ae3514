// The index of one session's turns: for each term the passages that hold it, and how often in which
// part. Statistics are those of this session alone (INV-4). It holds no text, only hashes of terms.
//
// A plain value: no threads, no I/O. Thread-compatible, but for Dense. What it becomes depends on
// the turns added and their order, nothing else; it is derived from the log and may be dropped at
// any moment (INV-1). docs/formats/recall_index.md has the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "recall/dense.h"
#include "recall/postings.h"
#include "recall/text.h"

namespace tenuto {

inline constexpr uint16_t kRecallIndexVersion = 5;

// A turn as the index takes it in. `turn` is a number that the session gives, ascending in the
// order of adding; branches of one session share an index and differ in which turns are asked for.
struct ArchivedTurn {
  uint32_t turn = 0;
  Moment time;
  std::string_view user;
  std::string_view answer;  // fenced blocks in it count as tool output
  std::string_view tool;
  std::string_view name;               // of the message
  std::span<const uint32_t> recalled;  // turns that recall put into this turn's prompt
};

struct TurnInfo {
  enum Flag : uint8_t {
    kBareQuestion = 1,  // the user only asks
    kHasNumber = 2,     // the user names a number that is no day
    kCorrects = 4,      // the user takes something back
    kShort = 8,         // at most kShortTokens by the user
    kRemoved = 16,
  };
  uint32_t turn = 0;
  Moment time;
  uint32_t tokens = 0;  // words and characters of user and answer, tool output included
  uint32_t first_passage = 0;
  uint32_t user_digest = 0;  // of the user's terms: equal for near-duplicates
  uint8_t flags = 0;
  bool Is(Flag flag) const { return (flags & flag) != 0; }
};
inline constexpr uint32_t kShortTokens = 24;

class RecallIndex {
 public:
  RecallIndex() = default;
  RecallIndex(RecallIndex&&) noexcept = default;
  RecallIndex& operator=(RecallIndex&&) noexcept = default;
  RecallIndex(const RecallIndex&) = delete;
  RecallIndex& operator=(const RecallIndex&) = delete;

  // REQUIRES: turn.turn is greater than that of every turn before.
  void Add(Analyser& analyser, const ArchivedTurn& turn);
  // Everything derived from the turn goes. False: it is not here. Costs a read of all postings.
  bool Remove(uint32_t turn);

  const std::vector<TurnInfo>& turns() const { return turns_; }
  const std::vector<PassageInfo>& passages() const { return passages_; }
  std::span<const uint32_t> RecalledBy(uint32_t turn_at) const;
  // Index into turns(), or -1.
  int64_t TurnAt(uint32_t turn) const;
  const Postings* Find(TermKey key) const;
  // The term unpacked, for queries; nullptr where few passages have it. Valid until the index
  // changes or TrimDense. Fills a cache: one thread at a time, though nothing that can be seen
  // changes.
  const DenseTerm* Dense(TermKey key, const Postings& postings) const {
    return dense_.Find(key, postings, passages_);
  }
  void TrimDense() const { dense_.Trim(passages_.size()); }
  size_t DenseBytes() const { return dense_.bytes(); }
  size_t terms() const { return terms_; }
  // How this session's texts of that time, and questions to it, are analysed.
  AnalyseOptions OptionsAt(Moment time) const;
  // Whether a turn of the user's was in it. Always true for kUnknown.
  bool Speaks(Language language) const;
  // Passages and turns that count for statistics.
  uint32_t passages_live() const { return passages_live_; }
  uint32_t turns_live() const { return turns_live_; }
  uint32_t MedianUserTokens() const;
  double AverageTokens(double answer_weight) const;

  std::vector<std::byte> Encode() const;
  // kCorrupt: any damage; kInvalid: written by another version. Both mean: rebuild from the log.
  static Result<RecallIndex> Decode(std::span<const std::byte> bytes);
  // Likewise, of bytes that it keeps and does not copy. `bytes` lie in `owner`.
  static Result<RecallIndex> Decode(std::shared_ptr<const std::byte[]> owner,
                                    std::span<const std::byte> bytes);

  // TurnInfo::user_digest of a text of the user.
  static uint32_t DigestOf(const Analysed& user);

 private:
  friend class IndexReader;
  friend class IndexWriter;
  struct Parts;

  // Postings that grow here.
  struct Grown {
    std::string bytes;
    Postings postings;
  };
  struct LoadedTerm {
    TermKey key = 0;
    Postings postings;  // all 0: it is in grown_, or gone
  };

  void AddPostings(const std::map<TermKey, TermCounts>& terms, uint32_t passage);
  void Count(const TurnInfo& turn, int32_t sign);
  Grown& GrownOf(TermKey key);
  LoadedTerm* FindLoaded(TermKey key);
  static void Append(Grown& grown, uint32_t passage, TermCounts counts);
  static bool HasPassage(const Postings& postings, uint32_t first, uint32_t end);

  std::vector<TurnInfo> turns_;
  std::vector<PassageInfo> passages_;
  // A term is in one of the two: as it was read, or written to since.
  std::shared_ptr<const std::byte[]> loaded_bytes_;
  std::vector<LoadedTerm> loaded_;  // keys ascend
  std::unordered_map<TermKey, Grown> grown_;
  size_t terms_ = 0;
  std::map<uint32_t, std::vector<uint32_t>> recalled_;  // by index into turns_
  std::array<uint32_t, kLanguages> languages_{};
  uint32_t passages_live_ = 0;
  uint32_t turns_live_ = 0;
  std::array<uint32_t, kPassageTokensMax + 1> lengths_{};  // passages by tokens of the user
  uint64_t user_tokens_ = 0;
  uint64_t answer_tokens_ = 0;
  mutable DenseTerms dense_;
};

}  // namespace tenuto
