#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/process_group.h"

namespace detent {

/// Where workers find each other: a small table of bytes at the first worker, which listens on the address
/// that the launcher gave and no other. A worker is let in when it proves that it knows the secret
/// (workers.secret; HMAC-SHA-256 of random numbers of both sides), is of the same job, gives the same number
/// of workers and a rank that none of those has who are there; before that, nothing is kept of it but 128
/// bytes. Who is refused is told so at once, and the first worker warns with its address. What is said
/// afterwards is neither encrypted nor authenticated.
class Rendezvous {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns when all workers are there. Throws Error when that takes longer than `timeout`, with the ranks
  /// that are missing, when the address is none of this machine's (first worker), or when this worker is
  /// refused.
  Rendezvous(const WorkerEnvironment& workers, std::chrono::milliseconds timeout);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// At most 64 KiB; of the key 256 bytes. Throws Error when the first worker is gone or silent.
  void set(const std::string& key, std::span<const std::byte> value);
  std::optional<std::vector<std::byte>> find(const std::string& key);
  /// Waits for it until the deadline, Error then; and Error as soon as `unless` is there and the key is not.
  std::vector<std::byte> get(const std::string& key, Clock::time_point deadline,
                             const std::string& unless = "");
  /// At the first worker drops what keys beginning with `prefix` hold.
  void forget(const std::string& prefix);

  /// This machine's numeric address, the one that reaches the first worker.
  const std::string& local_address() const;

 private:
  class Peer;    // a way to the table
  class Server;  // the table, and a thread that serves it to the others
  class Client;
  std::unique_ptr<Peer> peer_;
};

/// Whether others than the machines of a private network can reach it (RFC 1918, RFC 4193, link-local,
/// loopback); false for names that do not resolve.
bool is_public_address(const std::string& address);

}  // namespace detent
