// The ids of a stretch of a session's line, close together: what a search found is named without
// reading it in the log, whose pages are many and cold in a long session. Plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"

namespace tenuto {

class TurnIds {
 public:
  // Lines come one after the other; a gap or an id of another length begins anew.
  void Add(uint64_t line, const TurnId& id) {
    if (id.empty()) return;
    if (length_ != id.value.size() || line != first_ + Count()) {
      first_ = line;
      length_ = id.value.size();
      text_.clear();
    }
    text_ += id.value;
  }
  std::optional<TurnId> Find(uint64_t line) const {
    if (line < first_ || line - first_ >= Count()) return std::nullopt;
    return TurnId{text_.substr((line - first_) * length_, length_)};
  }
  size_t MemoryBytes() const { return text_.empty() ? 0 : text_.capacity(); }

 private:
  uint64_t Count() const { return length_ == 0 ? 0 : text_.size() / length_; }
  uint64_t first_ = 0;
  size_t length_ = 0;
  std::string text_;
};

}  // namespace tenuto
