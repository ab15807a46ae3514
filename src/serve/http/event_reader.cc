#include "serve/http/event_reader.h"

#include <utility>

namespace tenuto {

EventReader::EventReader(std::function<bool(std::string_view)> on_event,
                         std::function<void(std::string_view)> on_comment)
    : on_event_(std::move(on_event)), on_comment_(std::move(on_comment)) {}

bool EventReader::Feed(std::string_view bytes) {
  while (!done_ && !bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    const std::string line = std::exchange(line_, {});
    if (!TakeLine(line)) done_ = true;
  }
  return !done_;
}

bool EventReader::TakeLine(std::string_view line) {
  if (line.empty()) {
    if (!std::exchange(has_data_, false)) return true;
    const std::string data = std::exchange(data_, {});
    return on_event_(data);
  }
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name.empty()) {
    if (on_comment_) on_comment_(value);
  } else if (name == "data") {
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  return true;
}

}  // namespace tenuto
