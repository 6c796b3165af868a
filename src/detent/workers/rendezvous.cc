#include "detent/workers/rendezvous.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/workers/rendezvous_messages.h"
#include "detent/workers/rendezvous_server.h"
#include "detent/workers/socket.h"

namespace detent {
namespace {

using Clock = Rendezvous::Clock;

constexpr std::chrono::seconds kBeforeNotice{10};
constexpr std::chrono::milliseconds kLongestPause{50};

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

/// After some seconds, and once: who waits for whom.
void give_notice(const WorkerEnvironment& workers, const std::string& awaited,
                 std::chrono::milliseconds timeout) {
  log_warning("worker {} of {} waits for {} at {}:{} (at most {}: --worker-timeout)", workers.rank,
              workers.size, awaited, workers.address, workers.port, seconds_text(timeout));
}

/// "worker 1" or "workers 1, 3".
std::string workers_text(std::span<const uint32_t> ranks) {
  return fmt::format("worker{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

class Rendezvous::Peer {
 public:
  virtual ~Peer() = default;
  virtual void set(const std::string& key, std::span<const std::byte> value) = 0;
  virtual std::optional<std::vector<std::byte>> find(const std::string& key) = 0;
  virtual void forget(const std::string&) {}
  virtual std::string refusals() { return ""; }
  /// Workers that are not there, at least one until all are.
  virtual std::vector<uint32_t> missing_workers() = 0;
  std::string local_address;
};

class Rendezvous::Server final : public Rendezvous::Peer {
 public:
  explicit Server(const WorkerEnvironment& workers) : server_(workers) {
    local_address = server_.local_address();
  }

  void set(const std::string& key, std::span<const std::byte> value) override { server_.set(key, value); }
  std::optional<std::vector<std::byte>> find(const std::string& key) override { return server_.find(key); }
  void forget(const std::string& prefix) override { server_.forget(prefix); }
  std::string refusals() override { return server_.refusals(); }
  std::vector<uint32_t> missing_workers() override { return server_.missing_workers(); }

 private:
  RendezvousServer server_;
};

class Rendezvous::Client final : public Rendezvous::Peer {
 public:
  Client(const WorkerEnvironment& workers, std::chrono::milliseconds timeout)
      : timeout_(timeout), size_(static_cast<uint32_t>(workers.size)) {
    const Clock::time_point deadline = Clock::now() + timeout;
    patiently(workers, deadline, "worker 0, which does not listen", [&](Clock::time_point until) {
      socket_ = Socket::connect_to(workers.address, workers.port, until);
    });
    local_address = socket_.local_address();
    patiently(workers, deadline, "a greeting of worker 0",
              [&](Clock::time_point until) { socket_.wait_readable(until); });
    const auto greeting = receive<Greeting>(deadline);
    if (greeting.magic != kMagic) fail("what listens there is no first worker of this version of detent");
    Request request = request_of(workers);
    request.mac = mac_of(workers.secret, "worker", greeting.nonce, request);
    socket_.send(bytes_of(request), deadline);
    const auto verdict = receive<Verdict>(deadline);
    const bool knows_secret =
        verdict.answer != Answer::kOtherSecret &&
        same(verdict.mac, mac_of(workers.secret, "first worker", greeting.nonce, request));
    if (!knows_secret) fail("the first worker has another secret (DETENT_WORKER_SECRET)");
    if (verdict.answer == Answer::kOtherJob) fail("the launcher started the first worker for another job");
    if (verdict.answer == Answer::kOtherSize)
      fail("the first worker was started for another number of workers");
    if (verdict.answer == Answer::kRankIsTaken)
      fail("the first worker has a worker {} already: is this another group's address?", workers.rank);
  }

  void set(const std::string& key, std::span<const std::byte> value) override {
    call({Operation::kSet, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())}, key,
         value);
  }
  std::optional<std::vector<std::byte>> find(const std::string& key) override {
    return call({Operation::kFind, static_cast<uint32_t>(key.size()), 0}, key, {});
  }
  /// The first of them: to ask for all each time is much for the first worker of many.
  std::vector<uint32_t> missing_workers() override {
    while (first_missing_ < size_ && find(arrival_key(first_missing_))) ++first_missing_;
    return first_missing_ == size_ ? std::vector<uint32_t>() : std::vector{first_missing_};
  }

 private:
  /// Calls wait(until), which throws Error when it is too late; gives notice where that takes long.
  template <class Wait>
  void patiently(const WorkerEnvironment& workers, Clock::time_point deadline, const char* awaited,
                 const Wait& wait) {
    const Clock::time_point notice = Clock::now() + kBeforeNotice;
    try {
      return wait(std::min(notice, deadline));
    } catch (const Error&) {
      if (notice >= deadline || Clock::now() + 2 * kLongestPause < notice) throw;
    }
    give_notice(workers, awaited, timeout_);
    wait(deadline);
  }

  template <class T>
  T receive(Clock::time_point deadline) {
    std::array<std::byte, sizeof(T)> bytes{};
    socket_.receive(bytes, deadline);
    return read_as<T>(bytes);
  }

  std::optional<std::vector<std::byte>> call(const Head& head, const std::string& key,
                                             std::span<const std::byte> value) {
    DETENT_CHECK(head.key <= kMostKey && head.value <= kMostValue, "key {} bytes, value {}", head.key,
                 head.value);
    const std::lock_guard lock(mutex_);
    const Clock::time_point deadline = Clock::now() + timeout_;
    std::vector<std::byte> message(bytes_of(head).begin(), bytes_of(head).end());
    const std::span<const std::byte> key_bytes = std::as_bytes(std::span(key));
    message.insert(message.end(), key_bytes.begin(), key_bytes.end());
    message.insert(message.end(), value.begin(), value.end());
    socket_.send(message, deadline);
    const auto reply = receive<Reply>(deadline);
    if (reply.value > kMostValue) fail("the first worker sends what is no reply");
    std::vector<std::byte> found(reply.value);
    socket_.receive(found, deadline);
    return reply.found == 0 ? std::nullopt : std::optional(std::move(found));
  }

  std::chrono::milliseconds timeout_;
  uint32_t size_;
  uint32_t first_missing_ = 0;
  Socket socket_;
  std::mutex mutex_;
};

Rendezvous::Rendezvous(const WorkerEnvironment& workers, std::chrono::milliseconds timeout) {
  const Clock::time_point begin = Clock::now();
  if (workers.rank == 0) {
    peer_ = std::make_unique<Server>(workers);
  } else {
    peer_ = std::make_unique<Client>(workers, timeout);
  }
  set(arrival_key(static_cast<uint32_t>(workers.rank)), {});
  bool gave_notice = false;
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
    const std::vector<uint32_t> missing = peer_->missing_workers();
    if (missing.empty()) return;
    const auto waited = Clock::now() - begin;
    if (waited >= timeout) {
      const std::string refusals = peer_->refusals();
      fail("{} not come within {}: did another worker stop?{}{}",
           workers_text(missing) + (missing.size() == 1 ? " has" : " have"), seconds_text(timeout),
           refusals.empty() ? "" : " ", refusals);
    }
    if (waited >= kBeforeNotice && !std::exchange(gave_notice, true))
      give_notice(workers, workers_text(missing), timeout);
    std::this_thread::sleep_for(pause);
  }
}

Rendezvous::~Rendezvous() = default;

void Rendezvous::forget(const std::string& prefix) { peer_->forget(prefix); }

void Rendezvous::set(const std::string& key, std::span<const std::byte> value) { peer_->set(key, value); }

std::optional<std::vector<std::byte>> Rendezvous::find(const std::string& key) { return peer_->find(key); }

std::vector<std::byte> Rendezvous::get(const std::string& key, Clock::time_point deadline,
                                       const std::string& unless) {
  std::chrono::milliseconds pause{1};
  while (true) {
    // In this order, as a worker leaves after its last word.
    const bool is_last_look = !unless.empty() && find(unless);
    if (auto found = find(key)) return std::move(*found);
    if (is_last_look) fail("{}, and \"{}\" has not come", unless, key);
    if (Clock::now() >= deadline) fail("\"{}\" has not come in time", key);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

const std::string& Rendezvous::local_address() const { return peer_->local_address; }

bool is_public_address(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET) {
      const uint32_t ip = ntohl(reinterpret_cast<const sockaddr_in*>(each->ai_addr)->sin_addr.s_addr);
      const bool is_private =
          ip >> 24 == 127 || ip >> 24 == 10 || ip >> 20 == 0xac1 || ip >> 16 == 0xc0a8 || ip >> 16 == 0xa9fe;
      if (!is_private) return true;
    } else if (each->ai_family == AF_INET6) {
      const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(each->ai_addr)->sin6_addr;
      const bool is_private =
          IN6_IS_ADDR_LOOPBACK(&ip) || IN6_IS_ADDR_LINKLOCAL(&ip) || (ip.s6_addr[0] & 0xfe) == 0xfc;
      if (!is_private) return true;
    }
  }
  return false;
}

}  // namespace detent
