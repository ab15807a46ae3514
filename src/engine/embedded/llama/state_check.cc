#include "engine/embedded/llama/state_check.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

namespace tenuto {
namespace {

constexpr uint32_t kMagic = 0xaf143cd8;
constexpr size_t kHeaderBytes = 4 + 4 + 4 + 4;      // magic, sequence, streams, cells
constexpr size_t kCellBytes = 4 + 4 + 4;            // position, count of sequences, sequence
constexpr size_t kTailBytes = 4 + 4;                // transposed, layers
constexpr size_t kKeysHeadBytes = 4 + 8;            // type, row bytes
constexpr size_t kValuesHeadBytes = 4 + 8;          // type, row bytes
constexpr size_t kTransposedHeadBytes = 4 + 4 + 4;  // type, element bytes, rows
constexpr uint32_t kLayersMax = 4096;
constexpr uint64_t kRowBytesMax = uint64_t{1} << 32;

Error Corrupt(const std::string& what) {
  return {Code::kCorrupt, "a KV state was refused: " + what};
}

template <typename T>
T Load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void Store(std::vector<std::byte>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, size_t at)
      : bytes_(bytes), at_(std::min(at, bytes.size())) {}
  size_t left() const { return bytes_.size() - at_; }
  template <typename T>
  std::optional<T> Read() {
    if (left() < sizeof(T)) return std::nullopt;
    const T value = Load<T>(bytes_, at_);
    at_ += sizeof(T);
    return value;
  }
  bool Skip(uint64_t count, uint64_t size) {
    if (size == 0 || size > kRowBytesMax || count > left() / size) return false;
    at_ += static_cast<size_t>(count * size);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_;
};

// Reads the part after the cells. Nothing when it does not end exactly where the bytes end.
std::optional<StateLayout> ReadLayers(Cursor cursor, uint64_t cells) {
  StateLayout layout;
  const auto transposed = cursor.Read<uint32_t>();
  const auto layers = cursor.Read<uint32_t>();
  if (!transposed || *transposed > 1 || !layers || *layers == 0 || *layers > kLayersMax)
    return std::nullopt;
  layout.values_transposed = *transposed == 1;
  for (uint32_t i = 0; i < *layers; ++i) {
    const auto type = cursor.Read<int32_t>();
    const auto row = cursor.Read<uint64_t>();
    if (!type || !row || !cursor.Skip(cells, *row)) return std::nullopt;
    layout.keys.push_back({*type, *row});
  }
  if (cursor.left() == 0) return layout;  // models that keep no values of their own
  for (uint32_t i = 0; i < *layers; ++i) {
    const auto type = cursor.Read<int32_t>();
    if (!type) return std::nullopt;
    StateLayout::Values values;
    values.type = *type;
    if (layout.values_transposed) {
      const auto element = cursor.Read<uint32_t>();
      const auto rows = cursor.Read<uint32_t>();
      if (!element || !rows || *element == 0 || !cursor.Skip(*rows, *element * cells))
        return std::nullopt;
      values.bytes = *element;
      values.rows = *rows;
    } else {
      const auto row = cursor.Read<uint64_t>();
      if (!row || !cursor.Skip(cells, *row)) return std::nullopt;
      values.bytes = *row;
    }
    layout.values.push_back(values);
  }
  if (cursor.left() != 0) return std::nullopt;
  return layout;
}

size_t CellOffset(const StateLayout& layout, size_t index) {
  return kHeaderBytes + index * (kCellBytes + layout.cell_extra_bytes);
}

Status CheckFrame(const StateLayout& layout, TokenRange range, std::span<const std::byte> state) {
  if (range.begin < 0 || range.size() <= 0) return Corrupt("its range is empty");
  if (state.size() != layout.BytesFor(range.size())) {
    return Corrupt("it has " + std::to_string(state.size()) + " bytes where " +
                   std::to_string(layout.BytesFor(range.size())) + " belong");
  }
  if (Load<uint32_t>(state, 0) != kMagic) return Corrupt("its magic number is another");
  if (Load<uint32_t>(state, 8) != 1) return Corrupt("it has not one stream");
  if (Load<uint32_t>(state, 12) != static_cast<uint32_t>(range.size())) {
    return Corrupt("it holds another number of cells");
  }
  return Ok();
}

Status CheckLayers(const StateLayout& layout, TokenRange range, std::span<const std::byte> state) {
  const auto cells = static_cast<size_t>(range.size());
  auto found = ReadLayers(Cursor(state, CellOffset(layout, cells)), cells);
  if (!found) return Corrupt("its layers do not fill it");
  found->cell_extra_bytes = layout.cell_extra_bytes;
  if (*found != layout) return Corrupt("its layers have other types or sizes");
  return Ok();
}

// Moves rows [0, order.size()) of `row_bytes` each at `offset` so that row i becomes the one that
// was order[i].
void PermuteRows(std::vector<std::byte>& state, size_t offset, size_t row_bytes,
                 std::span<const uint32_t> order, std::vector<std::byte>& scratch) {
  scratch.resize(order.size() * row_bytes);
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(scratch.data() + i * row_bytes, state.data() + offset + order[i] * row_bytes,
                row_bytes);
  }
  std::memcpy(state.data() + offset, scratch.data(), scratch.size());
}

void PermuteState(const StateLayout& layout, std::span<const uint32_t> order,
                  std::vector<std::byte>& state) {
  std::vector<std::byte> scratch;
  const size_t cells = order.size();
  PermuteRows(state, kHeaderBytes, kCellBytes + layout.cell_extra_bytes, order, scratch);
  size_t at = CellOffset(layout, cells) + kTailBytes;
  for (const StateLayout::Keys& keys : layout.keys) {
    at += kKeysHeadBytes;
    PermuteRows(state, at, static_cast<size_t>(keys.row_bytes), order, scratch);
    at += cells * static_cast<size_t>(keys.row_bytes);
  }
  for (const StateLayout::Values& values : layout.values) {
    const auto bytes = static_cast<size_t>(values.bytes);
    at += layout.values_transposed ? kTransposedHeadBytes : kValuesHeadBytes;
    const size_t rows = layout.values_transposed ? values.rows : 1;
    for (size_t row = 0; row < rows; ++row) {
      PermuteRows(state, at, bytes, order, scratch);
      at += cells * bytes;
    }
  }
}

}  // namespace

