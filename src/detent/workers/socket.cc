#include "detent/workers/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) fail("address {}: {}", address, gai_strerror(error));
  return {found, &freeaddrinfo};
}

Socket open_socket(const addrinfo& address) {
  return Socket(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int left_milliseconds(Socket::Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Socket::Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

/// Whether the connection that was begun is there.
bool is_connected(int descriptor) {
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) close(descriptor_);
}
Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket Socket::listen_on(const std::string& address, int port) {
  const Addresses addresses = resolve(address, port);
  int problem = 0;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    Socket listener = open_socket(*each);
    const int yes = 1;
    if (listener.is_open()) setsockopt(listener.descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (listener.is_open() && bind(listener.descriptor_, each->ai_addr, each->ai_addrlen) == 0 &&
        listen(listener.descriptor_, SOMAXCONN) == 0) {
      return listener;
    }
    problem = errno;
  }
  if (problem == EADDRNOTAVAIL) fail("{} is no address of this machine", address);
  fail("cannot listen on {}:{}: {}", address, port, std::strerror(problem));
}

Socket Socket::connect_to(const std::string& address, int port, Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kPause{50};
  while (true) {
    const Addresses addresses = resolve(address, port);
    for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
      Socket socket = open_socket(*each);
      if (!socket.is_open()) continue;
      if (connect(socket.descriptor_, each->ai_addr, each->ai_addrlen) != 0 && errno != EINPROGRESS) continue;
      pollfd waited{socket.descriptor_, POLLOUT, 0};
      if (poll(&waited, 1, left_milliseconds(deadline)) != 1 || !is_connected(socket.descriptor_)) continue;
      const int yes = 1;
      setsockopt(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
      return socket;
    }
    if (Clock::now() + kPause >= deadline) fail("nobody answers at {}:{}", address, port);
    std::this_thread::sleep_for(kPause);
  }
}

Socket Socket::accept() const {
  Socket accepted(accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int yes = 1;
  if (accepted.is_open()) setsockopt(accepted.descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return accepted;
}

std::string Socket::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> text{};
  if (getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    fail("cannot tell the address of a connection: {}", std::strerror(errno));
  }
  return text.data();
}

std::string Socket::peer_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const bool known = getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                     getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
                                 port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) == 0;
  return known ? fmt::format("{}:{}", host.data(), port.data()) : "?";
}

void Socket::wait_readable(Clock::time_point deadline) const { wait(POLLIN, deadline); }

void Socket::wait(short events, Clock::time_point deadline) const {
  while (true) {
    pollfd waited{descriptor_, events, 0};
    const int ready = poll(&waited, 1, left_milliseconds(deadline));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) fail("poll: {}", std::strerror(errno));
    if (Clock::now() >= deadline) fail("the other side is silent");
  }
}

void Socket::send(std::span<const std::byte> bytes, Clock::time_point deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait(POLLOUT, deadline);
    } else if (errno != EINTR) {
      fail("the connection broke: {}", std::strerror(errno));
    }
  }
}

void Socket::receive(std::span<std::byte> bytes, Clock::time_point deadline) const {
  while (!bytes.empty()) {
    const ssize_t count = recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (count == 0) fail("the other side has hung up");
    if (count > 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait(POLLIN, deadline);
    } else if (errno != EINTR) {
      fail("the connection broke: {}", std::strerror(errno));
    }
  }
}

bool Socket::receive_some(std::vector<std::byte>& bytes, size_t most) const {
  std::array<std::byte, 65536> buffer;  // NOLINT(*-member-init): only what recv writes is read
  const size_t room = std::min(buffer.size(), most);
  const ssize_t count = room == 0 ? 0 : recv(descriptor_, buffer.data(), room, 0);
  if (count > 0) bytes.insert(bytes.end(), buffer.begin(), buffer.begin() + count);
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

}  // namespace detent
