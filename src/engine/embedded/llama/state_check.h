// The bytes of one sequence's state as this libllama writes them, and a check of every field before
// they are given back to it: libllama trusts them, reads what they say and, in releases so far,
// leaves garbage behind when it fails. docs/formats/llama_state.md has the layout. Nothing is
// assumed about a model: the layout is learned from an export of the very context that will import.
// Pure, thread-safe. Full-attention caches with one stream only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace tenuto {

// Of the canonical form; in the fingerprint, so that another form is a miss.
inline constexpr uint32_t kLlamaStateVersion = 1;

struct StateLayout {
  struct Keys {  // per layer: one row for each cell
    int32_t type = 0;
    uint64_t row_bytes = 0;
    bool operator==(const Keys&) const = default;
  };
  struct Values {  // per layer: one row for each cell, or (transposed) one row for each element
    int32_t type = 0;
    uint64_t bytes = 0;  // of a row, or of one element when transposed
    uint32_t rows = 0;   // transposed: how many rows of `cells` elements
    bool operator==(const Values&) const = default;
  };

  size_t cell_extra_bytes = 0;  // more position data of multi-dimensional RoPE
  bool values_transposed = false;
  std::vector<Keys> keys;
  std::vector<Values> values;

  bool operator==(const StateLayout&) const = default;
  // Bytes of a state of so many cells, header included.
  size_t BytesFor(TokenPos cells) const;
  // What one more cell adds.
  size_t BytesPerCell() const;
  // One line for a fingerprint: "values_transposed=1 layers=30 k=1:384 v=1:2x192 ...", runs of
  // equal layers folded.
  std::string Describe() const;
};

// Learns the layout from an export of a sequence that holds positions [0, cells). kInvalid: this is
// not the plain full-attention form (a sliding window, a recurrent state, several streams, a form
// we do not know).
Result<StateLayout> LearnStateLayout(std::span<const std::byte> state, TokenPos cells);

// Brings an export into its one canonical form: sequence ids 0, cells in the order of their
// positions (libllama writes them in the order they lie in its cache). So equal KV gives equal
// bytes, wherever it lay. kCorrupt when the state does not hold exactly `range` in this layout.
Status CanonicalizeState(const StateLayout& layout, TokenRange range,
                         std::vector<std::byte>& state);

// A canonical state of `range` whose rows are all zero, to write over cells.
std::vector<std::byte> ZeroState(const StateLayout& layout, TokenRange range);

// kCorrupt unless `state` is a canonical state of exactly `range` in this layout.
Status CheckState(const StateLayout& layout, TokenRange range, std::span<const std::byte> state);

}  // namespace tenuto
