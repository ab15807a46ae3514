// Settings of the HTTP side. Plain values; the composition root fills them from flags and the TOML
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/limits.h"

namespace tenuto {

// Times in milliseconds. Tests make them short.
struct HttpLimits {
  size_t body_bytes_max = kRequestBodyBytesMax;
  size_t header_bytes_max = kRequestHeaderBytesMax;
  size_t headers_max = kRequestHeadersMax;
  size_t connections_max = kConnectionsMax;
  // All request bodies being read or answered together; more is answered 503.
  size_t bodies_bytes_max = 512 * kMiB;
  // What a client has not read yet of a stream; more means that it is too slow and its turn is
  // cancelled.
  size_t stream_backlog_bytes_max = 1 * kMiB;
  // What may arrive behind a request that is still being answered (pipelining) before reading
  // stops.
  size_t pipelined_bytes_max = 64 * kKiB;
  // How often it is asked then whether the client is still there.
  int64_t end_watch_ms = 2'000;
  int64_t idle_timeout_ms = 120'000;   // between requests of a connection
  int64_t header_timeout_ms = 10'000;  // from the first byte of a request to the end of its head
  int64_t body_timeout_ms = 60'000;    // from there to the end of its body
  int64_t write_timeout_ms = 60'000;   // without a byte of an answer being taken by the client
  int64_t drain_timeout_ms = 5'000;    // Stop() waits this long for answers to be flushed
};

struct ServeSettings {
  std::string host = "127.0.0.1";  // an address or a name; beyond loopback only with an api_key
  uint16_t port = 8585;            // 0: any free one, see HttpServer::port()
  std::string control_socket;      // path of the Unix socket, mode 0600; empty: none
  std::string api_key;             // empty: none asked for (loopback only)
  std::string model_alias;         // name of the model in answers; empty: the engine's
  bool strict = false;  // unknown request fields are 400 instead of being listed in tenuto.ignored
  int threads = 2;      // event loops
  int64_t keep_alive_ms = 5'000;    // silence of a stream before a comment is sent
  int64_t prefill_note_ms = 2'000;  // from here on, prefill progress is sent as comments
  HttpLimits limits;
};

}  // namespace tenuto
