// `tenuto chat`: a terminal client of a running server. Knows nothing of the store: everything
// comes over HTTP. One thread; takes over SIGINT while it runs.
#pragma once

#include <cstdint>
#include <optional>
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

// Talks until end of input or /quit. 0; 1 when the server can't be reached or refuses.
int RunChat(const ChatOptions& options);

}  // namespace tenuto