size_t StateLayout::BytesPerCell() const {
  size_t bytes = kCellBytes + cell_extra_bytes;
  for (const Keys& k : keys)
    bytes += static_cast<size_t>(k.row_bytes);
  for (const Values& v : values)
    bytes += static_cast<size_t>(v.bytes) * (values_transposed ? v.rows : 1);
  return bytes;
}

size_t StateLayout::BytesFor(TokenPos cells) const {
  const size_t value_head = values_transposed ? kTransposedHeadBytes : kValuesHeadBytes;
  return kHeaderBytes + kTailBytes + keys.size() * kKeysHeadBytes + values.size() * value_head +
         static_cast<size_t>(cells) * BytesPerCell();
}

std::string StateLayout::Describe() const {
  std::string text = "values_transposed=" + std::to_string(values_transposed ? 1 : 0) +
                     " cell_extra=" + std::to_string(cell_extra_bytes) +
                     " layers=" + std::to_string(keys.size());
  for (size_t i = 0; i < keys.size();) {
    size_t same = i + 1;
    while (same < keys.size() && keys[same] == keys[i] &&
           (values.empty() || values[same] == values[i]))
      ++same;
    text += " " + std::to_string(same - i) + "x(k" + std::to_string(keys[i].type) + ":" +
            std::to_string(keys[i].row_bytes);
    if (!values.empty()) {
      text += " v" + std::to_string(values[i].type) + ":" + std::to_string(values[i].bytes) + ":" +
              std::to_string(values[i].rows);
    }
    text += ")";
    i = same;
  }
  return text;
}

Result<StateLayout> LearnStateLayout(std::span<const std::byte> state, TokenPos cells) {
  const Error unknown(Code::kInvalid,
                      "libllama writes this model's state in a form that is not known here");
  const auto count = static_cast<uint64_t>(cells);
  if (cells <= 0 || state.size() < kHeaderBytes || Load<uint32_t>(state, 0) != kMagic ||
      Load<uint32_t>(state, 8) != 1 || Load<uint32_t>(state, 12) != count) {
    return unknown;
  }
  for (const size_t extra : {size_t{0}, size_t{8}, size_t{12}}) {
    StateLayout probe;
    probe.cell_extra_bytes = extra;
    const size_t after = CellOffset(probe, static_cast<size_t>(cells));
    if (after > state.size()) break;
    bool cells_fit = true;
    for (size_t i = 0; i < static_cast<size_t>(cells); ++i) {
      const size_t at = CellOffset(probe, i);
      cells_fit = cells_fit && Load<int32_t>(state, at) == static_cast<int32_t>(i) &&
                  Load<uint32_t>(state, at + 4) == 1;
    }
    if (!cells_fit) continue;
    auto layout = ReadLayers(Cursor(state, after), count);
    if (!layout) continue;
    layout->cell_extra_bytes = extra;
    return *std::move(layout);
  }
  return unknown;
}

