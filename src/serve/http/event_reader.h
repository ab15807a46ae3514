// Cuts a byte stream into server-sent events. Pure; thread-compatible. Knows `data:` and comments,
// the only lines we send; others are skipped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tenuto {

class EventReader {
 public:
  // on_event: the data of one event, its lines joined by '\n'; false: enough. on_comment may be
  // empty.
  EventReader(std::function<bool(std::string_view)> on_event,
              std::function<void(std::string_view)> on_comment);

  // False once on_event said so; bytes after that are dropped.
  bool Feed(std::string_view bytes);

 private:
  bool TakeLine(std::string_view line);

  const std::function<bool(std::string_view)> on_event_;
  const std::function<void(std::string_view)> on_comment_;
  std::string line_;  // begun
  std::string data_;
  bool has_data_ = false;
  bool done_ = false;
};

}  // namespace tenuto
