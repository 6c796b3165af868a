#include "detent/workers/rendezvous_messages.h"

#include <sys/random.h>

#include <algorithm>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/xxh64.h"
#include "detent/files/checksums.h"

namespace detent {

Nonce random_nonce() {
  Nonce nonce{};
  DETENT_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()), "getrandom");
  return nonce;
}

Request request_of(const WorkerEnvironment& workers) {
  Request request;
  request.nonce = random_nonce();
  request.job = xxh64(workers.job);
  request.rank = static_cast<uint32_t>(workers.rank);
  request.size = static_cast<uint32_t>(workers.size);
  return request;
}

Mac mac_of(const std::string& secret, std::string_view speaker, const Nonce& first, const Request& request) {
  std::vector<std::byte> message;
  const auto add = [&](std::span<const std::byte> bytes) {
    message.insert(message.end(), bytes.begin(), bytes.end());
  };
  add(std::as_bytes(std::span(speaker)));
  add(first);
  add(request.nonce);
  add(bytes_of(request.job));
  add(bytes_of(request.rank));
  add(bytes_of(request.size));
  const std::string text = hmac_sha256(std::as_bytes(std::span(secret)), message);
  Mac mac{};
  std::ranges::copy(text, mac.begin());
  return mac;
}

bool same(const Mac& a, const Mac& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

std::string arrival_key(uint32_t rank) { return fmt::format("worker {}", rank); }
std::string departure_key(int rank) { return fmt::format("worker {} has ended", rank); }

}  // namespace detent
