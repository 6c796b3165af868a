#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace detent {

/// A TCP socket, closed at the end. What waits does so until a deadline and throws Error then.
class Socket {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// Listens on `address` (a name or a number) and nothing else.
  static Socket listen_on(const std::string& address, int port);
  /// Tries again while nobody listens there.
  static Socket connect_to(const std::string& address, int port, Clock::time_point deadline);
  /// Not open when nobody is waiting.
  Socket accept() const;

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  std::string local_address() const;
  /// With its port, "127.0.0.1:40123"; "?" when the other side is gone.
  std::string peer_address() const;

  /// Until something has come, or the other side has hung up.
  void wait_readable(Clock::time_point deadline) const;

  void send(std::span<const std::byte> bytes, Clock::time_point deadline) const;
  void receive(std::span<std::byte> bytes, Clock::time_point deadline) const;
  /// Appends what has come, up to `most` bytes; false when the other side has hung up.
  bool receive_some(std::vector<std::byte>& bytes, size_t most) const;

 private:
  void wait(short events, Clock::time_point deadline) const;

  int descriptor_;
};

}  // namespace detent
