// How an index keeps the passages of a term, and how they are read. Pure.
// docs/formats/recall_index.md has the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "recall/varint.h"

namespace tenuto {

inline constexpr uint32_t kPassageTokensMax = 200;

struct PassageInfo {
  uint32_t turn_at = 0;  // index into turns()
  uint16_t user_tokens = 0;
  uint16_t answer_tokens = 0;
};

// How often a term is in the parts of a passage; each at most 15.
struct TermCounts {
  uint8_t user = 0;   // in what the user states
  uint8_t asked = 0;  // in what the user asks
  uint8_t answer = 0;
  uint8_t tool = 0;
  // Sentences of the user that have it, a bit each, counted in the passage; the last bit stands for
  // all that follow.
  uint8_t sentences = 0;
  bool operator==(const TermCounts&) const = default;
};

struct Postings {
  std::string_view bytes;     // passage and counts, delta and variable length; the index owns them
  uint32_t last_passage = 0;  // of the last entry; entries count from 1 in their first delta
  uint32_t all = 0;           // entries
  uint32_t df = 0;            // entries outside of tool output
  uint32_t df_user = 0;       // entries with the user's words
};

// An entry is (delta * 16 + form); for kCounts then the four counts in 16 bits, and the sentences
// where the user has the term.
inline constexpr uint32_t kFormBits = 4;
inline constexpr uint64_t kFormMask = 15;
inline constexpr uint8_t kCountsForm = 15;
inline constexpr uint32_t kSentencesMax = 8;
inline constexpr std::array<TermCounts, kCountsForm> kForms = {{
    {0, 0, 1, 0, 0},  // once in the answer
    {0, 0, 0, 1, 0},  // ... in tool output
    {1, 0, 0, 0, 1},  // ... in the user's first sentence
    {1, 0, 0, 0, 2},
    {1, 0, 0, 0, 4},
    {1, 0, 0, 0, 8},
    {1, 0, 0, 0, 16},
    {0, 1, 0, 0, 1},  // ... where that asks
    {0, 1, 0, 0, 2},
    {0, 1, 0, 0, 4},
    {1, 0, 1, 0, 1},  // ... and in the answer
    {1, 0, 1, 0, 2},
    {1, 0, 1, 0, 4},
    {0, 1, 1, 0, 1},
    {0, 1, 1, 0, 2},
}};

// False: no form that an index writes.
inline bool CountsOf(uint64_t form, VarintReader& reader, TermCounts& counts) {
  if (form < kCountsForm) {
    counts = kForms[form];
    return true;
  }
  const uint64_t packed = reader.NextUpTo(0xFFFF);
  counts = {static_cast<uint8_t>(packed & 15), static_cast<uint8_t>((packed >> 4) & 15),
            static_cast<uint8_t>((packed >> 8) & 15), static_cast<uint8_t>((packed >> 12) & 15), 0};
  if (counts.user + counts.asked == 0) return packed != 0;
  counts.sentences = static_cast<uint8_t>(reader.NextUpTo(0xFF));
  return counts.sentences != 0;
}

// Reads entries one after the other. Stops at the first that is no entry or lies behind the last
// passage of the term, for those of common terms are not looked at when an index is read.
class PostingReader {
 public:
  // `bytes_read`, `next`: where one before it stopped.
  explicit PostingReader(const Postings& postings, size_t bytes_read = 0, uint32_t next = 0)
      : reader_(postings.bytes.substr(bytes_read)), end_(uint64_t{postings.last_passage} + 1) {
    next_ = next;
  }

  // False: there is no other.
  bool Next() {
    const uint64_t entry = reader_.Next();
    const uint64_t delta = entry >> kFormBits;
    if (delta == 0 || delta > end_ - next_) return false;
    next_ += delta;
    return CountsOf(entry & kFormMask, reader_, counts_);
  }
  uint32_t passage() const { return static_cast<uint32_t>(next_ - 1); }
  TermCounts counts() const { return counts_; }

 private:
  VarintReader reader_;
  uint64_t end_;
  uint64_t next_ = 0;  // one past the passage before
  TermCounts counts_;
};

// Calls fn(passage, counts) in the order of passages, until it returns false.
template <typename Fn>
void ForEachPostingUntil(const Postings& postings, Fn fn) {
  PostingReader reader(postings);
  for (uint32_t i = 0; i < postings.all && reader.Next(); ++i) {
    if (!fn(reader.passage(), reader.counts())) return;
  }
}

template <typename Fn>
void ForEachPosting(const Postings& postings, Fn fn) {
  ForEachPostingUntil(postings, [&](uint32_t passage, TermCounts counts) {
    fn(passage, counts);
    return true;
  });
}

}  // namespace tenuto
