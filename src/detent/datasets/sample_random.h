#pragma once

#include <cstdint>

#include "detent/core/random_numbers.h"

namespace detent {

/// SplitMix64, seeded by what its numbers shall depend on.
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, int64_t epoch, int64_t index) {
    for (const uint64_t part : {seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(index)}) {
      state_ = next() ^ part;
    }
  }

  /// In [0, count), count < 2^32.
  int64_t below(int64_t count) {
    return static_cast<int64_t>((next() >> 32) * static_cast<uint64_t>(count) >> 32);
  }
  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t next() {
    state_ += kSplitmixStep;
    return splitmix64(state_);
  }

  uint64_t state_ = 0;
};

}  // namespace detent
