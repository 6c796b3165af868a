#include "detent/training/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#include "detent/core/error.h"
#include "detent/io/digest.h"
#include "detent/training/socket.h"

// The first worker sends a Greeting, the other one a Request to be let in, the first a Verdict. Then the
// other sends messages: a Head, a key, a value; and gets a Reply and, for a key that was found, its value.

namespace detent {
namespace {

static_assert(std::endian::native == std::endian::little);

using Clock = Rendezvous::Clock;

constexpr std::array kMagic = {'d', 'e', 't', 'e', 'n', 't', ' ', 'w',
                               'o', 'r', 'k', 'e', 'r', 's', ' ', '1'};
constexpr uint32_t kMostKey = 256;
constexpr uint32_t kMostValue = 64 * 1024;
constexpr std::chrono::seconds kToBeLetIn{10};
constexpr size_t kMostStrangers = 64;

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<char, 64>;

struct Greeting {
  std::array<char, 16> magic = kMagic;
  Nonce nonce{};
};

struct Request {
  std::array<char, 16> magic = kMagic;
  Nonce nonce{};
  uint32_t rank = 0;
  uint32_t size = 0;
  Mac mac{};
};
static_assert(sizeof(Request) == 120);

enum class Answer : uint32_t { kWelcome, kOtherSecret, kOtherSize };

struct Verdict {
  Answer answer = Answer::kOtherSecret;
  Mac mac{};
};

enum class Operation : uint32_t { kSet, kFind };

struct Head {
  Operation operation = Operation::kFind;
  uint32_t key = 0;    // bytes
  uint32_t value = 0;  // bytes
};

struct Reply {
  uint32_t found = 0;
  uint32_t value = 0;  // bytes
};

template <class T>
std::span<const std::byte> bytes_of(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

template <class T>
T read_as(std::span<const std::byte> bytes) {
  T object;
  std::memcpy(&object, bytes.data(), sizeof(T));
  return object;
}

Nonce random_nonce() {
  Nonce nonce{};
  DETENT_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()), "getrandom");
  return nonce;
}

/// Authenticates who speaks, the nonces of both and what is claimed. With both nonces no message can be
/// replayed.
Mac mac_of(const std::string& secret, std::string_view speaker, const Nonce& first, const Request& request) {
  std::vector<std::byte> message;
  const auto add = [&](std::span<const std::byte> bytes) {
    message.insert(message.end(), bytes.begin(), bytes.end());
  };
  add(std::as_bytes(std::span(speaker)));
  add(first);
  add(request.nonce);
  add(bytes_of(request.rank));
  add(bytes_of(request.size));
  const std::string text = hmac_sha256(std::as_bytes(std::span(secret)), message);
  Mac mac{};
  std::ranges::copy(text, mac.begin());
  return mac;
}

/// In a time that does not tell where they differ.
bool same(const Mac& a, const Mac& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::string arrival_key(int rank) { return fmt::format("worker {}", rank); }

}  // namespace

class Rendezvous::Peer {
 public:
  virtual ~Peer() = default;
  virtual void set(const std::string& key, std::span<const std::byte> value) = 0;
  virtual std::optional<std::vector<std::byte>> find(const std::string& key) = 0;
  std::string local_address;
};

class Rendezvous::Server final : public Rendezvous::Peer {
 public:
  explicit Server(const WorkerEnvironment& workers)
      : workers_(workers), listener_(Socket::listen_on(workers.address, workers.port)) {
    local_address = listener_.local_address();
    if (pipe2(wake_.data(), O_CLOEXEC) != 0) fail("pipe: {}", std::strerror(errno));
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() override {
    close(wake_[1]);
    thread_.join();
    close(wake_[0]);
  }

  void set(const std::string& key, std::span<const std::byte> value) override {
    const std::lock_guard lock(mutex_);
    table_[key].assign(value.begin(), value.end());
  }
  std::optional<std::vector<std::byte>> find(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = table_.find(key);
    return found == table_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  struct Connection {
    Socket socket;
    Nonce nonce = random_nonce();
    bool is_let_in = false;
    Clock::time_point deadline = Clock::now() + kToBeLetIn;  // of who is not let in
    std::vector<std::byte> received = {};
  };

  void serve() {
    while (true) {
      std::vector<pollfd> waited = {{wake_[0], POLLIN, 0}, {listener_.descriptor(), POLLIN, 0}};
      for (const Connection& connection : connections_)
        waited.push_back({connection.socket.descriptor(), POLLIN, 0});
      poll(waited.data(), waited.size(), 1000);
      if (waited[0].revents != 0) return;
      size_t i = 2;
      for (auto each = connections_.begin(); each != connections_.end(); ++i) {
        const bool has_news = waited[i].revents != 0;
        const bool is_late = !each->is_let_in && Clock::now() >= each->deadline;
        each = is_late || (has_news && !take_news(*each)) ? connections_.erase(each) : std::next(each);
      }
      if (waited[1].revents != 0) welcome();
    }
  }

  void welcome() {
    Socket socket = listener_.accept();
    if (!socket.is_open()) return;
    const auto is_stranger = [](const Connection& connection) { return !connection.is_let_in; };
    if (std::ranges::count_if(connections_, is_stranger) >= static_cast<std::ptrdiff_t>(kMostStrangers)) {
      connections_.erase(std::ranges::find_if(connections_, is_stranger));
    }
    Connection& connection = connections_.emplace_back(Connection{std::move(socket)});
    Greeting greeting;
    greeting.nonce = connection.nonce;
    answer(connection, bytes_of(greeting));
  }

  /// False when the connection is to be closed.
  bool take_news(Connection& connection) {
    const size_t most = connection.is_let_in ? sizeof(Head) + kMostKey + kMostValue : sizeof(Request);
    if (!connection.socket.receive_some(connection.received, most - connection.received.size())) return false;
    if (!connection.is_let_in) return connection.received.size() < sizeof(Request) || judge(connection);
    while (connection.received.size() >= sizeof(Head)) {
      const Head head = read_as<Head>(connection.received);
      if (head.key > kMostKey || head.value > kMostValue) return false;
      const size_t size = sizeof(Head) + head.key + head.value;
      if (connection.received.size() < size) return true;
      if (!carry_out(connection, head)) return false;
      connection.received.erase(connection.received.begin(),
                                connection.received.begin() + static_cast<std::ptrdiff_t>(size));
    }
    return true;
  }

  bool judge(Connection& connection) {
    const Request request = read_as<Request>(connection.received);
    connection.received.clear();
    Verdict verdict;
    const bool knows_secret = request.magic == kMagic &&
                              same(request.mac, mac_of(workers_.secret, "worker", connection.nonce, request));
    if (knows_secret) {
      const bool fits = request.size == static_cast<uint32_t>(workers_.size) && request.rank > 0 &&
                        request.rank < request.size;
      verdict.answer = fits ? Answer::kWelcome : Answer::kOtherSize;
      verdict.mac = mac_of(workers_.secret, "first worker", connection.nonce, request);
    }
    connection.is_let_in = verdict.answer == Answer::kWelcome;
    return answer(connection, bytes_of(verdict)) && connection.is_let_in;
  }

  bool carry_out(Connection& connection, const Head& head) {
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
    return answer(connection, bytes_of(reply)) && answer(connection, value);
  }

  static bool answer(Connection& connection, std::span<const std::byte> bytes) {
    try {
      connection.socket.send(bytes, Clock::now() + std::chrono::seconds(1));
      return true;
    } catch (const Error&) {
      return false;  // who does not read is no worker any more
    }
  }

  const WorkerEnvironment workers_;
  Socket listener_;
  std::array<int, 2> wake_{};
  std::list<Connection> connections_;  // of the thread
  std::mutex mutex_;
  std::map<std::string, std::vector<std::byte>> table_;
  std::thread thread_;
};

class Rendezvous::Client final : public Rendezvous::Peer {
 public:
  Client(const WorkerEnvironment& workers, std::chrono::milliseconds timeout)
      : timeout_(timeout),
        socket_(Socket::connect_to(workers.address, workers.port, Clock::now() + timeout)) {
    const Clock::time_point deadline = Clock::now() + timeout;
    local_address = socket_.local_address();
    const auto greeting = receive<Greeting>(deadline);
    if (greeting.magic != kMagic) fail("what listens there is no first worker of detent");
    Request request;
    request.nonce = random_nonce();
    request.rank = static_cast<uint32_t>(workers.rank);
    request.size = static_cast<uint32_t>(workers.size);
    request.mac = mac_of(workers.secret, "worker", greeting.nonce, request);
    socket_.send(bytes_of(request), deadline);
    const auto verdict = receive<Verdict>(deadline);
    if (verdict.answer == Answer::kOtherSize)
      fail("the first worker was started for another number of workers");
    if (verdict.answer != Answer::kWelcome ||
        !same(verdict.mac, mac_of(workers.secret, "first worker", greeting.nonce, request))) {
      fail("the first worker has another secret (DETENT_WORKER_SECRET)");
    }
  }

  void set(const std::string& key, std::span<const std::byte> value) override {
    call({Operation::kSet, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())}, key,
         value);
  }
  std::optional<std::vector<std::byte>> find(const std::string& key) override {
    return call({Operation::kFind, static_cast<uint32_t>(key.size()), 0}, key, {});
  }

 private:
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
  Socket socket_;
  std::mutex mutex_;
};

Rendezvous::Rendezvous(const WorkerEnvironment& workers, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  if (workers.rank == 0) {
    peer_ = std::make_unique<Server>(workers);
  } else {
    peer_ = std::make_unique<Client>(workers, timeout);
  }
  set(arrival_key(workers.rank), {});
  for (int rank = 0; rank < workers.size; ++rank) get(arrival_key(rank), deadline);
}

Rendezvous::~Rendezvous() = default;

void Rendezvous::set(const std::string& key, std::span<const std::byte> value) { peer_->set(key, value); }

std::optional<std::vector<std::byte>> Rendezvous::find(const std::string& key) { return peer_->find(key); }

std::vector<std::byte> Rendezvous::get(const std::string& key, Clock::time_point deadline) {
  std::chrono::milliseconds pause{1};
  while (true) {
    if (auto found = find(key)) return std::move(*found);
    if (Clock::now() >= deadline) fail("\"{}\" has not come in time", key);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
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
