#include "serve/http/listener.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "io/clock.h"
#include "serve/http/connection.h"
#include "serve/http/encode.h"
#include "serve/http/unix_path.h"

namespace tenuto {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using LocalProtocol = asio::local::stream_protocol;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);

// Descriptors that are no connection's: the log, segment files, the model, listeners, loops.
constexpr uint64_t kDescriptorsReserved = 256;

// A connection costs a descriptor; the soft limit of a login shell is often 1024. Returns what
// holds then.
uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 2 * kDescriptorsReserved;
  const rlimit before = limit;
  limit.rlim_cur = limit.rlim_max;
  if (before.rlim_cur < before.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) != 0) limit = before;
  return limit.rlim_cur;
}

Result<std::vector<tcp::endpoint>> Resolve(asio::io_context& context, const std::string& host,
                                           uint16_t port) {
  error_code ec;
  const asio::ip::address literal = asio::ip::make_address(host, ec);
  if (!ec) return std::vector<tcp::endpoint>{tcp::endpoint(literal, port)};
  tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(host, std::to_string(port), tcp::resolver::flags::passive, ec);
  if (ec || found.empty()) {
    return Error(Code::kInvalid, "host '" + host + "' is no address and no known name").At("host");
  }
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found)
    endpoints.push_back(entry.endpoint());
  return endpoints;
}

Status CheckReach(const std::vector<tcp::endpoint>& endpoints, const ServeSettings& settings) {
  if (!settings.api_key.empty()) return Ok();
  for (const tcp::endpoint& endpoint : endpoints) {
    if (endpoint.address().is_loopback()) continue;
    return Error(Code::kDenied, "host " + settings.host +
                                    " can be reached from other machines, and anyone who reaches "
                                    "the server may use any session: give an --api-key, or listen "
                                    "on 127.0.0.1")
        .At("host");
  }
  return Ok();
}

Error BindError(const error_code& ec, const tcp::endpoint& endpoint) {
  const std::string where =
      "port " + std::to_string(endpoint.port()) + " on " + endpoint.address().to_string();
  if (ec == asio::error::address_in_use) {
    return Error(Code::kConflict,
                 where + " is taken by another program; choose another with --port")
        .At("port");
  }
  if (ec == boost::system::errc::permission_denied) {
    return Error(Code::kDenied, where + ": no right to listen there").At("port");
  }
  if (ec == boost::system::errc::address_not_available) {
    return Error(Code::kInvalid, endpoint.address().to_string() + " is no address of this machine")
        .At("host");
  }
  return Error(Code::kIo, where + ": " + ec.message());
}

Result<tcp::acceptor> ListenTcp(asio::io_context& context, const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(context);
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && endpoint.protocol() == tcp::v6()) {
    acceptor.set_option(asio::ip::v6_only(true), ec);
  }
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return BindError(ec, endpoint);
  return acceptor;
}

Result<LocalProtocol::acceptor> ListenLocal(asio::io_context& context, const std::string& path) {
  TENUTO_ASSIGN(const UnixPath address, UnixPath::Open(path));
  error_code ec;
  {
    // A socket file that nobody answers on was left by a process that died.
    LocalProtocol::socket probe(context);
    probe.connect(LocalProtocol::endpoint(address.short_path()), ec);
    if (!ec) {
      return Error(Code::kConflict,
                   "another server answers on " + path + "; two servers cannot share a store");
    }
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      return Error(Code::kConflict, path + " exists and is no socket");
    }
    unlink(path.c_str());
  }
  LocalProtocol::acceptor acceptor(context);
  acceptor.open(LocalProtocol(), ec);
  // On Linux the mode of the file comes from the descriptor: no moment with wider rights.
  if (!ec && fchmod(acceptor.native_handle(), 0600) != 0) {
    ec = error_code(errno, boost::system::system_category());
  }
  if (!ec) acceptor.bind(LocalProtocol::endpoint(address.short_path()), ec);
  if (!ec && chmod(path.c_str(), 0600) != 0) {
    ec = error_code(errno, boost::system::system_category());
  }
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return Error(Code::kIo, "control socket " + path + ": " + ec.message());
  return acceptor;
}

}  // namespace

size_t ConnectionsFor(size_t wished, uint64_t descriptors) {
  const uint64_t free =
      descriptors > 2 * kDescriptorsReserved ? descriptors - kDescriptorsReserved : descriptors / 2;
  return static_cast<size_t>(std::clamp<uint64_t>(free, 1, std::max<uint64_t>(wished, 1)));
}

// Acceptors live on the first loop; connections go round the loops.
struct HttpListener::State {
  std::shared_ptr<HttpShared> shared = std::make_shared<HttpShared>();
  std::vector<std::shared_ptr<Loop>> loops;
  std::string control_socket;
  uint16_t port = 0;
  std::string overload;  // the answer to a connection too many
  bool stopped = false;
  Mutex stop_mutex;

  // --- on the first loop, and before it runs ---
  std::vector<std::unique_ptr<tcp::acceptor>> tcp_acceptors;
  std::unique_ptr<LocalProtocol::acceptor> local_acceptor;
  size_t next_loop = 0;

  Status ListenAll(const ServeSettings& settings);
  template <typename Acceptor>
  void Accept(Acceptor* acceptor, bool control);
  void Take(StreamSocket socket, const std::shared_ptr<Loop>& loop, bool control);
  void CloseAcceptors();
};

