#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace detent {

struct HttpRequest {
  std::string path;
  size_t begin = 0;  // of "Range: bytes=begin-"
};

/// An answer of the server, and its misbehaviour.
struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string location = {};                        // of a redirect
  size_t cut = std::numeric_limits<size_t>::max();  // bytes of the body after which the connection is closed
  size_t stall = std::numeric_limits<size_t>::max();  // ... after which nothing more comes
  int pause = 0;                                      // milliseconds after each 100 bytes
  bool ranges = true;                                 // false: always all of it
  bool says_length = true;
};

/// A small HTTP/1.1 server on loopback: one request a connection, one connection at a time.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    stopping_ = true;
    thread_.join();
    close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& path = "/") const {
    return fmt::format("http://127.0.0.1:{}{}", port_, path);
  }
  /// "/a.gz from 100", in order.
  std::vector<std::string> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  bool wait_readable(int descriptor, int milliseconds) const {
    pollfd waited{descriptor, POLLIN, 0};
    return poll(&waited, 1, milliseconds) > 0;
  }

  void serve() {
    while (!stopping_) {
      if (!wait_readable(listener_, 20)) continue;
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      answer(connection);
      close(connection);
    }
  }

  void answer(int connection) {
    std::string head;
    char buffer[4096];
    while (head.find("\r\n\r\n") == std::string::npos) {
      const ssize_t size = recv(connection, buffer, sizeof(buffer), 0);
      if (size <= 0) return;
      head.append(buffer, static_cast<size_t>(size));
    }
    HttpRequest request{head.substr(4, head.find(' ', 4) - 4)};
    const size_t range = head.find("Range: bytes=");
    if (range != std::string::npos) request.begin = std::strtoul(head.c_str() + range + 13, nullptr, 10);
    {
      const std::lock_guard lock(mutex_);
      log_.push_back(fmt::format("{} from {}", request.path, request.begin));
    }
    send_reply(connection, request, handler_(request));
  }

  void send_reply(int connection, const HttpRequest& request, HttpReply reply) {
    std::string fields;
    if (reply.status == 200 && reply.ranges && request.begin > 0) {
      reply.status = request.begin < reply.body.size() ? 206 : 416;
      fields += fmt::format("Content-Range: bytes {}-{}/{}\r\n", request.begin, reply.body.size() - 1,
                            reply.body.size());
      reply.body.erase(0, request.begin);
    }
    if (!reply.location.empty()) fields += fmt::format("Location: {}\r\n", reply.location);
    if (reply.says_length) fields += fmt::format("Content-Length: {}\r\n", reply.body.size());
    send_all(connection, fmt::format("HTTP/1.1 {} X\r\nConnection: close\r\n{}\r\n", reply.status, fields));
    const std::string sent = reply.body.substr(0, std::min(reply.cut, reply.stall));
    if (reply.pause == 0) {
      send_all(connection, sent);
    } else {
      for (size_t i = 0; i < sent.size() && !stopping_ && !wait_readable(connection, reply.pause); i += 100) {
        send_all(connection, std::string_view(sent).substr(i, 100));
      }
    }
    if (reply.stall >= reply.body.size()) return;
    while (!stopping_ && !wait_readable(connection, 20)) {
    }  // until the client hangs up
  }

  static void send_all(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }

  Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
  std::thread thread_;
};

}  // namespace detent
