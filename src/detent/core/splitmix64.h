#pragma once

#include <cstdint>

namespace detent {

/// Between states of splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
/// generators").
constexpr uint64_t kSplitmixStep = 0x9E3779B97F4A7C15U;

/// The number that it gives in this state.
constexpr uint64_t splitmix64(uint64_t state) {
  state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9U;
  state = (state ^ state >> 27) * 0x94D049BB133111EBU;
  return state ^ state >> 31;
}

}  // namespace detent
