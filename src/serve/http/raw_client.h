// A client that sends bytes as they are, for tests of what a server makes of them.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace tenuto {

struct RawResponse {
  int status = 0;
  std::string head;
  std::string body;  // chunks put together

  std::string Header(const std::string& name) const {
    const size_t at = head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
  boost::json::value Json() const {
    boost::system::error_code ec;
    boost::json::value value = boost::json::parse(body, ec);
    EXPECT_FALSE(ec) << head << body;
    return value;
  }
  std::string ErrorParam() const {
    const auto value = Json().at("error").at("param");
    return value.is_null() ? "" : std::string(value.as_string());
  }
};

// One connection. Reads wait at most 30 s.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Connect(&address, sizeof(address));
  }
  explicit RawClient(const std::string& path)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    path.copy(address.sun_path, path.size());
    Connect(&address, sizeof(address));
  }
  ~RawClient() { Close(); }
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}
  RawClient(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void CloseSending() { ::shutdown(fd_, SHUT_WR); }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // the server closed: what it said is still to be read
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }

  // Everything up to and with `mark`, or what came before the end.
  std::string ReadUntil(const std::string& mark) {
    while (buffer_.find(mark) == std::string::npos) {
      if (!Fill()) return std::exchange(buffer_, {});
    }
    const size_t end = buffer_.find(mark) + mark.size();
    std::string found = buffer_.substr(0, end);
    buffer_.erase(0, end);
    return found;
  }
  // True: the server closed, and nothing was left.
  bool AtEnd() {
    if (!buffer_.empty()) return false;
    return !Fill() && buffer_.empty();
  }

  RawResponse Read(bool head_only = false) {
    RawResponse response;
    response.head = ReadUntil("\r\n\r\n");
    if (response.head.size() > 12) response.status = std::atoi(response.head.c_str() + 9);
    if (head_only || response.status == 100 || response.status == 204) return response;
    if (response.Header("Transfer-Encoding") == "chunked") {
      while (true) {
        const std::string line = ReadUntil("\r\n");
        const size_t size = std::strtoul(line.c_str(), nullptr, 16);
        response.body += ReadBytes(size);
        if (ReadUntil("\r\n") != "\r\n" || size == 0) break;
      }
    } else if (const std::string length = response.Header("Content-Length"); !length.empty()) {
      response.body = ReadBytes(std::strtoul(length.c_str(), nullptr, 10));
    } else {
      while (Fill()) {
      }
      response.body = std::exchange(buffer_, {});
    }
    return response;
  }

  RawResponse Get(const std::string& target, const std::string& headers = "") {
    Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return Read();
  }
  void SendPost(const std::string& target, const std::string& body,
                const std::string& headers = "") {
    Send("POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  RawResponse Post(const std::string& target, const std::string& body,
                   const std::string& headers = "") {
    SendPost(target, body, headers);
    return Read();
  }

 private:
  template <typename Address>
  void Connect(const Address* address, socklen_t size) {
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(address), size) == 0;
  }
  bool Fill() {
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, 30'000) <= 0) {
      ADD_FAILURE() << "no bytes for 30 s; so far: " << buffer_.substr(0, 500);
      return false;
    }
    char bytes[16'384];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  std::string ReadBytes(size_t n) {
    while (buffer_.size() < n) {
      if (!Fill()) break;
    }
    std::string bytes = buffer_.substr(0, n);
    buffer_.erase(0, n);
    return bytes;
  }

  int fd_;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace tenuto
