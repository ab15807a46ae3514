#include "recall/dense.h"

#include <algorithm>

namespace tenuto {
namespace {

// Unpacked are terms that this many passages have, and at least one in kShareMin.
constexpr uint32_t kEntriesMin = 64;
constexpr uint32_t kShareMin = 128;

// What they may take together: a hundred or two of the commonest words.
constexpr size_t kBytesMin = 256 * 1024;
constexpr size_t kBytesPerPassage = 48;

// An eighth more than is needed, and not the double: it is what the budget is spent on.
template <typename T>
void MakeRoom(std::vector<T>& vector, size_t size) {
  if (vector.capacity() < size) vector.reserve(size + size / 8);
}

}  // namespace

void DenseTerm::BringUp(const Postings& postings, std::span<const PassageInfo> passages) {
  const size_t words = postings.last_passage / kWordBits + 1;
  for (auto* bits : {&bits_, &user_bits_, &stated_bits_})
    MakeRoom(*bits, words);
  MakeRoom(before_, words);
  MakeRoom(counts_, postings.all);
  PostingReader reader(postings, bytes_read_, next_);
  for (size_t i = counts_.size(); i < postings.all && reader.Next(); ++i) {
    next_ = reader.passage() + 1;
    Append(reader.passage(), reader.counts(), passages[reader.passage()]);
  }
  bytes_read_ = postings.bytes.size();
}

void DenseTerm::Append(uint32_t passage, TermCounts counts, const PassageInfo& info) {
  const size_t word = passage / kWordBits;
  const uint64_t bit = uint64_t{1} << passage % kWordBits;
  if (word >= bits_.size()) {
    bits_.resize(word + 1);
    user_bits_.resize(word + 1);
    stated_bits_.resize(word + 1);
    before_.resize(word + 1, static_cast<uint32_t>(counts_.size()));
  }
  bits_[word] |= bit;
  if (counts.user + counts.asked > 0) user_bits_[word] |= bit;
  if (counts.user > 0) stated_bits_[word] |= bit;
  counts_.push_back(counts);
  counts.sentences = 0;
  auto kind = std::ranges::find(kinds_, counts, &Kind::counts);
  if (kind == kinds_.end()) kind = kinds_.insert(kind, {.counts = counts});
  kind->user_tokens_min = std::min<uint32_t>(kind->user_tokens_min, info.user_tokens);
  kind->answer_tokens_min = std::min<uint32_t>(kind->answer_tokens_min, info.answer_tokens);
}

size_t DenseTerm::MemoryBytes() const {
  return sizeof(*this) +
         (bits_.capacity() + user_bits_.capacity() + stated_bits_.capacity()) * sizeof(uint64_t) +
         before_.capacity() * sizeof(uint32_t) + counts_.capacity() * sizeof(TermCounts) +
         kinds_.capacity() * sizeof(Kind);
}

const DenseTerm* DenseTerms::Find(TermKey key, const Postings& postings,
                                  std::span<const PassageInfo> passages) {
  if (postings.all < std::max<size_t>(kEntriesMin, passages.size() / kShareMin)) return nullptr;
  const auto [found, fresh] = terms_.try_emplace(key);
  DenseTerm& term = found->second;
  const size_t before = fresh ? 0 : term.MemoryBytes();
  term.BringUp(postings, passages);
  term.used_ = ++uses_;
  bytes_ += term.MemoryBytes() - before;
  return &term;
}

void DenseTerms::Trim(size_t passages) {
  const size_t bytes_max = kBytesMin + kBytesPerPassage * passages;
  while (bytes_ > bytes_max) {
    const auto oldest = std::min_element(
        terms_.begin(), terms_.end(),
        [](const auto& a, const auto& b) { return a.second.used_ < b.second.used_; });
    bytes_ -= oldest->second.MemoryBytes();
    terms_.erase(oldest);
  }
}

}  // namespace tenuto
