#include "detent/core/xxh64.h"

#include <array>
#include <bit>
#include <cstring>

namespace detent {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

uint64_t round(uint64_t state, uint64_t input) { return std::rotl(state + input * kPrime2, 31) * kPrime1; }

uint64_t merged(uint64_t hash, uint64_t state) { return (hash ^ round(0, state)) * kPrime1 + kPrime4; }

/// Hashes whole stripes of 32 bytes, four words side by side.
uint64_t hash_stripes(std::span<const std::byte> bytes, uint64_t seed) {
  std::array<uint64_t, 4> states = {seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
  for (size_t i = 0; i < bytes.size(); i += 8 * states.size()) {
    for (size_t lane = 0; lane < states.size(); ++lane) {
      states[lane] = round(states[lane], load<uint64_t>(bytes.data() + i + 8 * lane));
    }
  }
  uint64_t hash =
      std::rotl(states[0], 1) + std::rotl(states[1], 7) + std::rotl(states[2], 12) + std::rotl(states[3], 18);
  for (const uint64_t state : states) hash = merged(hash, state);
  return hash;
}

}  // namespace

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed) {
  constexpr size_t kStripe = 32;
  const size_t striped = bytes.size() / kStripe * kStripe;
  uint64_t hash = striped == 0 ? seed + kPrime5 : hash_stripes(bytes.first(striped), seed);
  hash += bytes.size();
  std::span<const std::byte> rest = bytes.subspan(striped);
  for (; rest.size() >= 8; rest = rest.subspan(8)) {
    hash = std::rotl(hash ^ round(0, load<uint64_t>(rest.data())), 27) * kPrime1 + kPrime4;
  }
  if (rest.size() >= 4) {
    hash = std::rotl(hash ^ (load<uint32_t>(rest.data()) * kPrime1), 23) * kPrime2 + kPrime3;
    rest = rest.subspan(4);
  }
  for (const std::byte byte : rest) {
    hash = std::rotl(hash ^ (std::to_integer<uint64_t>(byte) * kPrime5), 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t xxh64(std::string_view text, uint64_t seed) { return xxh64(std::as_bytes(std::span(text)), seed); }

}  // namespace detent
