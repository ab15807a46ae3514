#include "engine/cell_ledger.h"

#include "base/check.h"

namespace tenuto {
namespace {

size_t Index(int32_t value) {
  return static_cast<size_t>(value);
}

}  // namespace

CellLedger::CellLedger(int32_t cells, int32_t sequences)
    : held_(Index(sequences)), users_(Index(cells), 0) {
  free_.reserve(Index(cells));
  for (int32_t cell = cells - 1; cell >= 0; --cell)
    free_.push_back(cell);
}

bool CellLedger::HasSequence(SeqId seq) const {
  return seq.value >= 0 && Index(seq.value) < held_.size();
}

TokenPos CellLedger::length(SeqId seq) const {
  TENUTO_CHECK(HasSequence(seq));
  return static_cast<TokenPos>(held_[Index(seq.value)].size());
}

int32_t CellLedger::cell(SeqId seq, TokenPos pos) const {
  TENUTO_DCHECK(pos >= 0 && pos < length(seq));
  return held_[Index(seq.value)][Index(pos)];
}

int32_t CellLedger::Append(SeqId seq) {
  TENUTO_CHECK(HasSequence(seq) && !free_.empty());
  const int32_t cell = free_.back();
  free_.pop_back();
  users_[Index(cell)] = 1;
  held_[Index(seq.value)].push_back(cell);
  return cell;
}

void CellLedger::Truncate(SeqId seq, TokenPos end) {
  TENUTO_CHECK(HasSequence(seq) && end >= 0);
  std::vector<int32_t>& held = held_[Index(seq.value)];
  while (held.size() > Index(end)) {
    const int32_t cell = held.back();
    held.pop_back();
    if (--users_[Index(cell)] == 0) free_.push_back(cell);
  }
}

void CellLedger::Share(SeqId from, SeqId to, TokenPos end) {
  TENUTO_CHECK(length(to) == 0 && end >= 0 && end <= length(from));
  const std::vector<int32_t>& source = held_[Index(from.value)];
  std::vector<int32_t>& target = held_[Index(to.value)];
  target.assign(source.begin(), source.begin() + end);
  for (const int32_t cell : target)
    ++users_[Index(cell)];
}

}  // namespace tenuto
