#include "detent/workers/rendezvous_server.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/xxh64.h"

namespace detent {
namespace {

constexpr std::chrono::seconds kToBeLetIn{10};
constexpr size_t kMostStrangers = 64;
constexpr size_t kMostRefusals = 8;  // that are told

bool is_stranger(const auto& connection) { return !connection.rank.has_value(); }

/// Whether what has come so far may be a request.
bool begins_with_magic(std::span<const std::byte> received) {
  const size_t count = std::min(received.size(), kMagic.size());
  return std::memcmp(received.data(), kMagic.data(), count) == 0;
}

bool answer(const Socket& socket, std::span<const std::byte> bytes) {
  try {
    socket.send(bytes, Socket::Clock::now() + std::chrono::seconds(1));
    return true;
  } catch (const Error&) {
    return false;  // who does not read is no worker any more
  }
}

}  // namespace

RendezvousServer::RendezvousServer(const WorkerEnvironment& workers)
    : workers_(workers), listener_(Socket::listen_on(workers.address, workers.port)) {
  if (pipe2(wake_.data(), O_CLOEXEC) != 0) fail("pipe: {}", std::strerror(errno));
  thread_ = std::thread([this] { serve(); });
}

RendezvousServer::~RendezvousServer() {
  close(wake_[1]);
  thread_.join();
  close(wake_[0]);
}

void RendezvousServer::set(const std::string& key, std::span<const std::byte> value) {
  const std::lock_guard lock(mutex_);
  table_[key].assign(value.begin(), value.end());
  if (!were_all_there_) were_all_there_ = missing_in_table().empty();
}

std::vector<uint32_t> RendezvousServer::missing_in_table() const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(workers_.size); ++rank) {
    if (!table_.contains(arrival_key(rank))) missing.push_back(rank);
  }
  return missing;
}

std::vector<uint32_t> RendezvousServer::missing_workers() {
  const std::lock_guard lock(mutex_);
  return were_all_there_ ? std::vector<uint32_t>() : missing_in_table();
}

std::optional<std::vector<std::byte>> RendezvousServer::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = table_.find(key);
  return found == table_.end() ? std::nullopt : std::optional(found->second);
}

void RendezvousServer::forget(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  auto each = table_.lower_bound(prefix);
  while (each != table_.end() && each->first.starts_with(prefix)) each = table_.erase(each);
}

std::string RendezvousServer::refusals() {
  const std::lock_guard lock(mutex_);
  return fmt::format("{}", fmt::join(refusals_, "; "));
}

void RendezvousServer::serve() {
  while (true) {
    std::vector<pollfd> waited = {{wake_[0], POLLIN, 0}, {listener_.descriptor(), POLLIN, 0}};
    for (const Connection& connection : connections_)
      waited.push_back({connection.socket.descriptor(), POLLIN, 0});
    poll(waited.data(), waited.size(), 1000);
    if (waited[0].revents != 0) return;
    size_t i = 2;
    for (auto each = connections_.begin(); each != connections_.end(); ++i) {
      const bool is_late = is_stranger(*each) && Clock::now() >= each->deadline;
      if (is_late) refuse(*each, "it does not say what it wants");
      const bool ends = is_late || (waited[i].revents != 0 && !take_news(*each));
      if (ends) take_leave(*each);
      each = ends ? connections_.erase(each) : std::next(each);
    }
    if (waited[1].revents != 0) welcome();
  }
}

void RendezvousServer::welcome() {
  Socket socket = listener_.accept();
  if (!socket.is_open()) return;
  if (std::ranges::count_if(connections_, is_stranger<Connection>) >=
      static_cast<std::ptrdiff_t>(kMostStrangers)) {
    connections_.erase(std::ranges::find_if(connections_, is_stranger<Connection>));
  }
  std::string address = socket.peer_address();
  Connection& connection =
      connections_.emplace_back(Connection{std::move(socket), std::move(address), Clock::now() + kToBeLetIn});
  Greeting greeting;
  greeting.nonce = connection.nonce;
  answer(connection.socket, bytes_of(greeting));
}

