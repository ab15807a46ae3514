#include "serve/http/client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <span>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/fd.h"
#include "io/os_error.h"
#include "serve/http/event_reader.h"
#include "serve/http/types.h"
#include "serve/http/unix_path.h"

namespace tenuto {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr int kSilenceMs = 600'000;  // a long prefill without a stream is silent
constexpr size_t kResponseHeadBytesMax = 64 * kKiB;
constexpr size_t kReadBytes = 64 * kKiB;

Error Unavailable(const std::string& what) {
  return {Code::kUnavailable, what};
}

struct Address {
  std::string socket_path;  // a Unix socket; else:
  std::string host;
  std::string port;
  std::string Show() const { return socket_path.empty() ? host + ":" + port : socket_path; }
};

Result<Address> ParseUrl(std::string_view url) {
  Address address;
  if (url.starts_with("unix:")) {
    address.socket_path = url.substr(5);
    if (address.socket_path.empty()) return Error(Code::kInvalid, "unix: needs a path");
    return address;
  }
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    return Error(Code::kInvalid, "the server's address must be http://host:port or unix:/path");
  }
  std::string_view rest = url.substr(kScheme.size());
  rest = rest.substr(0, rest.find('/'));
  std::string_view host = rest;
  std::string_view port = "80";
  const size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos) {
    host = rest.substr(0, colon);
    port = rest.substr(colon + 1);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || port.empty()) return Error(Code::kInvalid, "the address names no host");
  address.host = host;
  address.port = port;
  return address;
}

Result<Fd> ConnectUnix(const std::string& path) {
  TENUTO_ASSIGN(const UnixPath reachable, UnixPath::Open(path));
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return Error(Code::kIo, "no socket: " + OsErrorText(errno));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = reachable.short_path();
  std::copy(name.begin(), name.end(), address.sun_path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Unavailable("no server answers on " + path + " (" + OsErrorText(errno) + ")");
  }
  return fd;
}

Result<Fd> ConnectTcp(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (rc != 0) return Unavailable("host " + address.host + ": " + ::gai_strerror(rc));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  std::string why = "no address";
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    Fd fd(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd.get() >= 0 && ::connect(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0) {
      const int one = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
      return fd;
    }
    why = OsErrorText(errno);
  }
  return Unavailable("no server answers on " + address.Show() + " (" + why + ")");
}

bool HasLineBreak(std::string_view text) {
  return text.find_first_of("\r\n") != std::string_view::npos;
}

}  // namespace

struct HttpClient::State {
  Address address;
  std::string api_key;

  Mutex mutex;
  bool requesting TENUTO_GUARDED_BY(mutex) = false;
  bool aborted TENUTO_GUARDED_BY(mutex) = false;  // the request at hand
  int fd TENUTO_GUARDED_BY(mutex) = -1;           // its socket, as long as it is open

  Result<std::string> Encode(const ClientRequest& request) const;
  Status SendAll(int socket, std::string_view bytes);
  Result<size_t> ReadSome(int socket, std::span<char> out);
  Result<ClientResponse> Request(const ClientRequest& request, EventReader* events);
  Result<ClientResponse> Exchange(const ClientRequest& request, EventReader* events);
  bool Attach(int socket);
};

Result<std::string> HttpClient::State::Encode(const ClientRequest& request) const {
  std::string out = request.method + " " + request.target + " HTTP/1.1\r\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    out.append(name).append(": ").append(value).append("\r\n");
  };
  if (HasLineBreak(request.method) || HasLineBreak(request.target) ||
      request.target.find(' ') != std::string::npos || HasLineBreak(api_key)) {
    return Error(Code::kInvalid, "the request holds a line break or a blank in its target");
  }
  const bool v6 = address.host.find(':') != std::string::npos;
  const std::string host = v6 ? "[" + address.host + "]" : address.host;
  add("Host", address.socket_path.empty() ? host + ":" + address.port : "localhost");
  add("Connection", "close");
  if (!api_key.empty()) add("Authorization", "Bearer " + api_key);
  for (const auto& [name, value] : request.headers) {
    if (HasLineBreak(name) || HasLineBreak(value)) {
      return Error(Code::kInvalid, "a header holds a line break");
    }
    add(name, value);
  }
  if (!request.body.empty()) add("Content-Type", "application/json");
  if (!request.body.empty() || request.method == "POST") {
    add("Content-Length", std::to_string(request.body.size()));
  }
  out += "\r\n";
  out += request.body;
  return out;
}

// False: aborted meanwhile. -1 before the socket is closed: its number may be another's at once.
bool HttpClient::State::Attach(int socket) {
  MutexLock lock(mutex);
  fd = socket;
  return !aborted;
}

