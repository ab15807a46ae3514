// `tenuto chat`: a terminal client of a running server. Knows nothing of the store: everything
// comes over HTTP. One thread; takes over SIGINT while it runs interactively.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

namespace tenuto {

inline constexpr const char* kDefaultUrl = "http://127.0.0.1:8585";

struct ChatOptions {
  std::string session = "chat";
  std::string url = kDefaultUrl;
  std::string api_key;  // empty: none is sent
  std::string system;   // for the first turn of a session; empty: none
  std::optional<int32_t> max_tokens;
  std::optional<double> temperature;
  std::optional<uint64_t> seed;
};

// Where it reads and writes. Interactive: a person types at a terminal; then there are prompts, and
// Ctrl-C stops the answer at hand instead of the program.
struct ChatStreams {
  int input = 0;       // descriptor
  std::ostream& out;   // answers
  std::ostream& note;  // everything else
  bool interactive = false;
  bool colours = false;
};

// Talks until end of input or /quit. 0; 1 when the server can't be reached or, without a person
// there to go on, when a turn failed.
int RunChat(const ChatOptions& options, const ChatStreams& streams);

// On the process's own streams.
int RunChat(const ChatOptions& options);

}  // namespace tenuto
