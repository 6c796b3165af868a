#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/workers/rendezvous_messages.h"
#include "detent/workers/socket.h"

namespace detent {

/// The table of the first worker, and a thread that serves it to the others. Who is no worker of this group
/// is refused at once, with a warning that has its address.
class RendezvousServer {
 public:
  explicit RendezvousServer(const WorkerEnvironment& workers);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  void set(const std::string& key, std::span<const std::byte> value);
  std::optional<std::vector<std::byte>> find(const std::string& key);

  /// Drops the entries whose keys begin with `prefix`.
  void forget(const std::string& prefix);

  /// The workers that are not there; none as soon as all were.
  std::vector<uint32_t> missing_workers();

  std::string local_address() const { return listener_.local_address(); }
  /// "refused 127.0.0.1:40123: it has another secret": the first of those that were, "" where none was.
  std::string refusals();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Socket socket;
    std::string address;
    Clock::time_point deadline;  // of who is not let in
    Nonce nonce = random_nonce();
    std::optional<uint32_t> rank = {};  // of who is
    std::vector<std::byte> received = {};
  };

  std::vector<uint32_t> missing_in_table() const;
  void serve();
  void welcome();
  bool take_news(Connection& connection);
  bool judge(Connection& connection);
  Answer answer_to(const Connection& connection, const Request& request) const;
  std::string reason_of(Answer answer, const Request& request) const;
  bool carry_out(Connection& connection, const Head& head);
  void refuse(const Connection& connection, const std::string& reason);
  void take_leave(const Connection& connection);

  const WorkerEnvironment workers_;
  Socket listener_;
  std::array<int, 2> wake_{};
  std::list<Connection> connections_;  // of the thread
  std::mutex mutex_;
  std::map<std::string, std::vector<std::byte>> table_;
  bool were_all_there_ = false;
  std::vector<std::string> refusals_;
  std::thread thread_;
};

}  // namespace detent
