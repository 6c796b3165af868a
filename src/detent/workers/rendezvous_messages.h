#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "detent/core/process_group.h"

// The first worker sends a Greeting, the other one a Request to be let in, the first a Verdict. Then the
// other sends messages: a Head, a key, a value; and gets a Reply and, for a key that was found, its value.

namespace detent {

static_assert(std::endian::native == std::endian::little);

constexpr std::array kMagic = {'d', 'e', 't', 'e', 'n', 't', ' ', 'w',
                               'o', 'r', 'k', 'e', 'r', 's', ' ', '2'};
constexpr uint32_t kMostKey = 256;
constexpr uint32_t kMostValue = 64 * 1024;

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<char, 64>;

struct Greeting {
  std::array<char, 16> magic = kMagic;
  Nonce nonce{};
};

struct Request {
  std::array<char, 16> magic = kMagic;
  Nonce nonce{};
  uint64_t job = 0;  // XXH64 of the launcher's name for it
  uint32_t rank = 0;
  uint32_t size = 0;
  Mac mac{};
};
static_assert(sizeof(Request) == 128);

enum class Answer : uint32_t { kWelcome, kOtherSecret, kOtherJob, kOtherSize, kRankIsTaken };

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

Nonce random_nonce();

/// A worker's request, but for the mac.
Request request_of(const WorkerEnvironment& workers);

/// Authenticates who speaks, the nonces of both and what is claimed. With both nonces no message can be
/// replayed.
Mac mac_of(const std::string& secret, std::string_view speaker, const Nonce& first, const Request& request);

/// In a time that does not tell where they differ.
bool same(const Mac& a, const Mac& b);

/// The key that a worker sets first.
std::string arrival_key(uint32_t rank);
/// The key that is there when a worker has left after all had come.
std::string departure_key(int rank);

}  // namespace detent