Status CanonicalizeState(const StateLayout& layout, TokenRange range,
                         std::vector<std::byte>& state) {
  TENUTO_TRY(CheckFrame(layout, range, state));
  Store<int32_t>(state, 4, 0);
  const auto cells = static_cast<size_t>(range.size());
  std::vector<uint32_t> order(cells, UINT32_MAX);  // position -> where its cell lies
  bool sorted = true;
  for (size_t i = 0; i < cells; ++i) {
    const size_t at = CellOffset(layout, i);
    const int64_t index = int64_t{Load<int32_t>(state, at)} - range.begin;
    if (index < 0 || index >= range.size() || order[static_cast<size_t>(index)] != UINT32_MAX) {
      return Corrupt("its positions are not those of the range");
    }
    if (Load<uint32_t>(state, at + 4) != 1) return Corrupt("a cell belongs to several sequences");
    order[static_cast<size_t>(index)] = static_cast<uint32_t>(i);
    sorted = sorted && index == static_cast<int64_t>(i);
    Store<int32_t>(state, at + 8 + layout.cell_extra_bytes, 0);
  }
  TENUTO_TRY(CheckLayers(layout, range, state));
  if (!sorted) PermuteState(layout, order, state);
  return Ok();
}

std::vector<std::byte> ZeroState(const StateLayout& layout, TokenRange range) {
  const auto cells = static_cast<size_t>(range.size());
  std::vector<std::byte> state(layout.BytesFor(range.size()));
  Store(state, 0, kMagic);
  Store(state, 8, uint32_t{1});
  Store(state, 12, static_cast<uint32_t>(cells));
  for (size_t i = 0; i < cells; ++i) {
    Store(state, CellOffset(layout, i), range.begin + static_cast<int32_t>(i));
    Store(state, CellOffset(layout, i) + 4, uint32_t{1});
  }
  size_t at = CellOffset(layout, cells);
  Store(state, at, uint32_t{layout.values_transposed});
  Store(state, at + 4, static_cast<uint32_t>(layout.keys.size()));
  at += kTailBytes;
  for (const StateLayout::Keys& keys : layout.keys) {
    Store(state, at, keys.type);
    Store(state, at + 4, keys.row_bytes);
    at += kKeysHeadBytes + cells * static_cast<size_t>(keys.row_bytes);
  }
  for (const StateLayout::Values& values : layout.values) {
    Store(state, at, values.type);
    if (layout.values_transposed) {
      Store(state, at + 4, static_cast<uint32_t>(values.bytes));
      Store(state, at + 8, values.rows);
      at += kTransposedHeadBytes + cells * static_cast<size_t>(values.bytes) * values.rows;
    } else {
      Store(state, at + 4, values.bytes);
      at += kValuesHeadBytes + cells * static_cast<size_t>(values.bytes);
    }
  }
  return state;
}

Status CheckState(const StateLayout& layout, TokenRange range, std::span<const std::byte> state) {
  TENUTO_TRY(CheckFrame(layout, range, state));
  if (Load<int32_t>(state, 4) != 0) return Corrupt("it names a sequence");
  for (size_t i = 0; i < static_cast<size_t>(range.size()); ++i) {
    const size_t at = CellOffset(layout, i);
    if (Load<int32_t>(state, at) != range.begin + static_cast<int32_t>(i)) {
      return Corrupt("its positions are not those of the range, in order");
    }
    if (Load<uint32_t>(state, at + 4) != 1 ||
        Load<int32_t>(state, at + 8 + layout.cell_extra_bytes) != 0) {
      return Corrupt("a cell names other sequences");
    }
  }
  return CheckLayers(layout, range, state);
}

}  // namespace tenuto