Status HttpClient::State::SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    // A server that refuses a request early closes its side; its answer may be there to read.
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return Ok();
    if (n < 0) return Unavailable("sending to " + address.Show() + ": " + OsErrorText(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Ok();
}

Result<size_t> HttpClient::State::ReadSome(int socket, std::span<char> out) {
  pollfd ready{socket, POLLIN, 0};
  int rc = 0;
  do {
    rc = ::poll(&ready, 1, kSilenceMs);
  } while (rc < 0 && errno == EINTR);
  if (rc == 0) return Unavailable(address.Show() + " has been silent for too long");
  ssize_t n = 0;
  do {
    n = ::recv(socket, out.data(), out.size(), 0);
  } while (n < 0 && errno == EINTR);
  {
    MutexLock lock(mutex);
    if (aborted) return Unavailable("the request was broken off");
  }
  if (n < 0)
    return Unavailable("the connection to " + address.Show() + " broke: " + OsErrorText(errno));
  return static_cast<size_t>(n);
}

Result<ClientResponse> HttpClient::State::Exchange(const ClientRequest& request,
                                                   EventReader* events) {
  TENUTO_ASSIGN(const std::string bytes, Encode(request));
  auto connected =
      address.socket_path.empty() ? ConnectTcp(address) : ConnectUnix(address.socket_path);
  if (!connected) return std::move(connected).error();
  const Fd socket = std::move(connected).value();
  struct Detach {
    ~Detach() { (void)state.Attach(-1); }
    State& state;
  } const detach{*this};
  if (!Attach(socket.get())) return Unavailable("the request was broken off");
  TENUTO_TRY(SendAll(socket.get(), bytes));

  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.header_limit(kResponseHeadBytesMax);
  parser.body_limit(boost::none);
  if (request.method == "HEAD") parser.skip(true);
  ClientResponse response;
  std::string pending;
  std::array<char, kReadBytes> buffer;
  bool hung_up = false;
  while (!parser.is_done() && !hung_up) {
    TENUTO_ASSIGN(const size_t n, ReadSome(socket.get(), buffer));
    boost::system::error_code ec;
    if (n == 0) {
      // put_eof asserts that there was a byte before it.
      if (!parser.got_some())
        return Unavailable(address.Show() + " closed the connection unanswered");
      parser.put_eof(ec);
      if (ec || !parser.is_done()) {
        return Unavailable(address.Show() + " closed the connection in mid-answer");
      }
      break;
    }
    pending.append(buffer.data(), n);
    while (!pending.empty() && !parser.is_done()) {
      const size_t used = parser.put(asio::buffer(pending), ec);
      pending.erase(0, used);
      if (ec == http::error::need_more || (!ec && used == 0)) break;
      if (ec) return Error(Code::kCorrupt, address.Show() + " sent no HTTP: " + ec.message());
    }
    const auto& message = parser.get();
    const bool is_stream =
        events != nullptr && parser.is_header_done() &&
        std::string_view(message[http::field::content_type]).starts_with("text/event-stream");
    if (is_stream) {
      hung_up = !events->Feed(message.body());
      parser.get().body().clear();
    }
  }
  const auto& message = parser.get();
  response.status = static_cast<int>(message.result_int());
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    response.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  response.body = std::move(parser.get().body());
  return response;
}

std::string_view ClientResponse::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

HttpClient::HttpClient(std::shared_ptr<State> state) : state_(std::move(state)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpClient> HttpClient::Open(std::string_view url) {
  auto state = std::make_shared<State>();
  TENUTO_ASSIGN(state->address, ParseUrl(url));
  return HttpClient(std::move(state));
}

void HttpClient::SetApiKey(std::string key) {
  state_->api_key = std::move(key);
}

Result<ClientResponse> HttpClient::State::Request(const ClientRequest& request,
                                                  EventReader* events) {
  {
    MutexLock lock(mutex);
    requesting = true;
    aborted = false;
  }
  auto response = Exchange(request, events);
  MutexLock lock(mutex);
  requesting = false;
  return response;
}

Result<ClientResponse> HttpClient::Request(const ClientRequest& request) {
  return state_->Request(request, nullptr);
}

Result<ClientResponse> HttpClient::Stream(const ClientRequest& request,
                                          const std::function<bool(std::string_view)>& on_event,
                                          const std::function<void(std::string_view)>& on_comment) {
  EventReader events(on_event, on_comment);
  return state_->Request(request, &events);
}

void HttpClient::Abort() {
  MutexLock lock(state_->mutex);
  if (!state_->requesting) return;
  state_->aborted = true;
  if (state_->fd >= 0) ::shutdown(state_->fd, SHUT_RDWR);
}

}  // namespace tenuto
