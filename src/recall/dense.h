// A term that many passages have, unpacked so that one passage is found without reading those
// before it: a bit for each passage, and the counts of those that have the term. What a query would
// else read grows with the session; of these it reads a bit a passage.
//
// Plain values, made from postings and brought up to them as they grow; nothing here is stored.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "recall/bits.h"
#include "recall/postings.h"
#include "recall/text.h"

namespace tenuto {

class DenseTerm {
 public:
  // Takes in what `postings` has more than the last time. REQUIRES: they only grew since.
  void BringUp(const Postings& postings, std::span<const PassageInfo> passages);

  // nullptr: the passage does not have it.
  const TermCounts* At(uint32_t passage) const {
    const size_t word = passage / kWordBits;
    const uint64_t bit = uint64_t{1} << passage % kWordBits;
    if (word >= bits_.size() || (bits_[word] & bit) == 0) return nullptr;
    return &counts_[before_[word] + CountBits(bits_[word] & (bit - 1))];
  }
  // Of passages, the lowest bit of the first word being passage 0; as many words as are needed.
  std::span<const uint64_t> bits() const { return bits_; }
  std::span<const uint64_t> user_bits() const { return user_bits_; }      // with the user's words
  std::span<const uint64_t> stated_bits() const { return stated_bits_; }  // ... that do not ask
  // Each combination of counts that a passage has, without sentences, and at most the tokens of any
  // passage that has it.
  struct Kind {
    TermCounts counts;
    uint32_t user_tokens_min = kPassageTokensMax;
    uint32_t answer_tokens_min = kPassageTokensMax;
  };
  std::span<const Kind> kinds() const { return kinds_; }
  size_t MemoryBytes() const;

 private:
  friend class DenseTerms;
  void Append(uint32_t passage, TermCounts counts, const PassageInfo& info);

  std::vector<uint64_t> bits_;
  std::vector<uint64_t> user_bits_;
  std::vector<uint64_t> stated_bits_;
  std::vector<uint32_t> before_;  // passages that have it before each word
  std::vector<TermCounts> counts_;
  std::vector<Kind> kinds_;
  size_t bytes_read_ = 0;  // of the postings
  uint32_t next_ = 0;      // one past the last passage
  uint64_t used_ = 0;
};

// Those of one index that were asked for lately.
class DenseTerms {
 public:
  // nullptr: so few passages have it that it does not pay. Valid until the next Trim or Forget;
  // what it holds is as of this call.
  const DenseTerm* Find(TermKey key, const Postings& postings,
                        std::span<const PassageInfo> passages);
  // Gives the longest unused back while they take more than is worth it for so many passages.
  void Trim(size_t passages);
  // Postings changed otherwise than by growing.
  void Forget() { *this = DenseTerms(); }
  size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<TermKey, DenseTerm> terms_;
  size_t bytes_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace tenuto