Status HttpListener::State::ListenAll(const ServeSettings& settings) {
  asio::io_context& context = loops[0]->context();
  TENUTO_ASSIGN(auto endpoints, Resolve(context, settings.host, settings.port));
  TENUTO_TRY(CheckReach(endpoints, settings));
  std::optional<Error> first_error;
  for (tcp::endpoint endpoint : endpoints) {
    if (port != 0) endpoint.port(port);
    auto acceptor = ListenTcp(context, endpoint);
    if (!acceptor) {
      if (acceptor.error().code() == Code::kConflict) return std::move(acceptor).error();
      // A name may have an IPv6 address on a machine without IPv6: one address that works is
      // enough.
      if (!first_error) first_error = std::move(acceptor).error();
      continue;
    }
    port = acceptor->local_endpoint().port();
    tcp_acceptors.push_back(std::make_unique<tcp::acceptor>(std::move(acceptor).value()));
  }
  if (tcp_acceptors.empty() && first_error) return std::move(*first_error);
  if (!settings.control_socket.empty()) {
    TENUTO_ASSIGN(auto acceptor, ListenLocal(context, settings.control_socket));
    local_acceptor = std::make_unique<LocalProtocol::acceptor>(std::move(acceptor));
    control_socket = settings.control_socket;
  }
  return Ok();
}

template <typename Acceptor>
void HttpListener::State::Accept(Acceptor* acceptor, bool control) {
  const std::shared_ptr<Loop>& loop = loops[next_loop++ % loops.size()];
  auto peer = std::make_shared<StreamSocket>(loop->context());
  acceptor->async_accept(*peer, [this, acceptor, control, loop, peer](const error_code& ec) {
    if (!acceptor->is_open()) return;
    if (!ec) {
      error_code ignored;
      if (!control) peer->set_option(tcp::no_delay(true), ignored);
      Take(std::move(*peer), loop, control);
      return Accept(acceptor, control);
    }
    // Out of descriptors, most likely: the connections at hand go on, new ones wait.
    Log(LogLevel::kWarn, "http.accept_failed", {{"error", ec.message()}});
    auto pause = std::make_shared<asio::steady_timer>(loops[0]->context(), kAcceptPause);
    pause->async_wait([this, acceptor, control, pause](const error_code& pause_ec) {
      if (!pause_ec && acceptor->is_open()) Accept(acceptor, control);
    });
  });
}

void HttpListener::State::Take(StreamSocket socket, const std::shared_ptr<Loop>& loop,
                               bool control) {
  if (!shared->TryAddConnection()) {
    error_code ec;
    socket.non_blocking(true, ec);
    socket.write_some(asio::buffer(overload), ec);
    return;
  }
  auto connection = std::make_shared<Connection>(loop, shared, std::move(socket), control);
  loop->Post([connection] { connection->Start(); });
}

void HttpListener::State::CloseAcceptors() {
  error_code ec;
  for (const auto& acceptor : tcp_acceptors)
    acceptor->close(ec);
  if (local_acceptor && local_acceptor->is_open()) {
    local_acceptor->close(ec);
    unlink(control_socket.c_str());
  }
}

HttpListener::HttpListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpListener::~HttpListener() {
  Stop();
}

Result<std::unique_ptr<HttpListener>> HttpListener::Open(const ServeSettings& settings,
                                                         HttpHandlers handlers) {
  TENUTO_CHECK(settings.threads > 0);
  const uint64_t descriptors = RaiseDescriptorLimit();
  auto state = std::make_unique<State>();
  state->shared->limits = settings.limits;
  size_t& connections_max = state->shared->limits.connections_max;
  connections_max = ConnectionsFor(connections_max, descriptors);
  if (connections_max < settings.limits.connections_max) {
    Log(LogLevel::kWarn, "http.connections_capped",
        {{"connections", uint64_t{connections_max}}, {"open_files_limit", descriptors}});
  }
  state->shared->handlers = std::move(handlers);
  const HttpResponse& overload = state->shared->handlers.overload;
  state->overload = EncodeResponseHead(overload, {ResponseFraming::kLength, false,
                                                  SystemClock().UnixMs() / 1000}) +
                    overload.body;
  for (int i = 0; i < settings.threads; ++i)
    state->loops.push_back(std::make_shared<Loop>());
  TENUTO_TRY(state->ListenAll(settings));
  State* raw = state.get();
  for (const auto& acceptor : raw->tcp_acceptors)
    raw->Accept(acceptor.get(), false);
  if (raw->local_acceptor) raw->Accept(raw->local_acceptor.get(), true);
  for (const auto& loop : raw->loops)
    loop->Start();
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(state)));
}

Status HttpListener::CheckAddress(ServeSettings settings) {
  settings.control_socket.clear();
  State state;
  state.loops.push_back(std::make_shared<Loop>());
  return state.ListenAll(settings);
}

uint16_t HttpListener::port() const {
  return state_->port;
}

size_t HttpListener::connections() const {
  return state_->shared->connections();
}

void HttpListener::BeginShutdown() {
  if (state_->shared->closing.exchange(true)) return;
  state_->loops[0]->Post([state = state_.get()] { state->CloseAcceptors(); });
}

void HttpListener::Stop() {
  MutexLock lock(state_->stop_mutex);
  if (state_->stopped) return;
  state_->stopped = true;
  BeginShutdown();
  for (const auto& loop : state_->loops) {
    loop->Post([raw = loop.get()] { raw->CloseWhenIdle(); });
  }
  state_->shared->WaitForNone(state_->shared->limits.drain_timeout_ms);
  // The first loop hands connections to the others: it ends first. No context goes before every
  // thread is joined.
  state_->loops[0]->Stop([state = state_.get()] { state->CloseAcceptors(); });
  state_->tcp_acceptors.clear();
  state_->local_acceptor.reset();
  for (const auto& loop : state_->loops)
    loop->Stop({});
  for (const auto& loop : state_->loops)
    loop->DestroyContext();
}

}  // namespace tenuto
