#pragma once

#include <cstdint>

#include "detent/core/random_numbers.h"

namespace detent {

/// Stateless random numbers: the draw of element i depends on (seed, i) only, hence neither on threads nor on
/// vector widths. The low half of i is mixed with a key of (seed, high half) by two rounds of MurmurHash3's
/// 32-bit finalizer; the key is splitmix64. For dithering, not for cryptography.
struct CounterKey {
  uint32_t first;
  uint32_t second;
};

/// Key for the 2^32 elements whose index has this high half.
constexpr CounterKey counter_key(uint64_t seed, uint64_t index_high) {
  const uint64_t key = splitmix64(seed + kSplitmixStep * (index_high + 1));
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

constexpr uint32_t mix32(uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

/// 32 random bits.
constexpr uint32_t counter_draw(CounterKey key, uint32_t index_low) {
  return mix32(mix32(index_low ^ key.first) + key.second);
}

}  // namespace detent
