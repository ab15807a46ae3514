// For tests: an HTTP server that answers what the test says, one request per connection. It knows
// nothing of HTTP but where a request ends. Destroying it joins its thread.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tenuto {

struct CannedRequest {
  std::string head;  // request line and headers
  std::string body;
  std::string Line() const { return head.substr(0, head.find('\r')); }
};

class CannedServer {
 public:
  // Whole bytes of an answer; "" hangs up. With kHold in its head the connection stays open until
  // the client hangs up.
  using Handler = std::function<std::string(const CannedRequest&)>;

  // On a free port of 127.0.0.1, or on the Unix socket at `path`.
  explicit CannedServer(Handler handler, const std::string& path = "")
      : handler_(std::move(handler)) {
    listener_ = path.empty() ? ListenTcp() : ListenUnix(path);
    EXPECT_EQ(::listen(listener_, 16), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~CannedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  CannedServer(const CannedServer&) = delete;
  CannedServer& operator=(const CannedServer&) = delete;

  static constexpr const char* kHold = "X-Hold: 1\r\n";

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<CannedRequest> requests() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }

  static std::string Json(int status, const std::string& body) {
    return "HTTP/1.1 " + std::to_string(status) +
           " X\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
  }
  static std::string Events(const std::vector<std::string>& events) {
    std::string text =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    for (const auto& event : events)
      text += "data: " + event + "\n\n";
    return text;
  }

 private:
  int ListenTcp() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    return socket;
  }
  int ListenUnix(const std::string& path) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }

  void Run() {
    for (;;) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      const CannedRequest request = ReadRequest(connection);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        requests_.push_back(request);
      }
      const std::string answer = handler_(request);
      for (size_t at = 0; at < answer.size();) {
        const ssize_t sent =
            ::send(connection, answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) break;
        at += static_cast<size_t>(sent);
      }
      char byte = 0;
      if (answer.find(kHold) != std::string::npos) {
        while (::recv(connection, &byte, 1, 0) > 0) {
        }
      }
      ::close(connection);
    }
  }

  static CannedRequest ReadRequest(int connection) {
    std::string text;
    size_t body_at = std::string::npos, wanted = 0;
    char bytes[4096];
    for (;;) {
      if (body_at == std::string::npos && text.find("\r\n\r\n") != std::string::npos) {
        body_at = text.find("\r\n\r\n") + 4;
        const size_t length = text.find("Content-Length: ");
        if (length < body_at) wanted = std::stoul(text.substr(length + 16));
      }
      if (body_at != std::string::npos && text.size() >= body_at + wanted) break;
      const ssize_t count = ::recv(connection, bytes, sizeof bytes, 0);
      if (count <= 0) break;
      text.append(bytes, static_cast<size_t>(count));
    }
    if (body_at == std::string::npos) return {text, ""};
    return {text.substr(0, body_at), text.substr(body_at)};
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<CannedRequest> requests_;
};

}  // namespace tenuto