/// False when the connection is to be closed.
bool RendezvousServer::take_news(Connection& connection) {
  const size_t most = is_stranger(connection) ? sizeof(Request) : sizeof(Head) + kMostKey + kMostValue;
  std::vector<std::byte>& received = connection.received;
  if (!connection.socket.receive_some(received, most - received.size())) return false;
  if (is_stranger(connection)) {
    if (!begins_with_magic(received)) {
      refuse(connection, "it is no worker of this version of detent");
      return false;
    }
    return received.size() < sizeof(Request) || judge(connection);
  }
  while (received.size() >= sizeof(Head)) {
    const Head head = read_as<Head>(received);
    if (head.key > kMostKey || head.value > kMostValue) return false;
    const size_t size = sizeof(Head) + head.key + head.value;
    if (received.size() < size) return true;
    if (!carry_out(connection, head)) return false;
    received.erase(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return true;
}

bool RendezvousServer::judge(Connection& connection) {
  const Request request = read_as<Request>(connection.received);
  connection.received.clear();
  Verdict verdict{.answer = answer_to(connection, request)};
  if (verdict.answer != Answer::kOtherSecret)
    verdict.mac = mac_of(workers_.secret, "first worker", connection.nonce, request);
  if (verdict.answer == Answer::kWelcome) {
    connection.rank = request.rank;
  } else {
    refuse(connection, reason_of(verdict.answer, request));
  }
  return answer(connection.socket, bytes_of(verdict)) && !is_stranger(connection);
}

Answer RendezvousServer::answer_to(const Connection& connection, const Request& request) const {
  if (!same(request.mac, mac_of(workers_.secret, "worker", connection.nonce, request)))
    return Answer::kOtherSecret;
  if (request.job != xxh64(workers_.job)) return Answer::kOtherJob;
  const bool fits =
      request.size == static_cast<uint32_t>(workers_.size) && request.rank > 0 && request.rank < request.size;
  if (!fits) return Answer::kOtherSize;
  const bool is_taken =
      std::ranges::find(connections_, request.rank, &Connection::rank) != connections_.end();
  return is_taken ? Answer::kRankIsTaken : Answer::kWelcome;
}

std::string RendezvousServer::reason_of(Answer answer, const Request& request) const {
  if (answer == Answer::kOtherSecret) return "it has another secret (DETENT_WORKER_SECRET)";
  if (answer == Answer::kOtherJob) return "the launcher started it for another job";
  if (answer == Answer::kOtherSize)
    return fmt::format("it is worker {} of {}, expected one of {}", request.rank, request.size,
                       workers_.size);
  const auto there = std::ranges::find(connections_, request.rank, &Connection::rank);
  return fmt::format("worker {} is there already, from {}", request.rank, there->address);
}

bool RendezvousServer::carry_out(Connection& connection, const Head& head) {
  const auto* text = reinterpret_cast<const char*>(connection.received.data() + sizeof(Head));
  const std::string key(text, head.key);
  Reply reply;
  std::vector<std::byte> value;
  if (head.operation == Operation::kSet) {
    set(key, std::span(connection.received).subspan(sizeof(Head) + head.key, head.value));
    reply.found = 1;
  } else if (auto found = find(key)) {
    value = std::move(*found);
    reply = {1, static_cast<uint32_t>(value.size())};
  }
  return answer(connection.socket, bytes_of(reply)) && answer(connection.socket, value);
}

void RendezvousServer::refuse(const Connection& connection, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (refusals_.size() == kMostRefusals) return;
  refusals_.push_back(fmt::format("refused {}: {}", connection.address, reason));
  log_warning("worker 0 of {} at {}:{} {}", workers_.size, workers_.address, workers_.port, refusals_.back());
}

/// Who leaves before all were there may come again, or another in its place; later the table says so.
void RendezvousServer::take_leave(const Connection& connection) {
  if (is_stranger(connection)) return;
  const std::lock_guard lock(mutex_);
  if (were_all_there_) {
    table_[departure_key(static_cast<int>(*connection.rank))] = {};
    return;
  }
  table_.erase(arrival_key(*connection.rank));
  log_warning("worker {} of {}, from {}, left before all were there", *connection.rank, workers_.size,
              connection.address);
}

}  // namespace detent
